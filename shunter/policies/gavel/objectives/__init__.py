"""Objectives: what target fractions are to achieve.

Those with a solver import numpy when they are first asked, not when they are listed.
"""

from shunter.policies.gavel.objectives.objectives import (
    FastestFirst,
    FinishTimes,
    Hierarchical,
    Isolated,
    Makespan,
    MaxMinFairness,
    Proportional,
    QueueAssignment,
    ThroughputSum,
    WaterFilling,
)
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
