"""Jobs that have not ended, as rows.

Ten thousand of them are one answer, so they are made as plain dictionaries; a test holds them to
their model.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from shunter.app.replaying.classing import classed
from shunter.app.replaying.wording import allocation_in_words
from shunter.core.intake.arrays import has_no_turn, turn_of
from shunter.core.placement import Classing
from shunter.core.state import RUNNING, WAITING, Job, State
from shunter.events.values.ids import JobId
from shunter.events.values.reasons import Reason, Wait

__all__ = ["Dated", "in_order", "job_row", "job_state", "queue_document", "wait_of"]

Dated = Callable[[int], str]
"""Turns an instant of the log into a date."""

HELD, SUSPENDED, STOPPED = "held", "suspended", "stopped"
_FIRST = Wait(Reason.waiting_for_round)
_HELD = Wait(Reason.held)
_BACKING_OFF = Wait(Reason.backing_off)
BLOCKERS_MOST = 8


def job_state(job: Job) -> str:
    """Return where a job is in its life, in one word of people."""
    if job.phase is RUNNING and job.speed == 0:
        return STOPPED
    if job.phase is not WAITING:
        return job.phase.value
    if job.is_on_hold and job.back_at_us is None and not has_no_turn(job):
        return HELD
    return SUSPENDED if job.first_start_us is not None else WAITING.value


def wait_of(job: Job, state: State, classing: Classing | None = None) -> Wait | None:
    """Return what holds a job back, itself or its class; None if nothing does."""
    if job.phase is not WAITING:
        return None
    if has_no_turn(job):
        return turn_of(job.spec)
    if job.is_on_hold:
        return _HELD if job.back_at_us is None else _BACKING_OFF
    if job.blocked_by:
        open_ones = (each.job_id for each in job.spec.depends_on if each.job_id in state.jobs)
        return Wait(Reason.dependency, blockers=tuple(open_ones))
    if job.wait is not None:
        return job.wait
    demand = classed(job.demand, job.spec, classing, state.messages)
    return state.class_waits.get(demand) or _FIRST


def job_row(
    job: Job,
    state: State,
    dated: Dated,
    *,
    rank: int | None = None,
    classing: Classing | None = None,
) -> dict[str, Any]:
    """Return the row of a job."""
    spec = job.spec
    wait = wait_of(job, state, classing)
    since_us = job.since_us if wait is None else job.waiting_since_us
    submitted_at = dated(job.submitted_us)
    return {
        "id": job.job_id,
        "name": spec.name,
        "user": spec.user,
        "queue": spec.queue,
        "group": spec.group,
        "gpus": spec.gpus,
        "cpus": spec.cpus_milli / 1000,
        "memory_mb": spec.memory_mb,
        "state": job_state(job),
        "priority": job.priority,
        "submitted_at": submitted_at,
        "since_at": submitted_at if since_us in (None, job.submitted_us) else dated(since_us),
        "where": allocation_in_words(job.held) if job.held.shares else "",
        "attempt": job.attempt,
        "preemptions": job.preemptions,
        "service_gpu_s": job.service_us(state.now_us) / 1e6,
        "array_index": spec.array_index,
        "rank": rank,
        "reason": None if wait is None else reason_part(wait),
    }


def reason_part(wait: Wait) -> dict[str, Any]:
    """Return a reason with its evidence."""
    return {
        "name": wait.reason.value,
        "needed": wait.needed,
        "free": wait.free,
        "blockers": list(wait.blockers[:BLOCKERS_MOST]),
        "detail": wait.detail,
    }


def in_order(jobs: Iterable[Job], ranks: Mapping[JobId, int]) -> list[Job]:
    """Return jobs as people want them: who holds GPUs, then who waits, by rank."""
    last = len(ranks) + 1
    return sorted(
        jobs,
        key=lambda job: (job.phase is WAITING, ranks.get(job.job_id, last), job.ordinal),
    )


def queue_document(
    state: State,
    jobs: Iterable[Job],
    dated: Dated,
    *,
    now: str,
    ranks: Mapping[JobId, int],
    limit: int | None = None,
) -> dict[str, Any]:
    """Return the rows of some jobs, with how many there are in each state."""
    ordered = in_order(jobs, ranks)
    counts = Counter(job_state(job) for job in ordered)
    return {
        "schema_version": 1,
        "seq": state.seq,
        "now": now,
        "total": len(ordered),
        "states": dict(sorted(counts.items())),
        "jobs": [job_row(job, state, dated, rank=ranks.get(job.job_id)) for job in ordered[:limit]],
    }
