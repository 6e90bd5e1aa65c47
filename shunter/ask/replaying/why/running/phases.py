"""What the log says of the jobs that block another one: how they ended, or since when they are so.

A phase begins with what brings it about: the decision that grants GPUs, the order to leave them,
the start of the processes, or their end. When a job was last launched is not that.
"""

from collections.abc import Iterable, Sequence

from shunter.core.state import Job, JobPhase, State
from shunter.events.facts.decisions import AllocationChanged
from shunter.events.facts.execution import AttemptEnded, AttemptStarted, JobSuspended
from shunter.events.facts.jobs import (
    JOB_ENDS,
    JobCancelRequested,
    Outcome,
    TimeLimitReached,
    outcome_of,
)
from shunter.events.kinds import Event
from shunter.events.log import LogReader
from shunter.events.values.allocation import Sharing
from shunter.events.values.ids import JobId

Told = Sequence[tuple[int, Event]]
"""The events about a job, up to some point, with their numbers."""


async def ended_of(reader: LogReader, job_ids: Iterable[JobId], seq: int) -> dict[JobId, Outcome]:
    """Return how those jobs ended that had by an event."""
    return {
        job_id: outcome_of(event)
        for job_id in job_ids
        for _, event in await reader.job_events(job_id, seq)
        if isinstance(event, JOB_ENDS)
    }


async def came_of(reader: LogReader, blockers: Iterable[JobId], state: State) -> dict[JobId, int]:
    """Return since when the blockers that a state has are in their phases."""
    found: dict[JobId, int] = {}
    for job_id in blockers:
        job = state.jobs.get(job_id)
        if job is None:
            continue
        own: Told = ()
        if job.phase not in (JobPhase.waiting, JobPhase.launching):  # the state says when
            own = await reader.job_events(job_id, state.seq)
        since_us = phase_since_us(job, own)
        if since_us is not None:
            found[job_id] = since_us
    return found


def phase_since_us(job: Job, own: Told) -> int | None:
    """Return since when a job is in its phase; None: nobody knows.

    One that was granted GPUs was so by the last decision, though it has left others since.
    """
    began_us = job.attempt_began_us
    if job.phase is JobPhase.granted:
        granted = [event.at_us for _, event in own if _grants(event)]
        return granted[-1] if granted else job.waiting_since_us
    if job.phase is JobPhase.ending:
        return min((event.at_us for event in _ends(job, own)), default=began_us)
    if began_us is None:
        return job.waiting_since_us
    if job.phase is JobPhase.suspending:
        order = order_to_leave(job, own)
        return began_us if order is None else order[1].at_us
    for _, event in own if job.phase is JobPhase.running else ():
        if isinstance(event, AttemptStarted) and event.attempt == job.attempt:
            return event.at_us if event.started_us is None else max(event.started_us, began_us)
    return began_us


def order_to_leave(job: Job, own: Told) -> tuple[int, Event] | None:
    """Return what made an attempt leave its GPUs, with its number; None: nothing has.

    That is the first decision since its launch that takes them away, or that it left by itself.
    """
    began_us = job.attempt_began_us
    if began_us is None:
        return None
    granted = [told for told in own if _grants(told[1]) and told[1].at_us <= began_us]
    if not granted:
        return None
    seq, event = granted[-1]
    assert isinstance(event, AllocationChanged), "only such grant"
    shares = event.allocation.shares
    for after, told in own:
        if after <= seq:
            continue
        if isinstance(told, AllocationChanged):
            target = told.allocation
            if target.sharing is not Sharing.packed or target.shares != shares:
                return after, told
        elif isinstance(told, JobSuspended) and told.attempt == job.attempt:
            return after, told
    return None


def _ends(job: Job, own: Told) -> list[Event]:
    """Return what made an attempt end: its own end, or that somebody wants it."""
    ends: list[Event] = []
    for _, event in own:
        if _grants(event):
            ends = []  # it was asked of an attempt before
        if isinstance(event, AttemptEnded) and event.attempt == job.attempt:
            ends.append(event)
        if isinstance(event, JobCancelRequested | TimeLimitReached):
            ends.append(event)
    return ends


def _grants(event: Event) -> bool:
    return isinstance(event, AllocationChanged) and bool(event.allocation.shares)
