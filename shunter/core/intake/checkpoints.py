"""Jobs whose newest checkpoint lies on a server that does not answer: they wait for it.

To the policies such a job is one on hold, which the scheduler puts there and takes from there
itself. It goes on once the server answers or is lost, or once its owner gives the checkpoint up.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from shunter.core.cluster import Cluster
from shunter.core.fold.checkpoints import awaited, out_of_reach
from shunter.core.intake.inputs import DiscardCheckpoint
from shunter.core.state import Job, State
from shunter.events.facts.cluster import CLUSTER_CHANGES
from shunter.events.facts.execution import (
    AttemptLost,
    AttemptStarted,
    CheckpointDiscarded,
    GpusReleased,
    LaunchFailed,
)
from shunter.events.facts.jobs import JobReleased
from shunter.events.facts.run import SchedulerStarted
from shunter.events.kinds import Event
from shunter.events.values.causes import CHECKPOINT, GIVEN_UP, LOST
from shunter.events.values.reasons import Reason, Wait

if TYPE_CHECKING:
    from shunter.core.scheduler import Scheduler

__all__ = [
    "CHECKPOINT",
    "GIVEN_UP",
    "LOST",
    "attempt_started",
    "checkpoint_wait",
    "checkpoint_waits",
    "discard_checkpoint",
    "waits_for_checkpoint",
]

_CHANGING = frozenset(
    (
        *CLUSTER_CHANGES,
        GpusReleased,
        AttemptLost,
        LaunchFailed,
        JobReleased,
        CheckpointDiscarded,
        SchedulerStarted,
    )
)
"""The kinds after which a checkpoint may be in reach, or out of it, or wanted by a waiting job."""


def waits_for_checkpoint(job: Job) -> bool:
    """Say whether a job is held because a server with its checkpoint does not answer."""
    return job.is_on_hold and job.held_by == CHECKPOINT


def checkpoint_wait(job: Job, cluster: Cluster) -> Wait:
    """Return why such a job waits: for which servers."""
    return Wait(Reason.checkpoint_unreachable, detail=",".join(awaited(job, cluster)))


def discard_checkpoint(core: "Scheduler", order: DiscardCheckpoint) -> None:
    """Let a job wait no more for the servers that do not answer."""
    job, cluster = core.state.jobs.get(order.job_id), core.state.cluster
    while job is not None and job.since_us is None and awaited(job, cluster):
        _discard(core, job, out_of_reach(job, cluster), order.at_us, GIVEN_UP, order.by)


def attempt_started(core: "Scheduler", seen: AttemptStarted) -> None:
    """Note that an attempt runs, and what its checkpoints depend on if it is live.

    What could not be brought from lost servers is discarded with that.
    """
    rules = core.rules
    job = core.state.jobs.get(seen.job_id) if rules.is_live else None
    if job is not None and job.attempt == seen.attempt and job.since_us is not None:
        while job.out_of_reach:
            _discard(core, job, 0, seen.at_us, LOST)
        keeps_split = job.spec.gpus > 1 and not job.spec.split_may_change
        seen = replace(seen, keeps_split=keeps_split, checkpoints_stay=rules.checkpoints_stay)
    core.emit(seen)


def checkpoint_waits(
    state: State, events: Sequence[Event], *, stay: bool
) -> list[tuple[Job, bool]]:
    """Return the jobs that are to be held (True) or released (False).

    Args:
        state: what is true.
        events: what has happened since the last time.
        stay: whether checkpoints lie on the servers that saved them.
    """
    if not any(type(event) in _CHANGING for event in events):
        return []
    found = []
    for job in [state.jobs[job_id] for job_id in state.resumable]:
        waits = stay and bool(awaited(job, state.cluster))
        if (waits and job.is_eligible) or (not waits and waits_for_checkpoint(job)):
            found.append((job, waits))
    return found


def _discard(core: "Scheduler", job: Job, place: int, at_us: int, cause: str, by: str = "") -> None:
    """Say that a job goes on without one of its checkpoints, counted from the newest."""
    found = (job.checkpoints or ())[place]
    core.emit(
        CheckpointDiscarded(at_us, job.job_id, found.attempt, found.nodes, found.step, cause, by)
    )
