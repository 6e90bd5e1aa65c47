"""The engine of all index policies: ranking, selection, placing."""

from shunter.core.ranking.policy import RankedPolicy
from shunter.core.ranking.ranking import (
    LEVELS_MOST,
    Aged,
    Index,
    Measure,
    Measured,
    Misfit,
    Note,
    NotedRanks,
    Notes,
    Ranking,
    Ranks,
    Relative,
    Remembering,
    Weighing,
)

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
