"""Jobs whose newest checkpoint lies on a server that does not answer: they wait for it.

To the policies such a job is one on hold, which the scheduler puts there and takes from there
itself. It goes on once the server answers or is lost, or once its owner gives the checkpoint up.
"""

from typing import TYPE_CHECKING

from shunter.core.cluster import Cluster
from shunter.core.fold.checkpoints import awaited, out_of_reach
from shunter.core.intake.inputs import DiscardCheckpoint
from shunter.core.state import Job
from shunter.events.facts.execution import (
    AttemptStarted,
    CheckpointDiscarded,
)
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
    "discard_checkpoint",
    "waits_for_checkpoint",
]


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
        found = (job.checkpoints or ())[out_of_reach(job, cluster)]
        core.emit(
            CheckpointDiscarded(
                order.at_us, job.job_id, found.attempt, found.nodes, found.step, GIVEN_UP, order.by
            )
        )


def attempt_started(core: "Scheduler", seen: AttemptStarted) -> None:
    """Note that an attempt runs, and what its checkpoints depend on if it is live.

    What could not be brought from lost servers is discarded with that.
    """
    for lost in core.reactor.discards(seen):
        core.emit(lost)
    core.emit(core.reactor.completed(seen))
