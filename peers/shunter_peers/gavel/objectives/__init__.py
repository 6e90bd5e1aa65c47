"""Objectives of the public simulator that Shunter has not: they solve nothing."""

from shunter_peers.gavel.objectives.allox import Allox
from shunter_peers.gavel.objectives.pairing import PackedFifo, RandomPairs
from shunter_peers.gavel.objectives.stale_fifo import StaleFifo

__all__ = ["Allox", "PackedFifo", "RandomPairs", "StaleFifo"]
