"""Objectives that need no solver."""

from shunter.policies.gavel.objectives.allox import Allox
from shunter.policies.gavel.objectives.queues import FastestFirst, StaleFifo
from shunter.policies.gavel.objectives.shares import Isolated, Proportional

__all__ = ["Allox", "FastestFirst", "Isolated", "Proportional", "StaleFifo"]
