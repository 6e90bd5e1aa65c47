"""Objectives of the public simulator that Shunter has not, or not like that."""

from shunter_peers.gavel.objectives.allox import Allox
from shunter_peers.gavel.objectives.centred import Centred, CentredFinishTimes
from shunter_peers.gavel.objectives.pairing import PackedFifo, RandomPairs
from shunter_peers.gavel.objectives.stale_fifo import StaleFifo

__all__ = ["Allox", "Centred", "CentredFinishTimes", "PackedFifo", "RandomPairs", "StaleFifo"]
