"""The engine of all index policies: ranking, selection, placing."""

from shunter.core.ranking.aging import LEVELS_MOST, Aged
from shunter.core.ranking.index import (
    Index,
    Measure,
    Measured,
    Misfit,
    Note,
    NotedRanks,
    Notes,
    Ranks,
    Relative,
    Remembering,
    Weighing,
)
from shunter.core.ranking.policy import RankedPolicy
from shunter.core.ranking.ranking import Ranking

__all__ = [
    "LEVELS_MOST",
    "Aged",
    "Index",
    "Measure",
    "Measured",
    "Misfit",
    "Note",
    "NotedRanks",
    "Notes",
    "RankedPolicy",
    "Ranking",
    "Ranks",
    "Relative",
    "Remembering",
    "Weighing",
]
