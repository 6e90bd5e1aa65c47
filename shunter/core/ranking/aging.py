"""Jobs whose rank rises as they wait: any index, with a bound on starvation.

While a job waits, it rises by one level every `every_us`. Whoever stands on a higher level goes
before all on lower ones, and before all that run; on one level the index decides. On the last
level it is first come, first served. A job that starts from a level has a turn there: for
`every_us` only a higher level can make it leave. After that it stands where its index puts it.

The bound: once a job has waited levels x every_us at a stretch, only jobs that have waited longer,
and those that have their turn on the last level, stand before it. With preemption it starts as
soon as the GPUs it can use are not all held by such jobs, guarded ones or jobs of higher priority;
without, when enough running jobs have ended.
"""

from typing import Any

from shunter.core.ranking.index import (
    LEVEL,
    Index,
    Measure,
    Measured,
    Misfit,
    NotedRanks,
    Notes,
    Relative,
    Remembering,
    Telling,
)
from shunter.core.state import Job
from shunter.core.view import View
from shunter.events.values import JobId

LEVELS_MOST = 1000
_AHEAD = LEVEL // 4  # before every rank of an index


class Aged:
    """An index whose waiting jobs rise, with the name of the one inside."""

    def __init__(self, index: Index, every_us: int, levels: int) -> None:
        assert every_us > 0
        assert 0 < levels <= LEVELS_MOST
        self._index = index
        self._every_us = every_us
        self._levels = levels
        self.name: str = index.name
        self.version: str = index.version
        self.oracle: bool = index.oracle
        self.preemptive: bool = index.preemptive
        self.misfit: Misfit = index.misfit
        self.drifts: bool = index.drifts
        self.wanders: bool = index.wanders
        self.is_relative: bool = isinstance(index, Relative) and index.is_relative

    def standing(self, job: Job, view: View) -> tuple[int, int | None]:
        """Return how a job stands that is not on its turn."""
        return self.ranks(Notes()).standing(job, view)

    def numbers(self, rank: int) -> tuple[int, ...]:
        """Return the level, and what the rank on it says."""
        level, rest = divmod(rank + LEVEL // 2, LEVEL)
        rest -= LEVEL // 2
        if rest == -_AHEAD or -level == self._levels:
            return (-level,)
        told = self._index.numbers(rest) if isinstance(self._index, Telling) else (rest,)
        return (-level, *told)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """What its numbers count: the level, then those of the index inside."""
        inside = self._index.measures if isinstance(self._index, Measured) else ()
        return (Measure.level, *inside)

    def ranks(self, notes: Notes) -> NotedRanks:
        """Return the raised ranks, over the notes of the index inside if it keeps any."""
        index = self._index
        inside = index.ranks(notes) if isinstance(index, Remembering) else index
        return _AgedRanks(inside, self._every_us, self._levels, notes.levels)


class _AgedRanks:
    """Ranks raised by the time a job has waited; `raised` holds their levels."""

    def __init__(self, inside: Any, every_us: int, levels: int, raised: dict[JobId, int]) -> None:
        self._inside = inside
        self._every_us = every_us
        self._levels = levels
        self._raised = raised
        self._forget = getattr(inside, "ended", None)
        self.drifts: bool = inside.drifts
        self.wanders: bool = inside.wanders

    def standing(self, job: Job, view: View) -> tuple[int, int | None]:
        """Return the rank within the level of a job, and when either changes."""
        rank, changes_at = self._inside.standing(job, view)
        if job.allocation.shares:
            level = self._raised.get(job.job_id)
            if level is None:
                return rank, changes_at
            began_us = job.attempt_began_us
            if began_us is None:
                return -level * LEVEL - _AHEAD, None
            over_us = began_us + self._every_us
            if view.now_us < over_us:
                return -level * LEVEL - _AHEAD, _earlier(changes_at, over_us)
            del self._raised[job.job_id]
            return rank, changes_at
        since_us = job.waiting_since_us
        level = 0 if since_us is None else (view.now_us - since_us) // self._every_us
        if since_us is None or not level:
            self._raised.pop(job.job_id, None)
        if since_us is None:
            return rank, changes_at
        if level >= self._levels:
            self._raised[job.job_id] = self._levels
            return since_us - self._levels * LEVEL, None
        if level:
            self._raised[job.job_id] = level
        return rank - level * LEVEL, _earlier(changes_at, since_us + (level + 1) * self._every_us)

    def ended(self, job: Job, *, finished: bool) -> bool:
        """Forget a job; say whether the ranks of others are other ones now."""
        self._raised.pop(job.job_id, None)
        return self._forget is not None and bool(self._forget(job, finished=finished))


def _earlier(one: int | None, other: int) -> int:
    return other if one is None or other < one else one
