"""The engine of all index policies: ranking, selection, placing."""

from shunter.core.ranking.index import Index, Misfit
from shunter.core.ranking.policy import RankedPolicy
from shunter.core.ranking.ranking import Ranking

__all__ = ["Index", "Misfit", "RankedPolicy", "Ranking"]
