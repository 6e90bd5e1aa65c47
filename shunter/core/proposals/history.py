"""Views that are stale: what has changed lately, and how to look back behind it.

A view of an earlier instant is not kept. It is made on a draft, by undoing what changed since: that
costs what changed, however large the cluster is. Only who has which GPUs can be stale; a server
that is gone is gone in every view.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from shunter.core.planning.draft import Draft
from shunter.core.state import Job
from shunter.core.view import View
from shunter.events.values.allocation import NOTHING, Allocation
from shunter.events.values.fact import record
from shunter.events.values.ids import JobId


@record
class Passed:
    """A change of what a job is given, with the fact of the number `seq`."""

    at_us: int
    seq: int
    before: Allocation
    after: Allocation
    job_id: JobId = JobId("")


@dataclass(slots=True)
class AllocationHistory:
    """What each job has, and the changes of the last `span_us`, in order."""

    span_us: int
    given: dict[JobId, Allocation] = field(default_factory=dict)
    changes: list[Passed] = field(default_factory=list)

    def begin(self, jobs: Iterable[Job]) -> None:
        """Take over what jobs have, as if nothing had changed lately."""
        self.given = {job.job_id: job.allocation for job in jobs if job.allocation.shares}

    def note(self, job_id: JobId, view: View) -> None:
        """Note what a job has after a fact about it, if that has changed."""
        job, before = view.jobs.get(job_id), self.given.get(job_id, NOTHING)
        after = NOTHING if job is None else job.allocation
        if after == before:
            return
        if after.shares:
            self.given[job_id] = after
        else:
            del self.given[job_id]
        oldest_us = view.now_us - self.span_us
        past = 0
        while past < len(self.changes) and self.changes[past].at_us < oldest_us:
            past += 1
        del self.changes[:past]
        self.changes.append(Passed(view.now_us, view.seq, before, after, job_id))

    def look_back(self, draft: Draft, at_us: int) -> int | None:
        """Undo in a draft what changed after an instant.

        Returns:
            the number of the last fact before that; None: nothing has changed since.
        """
        version: int | None = None
        for passed in reversed(self.changes):
            if passed.at_us <= at_us:
                break
            draft.undo(passed.job_id, passed.before, passed.after)
            version = passed.seq - 1
        return version
