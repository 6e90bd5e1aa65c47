"""How near the sizes of jobs were to what no sizes could beat: what it costs that servers are many.

Where programs size jobs, each round in which anything happened has the sum of the speeds of all
jobs that run, and its bound: what the sum could be at most if all servers of a GPU type were one.
"""

from dataclasses import dataclass, field
from statistics import fmean

from shunter.core.interfaces import Observers
from shunter.core.view import View
from shunter.events.facts.decisions import SizesSet


@dataclass(slots=True)
class SizeGaps:
    """Follows the answers of programs."""

    _speeds: list[float] = field(default_factory=list)
    _bounds: list[float] = field(default_factory=list)
    _gaps: list[float] = field(default_factory=list)
    _unsolved: int = 0

    def observers(self) -> Observers:
        """Return what it listens to."""
        return {SizesSet: self._set}

    def document(self) -> dict[str, object] | None:
        """Return means and the largest gap; None where programs sized no jobs."""
        if not self._speeds:
            return None
        rounds = list(zip(self._speeds, self._bounds, strict=True))
        gaps = [1 - speed / bound if bound else 0.0 for speed, bound in rounds]
        return {
            "rounds": len(rounds),
            "unsolved": self._unsolved,
            "speed_mean": fmean(self._speeds),
            "bound_mean": fmean(self._bounds),
            "gap_mean": fmean(gaps),
            "gap_max": max(gaps),
            "search_gap_max": max(self._gaps),
        }

    def _set(self, event: SizesSet, view: View) -> None:
        self._speeds.append(event.speed)
        self._bounds.append(event.bound)
        self._gaps.append(event.gap)
        self._unsolved += event.status != "ok"
