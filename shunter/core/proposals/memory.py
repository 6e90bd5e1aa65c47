"""What the schedulers of jobs remember: when each proposes next, and what its view may miss."""

from dataclasses import dataclass, field
from typing import Any

from shunter.core.interfaces import Observer, Observers
from shunter.core.planning.draft import Draft
from shunter.core.proposals.history import AllocationHistory
from shunter.core.proposals.scheme import Decentralised
from shunter.core.view import View
from shunter.events.facts.decisions import (
    AllocationChanged,
    JobReshaped,
    ReservationSet,
    RoundPlanned,
)
from shunter.events.facts.execution import (
    AllocationLearned,
    AttemptLost,
    GpusReleased,
    JobSuspended,
    LaunchFailed,
)
from shunter.events.facts.gangs import GangApproved, GangRejected
from shunter.events.facts.jobs import JOB_ENDS
from shunter.events.kinds import Event
from shunter.events.values.ids import JobId

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
