"""What the schedulers of jobs remember: when each proposes next, and what its view may miss."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from shunter.core.interfaces import Observer, Observers
from shunter.core.planning.draft import Draft
from shunter.core.proposals.scheme import Decentralised
from shunter.core.state import Job
from shunter.core.view import View
from shunter.events.facts import (
    JOB_ENDS,
    AllocationChanged,
    AllocationLearned,
    AttemptLost,
    Event,
    GangApproved,
    GangRejected,
    GpusReleased,
    JobReshaped,
    JobSuspended,
    LaunchFailed,
    ReservationSet,
    RoundPlanned,
)
from shunter.events.records import record
from shunter.events.values import NOTHING, Allocation, JobId

# Views that are stale: what has changed lately, and how to look back behind it.
#
# A view of an earlier instant is not kept. It is made on a draft, by undoing what changed since:
# that costs what changed, however large the cluster is. Only who has which GPUs can be stale; a
# server that is gone is gone in every view.


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


_GIVING = (
    *(AllocationChanged, JobReshaped, *JOB_ENDS),
    *(AllocationLearned, AttemptLost, GpusReleased, JobSuspended, LaunchFailed),
)
"""The kinds after which a job may have been given something else."""


@dataclass(slots=True)
class ProposalMemory:
    """When job schedulers propose next, and what changed that they may not see.

    `due` are the admitted jobs; `waking` is when a plan is to keep GPUs for a job of whom others
    propose, or to give up what is kept for it.
    """

    history: AllocationHistory
    due: dict[JobId, int] = field(default_factory=dict)
    waking: dict[JobId, int] = field(default_factory=dict)

    @classmethod
    def of(cls, scheme: Decentralised, view: View) -> "ProposalMemory":
        """Return what is true at a start: who is admitted, and what each job has."""
        memory = cls(AllocationHistory(scheme.staleness_us))
        memory.history.begin(view.jobs.values())
        if scheme.built_in:
            memory.due = dict.fromkeys(view.proposals.admitted, view.now_us)
        return memory

    def is_due(self, job_id: JobId, now_us: int) -> bool:
        """Say whether the scheduler of a job proposes at an instant."""
        return self.due.get(job_id, now_us) <= now_us

    def next_us(self) -> int | None:
        """Return when a plan is needed next, though nothing happens; None: never."""
        return min((*self.due.values(), *self.waking.values()), default=None)

    def look_back(self, draft: Draft, at_us: int) -> int | None:
        """Undo in a draft what changed after an instant; return the number before it."""
        return self.history.look_back(draft, at_us)

    def forget(self, job_id: JobId) -> None:
        """Drop a job that proposes no more."""
        self.due.pop(job_id, None)
        self.waking.pop(job_id, None)


def proposal_observers(memory: ProposalMemory, scheme: Decentralised) -> Observers:
    """Return who keeps what job schedulers remember up to date."""

    def planned(event: RoundPlanned, view: View) -> None:
        if scheme.built_in:
            memory.due.update(dict.fromkeys(event.admitted, event.at_us))
        for job_id in event.dismissed:
            memory.forget(job_id)
        for job_id in [one for one, at_us in memory.waking.items() if at_us <= event.at_us]:
            del memory.waking[job_id]
        again_us = event.at_us + scheme.looks_again_us
        for job_id, due_us in memory.due.items():
            if due_us <= event.at_us:  # unless it is rejected now, which says when
                memory.due[job_id] = again_us

    def rejected(event: GangRejected, view: View) -> None:
        job_id, book = event.job_id, view.proposals
        rejected = book.rejected_in_a_row(job_id)
        is_kept = rejected >= scheme.reserve_after
        if job_id in memory.due:
            # GPUs that can be kept for it are looked for at once; if there are none, it waits.
            waits = rejected != scheme.reserve_after
            retry_us = event.at_us if event.retry_us is None else event.retry_us
            memory.due[job_id] = retry_us if waits else event.at_us
        elif is_kept and job_id in book.admitted and job_id not in book.reserved:
            memory.waking[job_id] = event.at_us

    def approved(event: GangApproved, view: View) -> None:
        memory.forget(event.job_id)

    def kept(event: ReservationSet, view: View) -> None:
        memory.waking.pop(event.job_id, None)
        if event.start_us is not None and event.shares and not scheme.built_in:
            memory.waking[event.job_id] = event.start_us + scheme.reserve_for_us

    def given(event: Any, view: View) -> None:
        memory.history.note(event.job_id, view)

    def ended(event: Any, view: View) -> None:
        memory.forget(event.job_id)
        memory.history.note(event.job_id, view)

    observers: dict[type[Event], Observer] = {
        RoundPlanned: planned,
        GangRejected: rejected,
        GangApproved: approved,
        ReservationSet: kept,
    }
    if scheme.staleness_us:
        observers |= dict.fromkeys(_GIVING, given)
    return observers | dict.fromkeys(JOB_ENDS, ended)
