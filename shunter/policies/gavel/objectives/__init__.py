"""Objectives: what target fractions are to achieve.

Those with a solver import numpy when they are first asked, not when they are listed.
"""

from shunter.policies.gavel.objectives.durations import FinishTimes, Makespan
from shunter.policies.gavel.objectives.fairness import (
    Hierarchical,
    Isolated,
    MaxMinFairness,
    Proportional,
    WaterFilling,
)
from shunter.policies.gavel.objectives.queues import FastestFirst, QueueAssignment
from shunter.policies.gavel.objectives.sums import ThroughputSum
from shunter.policies.gavel.objectives.trading import GandivaFair

__all__ = [
    "FastestFirst",
    "FinishTimes",
    "GandivaFair",
    "Hierarchical",
    "Isolated",
    "Makespan",
    "MaxMinFairness",
    "Proportional",
    "QueueAssignment",
    "ThroughputSum",
    "WaterFilling",
]
