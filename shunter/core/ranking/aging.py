"""Jobs whose rank rises as they wait: any index, with a bound on starvation.

While a job waits, it rises by one level every `every_us`. Whoever stands on a higher level goes
before all on lower ones, and before all that run; on one level the index decides. On the last
level it is first come, first served.

The bound: once a job has waited levels x every_us at a stretch, only jobs that have waited longer
stand before it. With preemption it starts as soon as the GPUs it can use are not all held by such
jobs, guarded ones or jobs of higher priority; without, when enough running jobs have ended. A job
that got GPUs stands where its index puts it; `min_runtime` of the guards says how long it keeps
them at least.
"""

from typing import Any

from shunter.core.ranking.index import Index, Misfit, NotedRanks, Ranks, Remembering
from shunter.core.ranking.keys import LEVEL
from shunter.core.ranking.notes import Notes
from shunter.core.state import Job
from shunter.core.view import View

LEVELS_MOST = 1000


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

    def standing(self, job: Job, view: View) -> tuple[int, int | None]:
        """Return the rank within the level of a waiting job, and when either changes."""
        return self.raised(self._index, job, view)

    def ranks(self, notes: Notes) -> NotedRanks:
        """Return the same over the notes of the index inside, if it keeps any."""
        index = self._index
        return _AgedRanks(self, index.ranks(notes) if isinstance(index, Remembering) else index)

    def raised(self, ranks: Ranks, job: Job, view: View) -> tuple[int, int | None]:
        """Return the standing that some ranks give, raised by the time a job has waited."""
        rank, changes_at = ranks.standing(job, view)
        since_us = job.waiting_since_us
        if since_us is None or job.allocation.shares:
            return rank, changes_at
        level = (view.now_us - since_us) // self._every_us
        if level >= self._levels:
            return since_us - self._levels * LEVEL, None
        rises_at = since_us + (level + 1) * self._every_us
        if changes_at is None or rises_at < changes_at:
            changes_at = rises_at
        return rank - level * LEVEL, changes_at


class _AgedRanks:
    """Raised ranks over noted ones."""

    def __init__(self, aged: Aged, ranks: Any) -> None:
        self._aged = aged
        self._ranks = ranks
        self._forget = getattr(ranks, "ended", None)
        self.drifts: bool = ranks.drifts
        self.wanders: bool = ranks.wanders

    def standing(self, job: Job, view: View) -> tuple[int, int | None]:
        """Return the raised standing of a job."""
        return self._aged.raised(self._ranks, job, view)

    def ended(self, job: Job, *, finished: bool) -> bool:
        """Forget a job, where there is something to forget."""
        return self._forget is not None and bool(self._forget(job, finished=finished))
