"""Jobs whose newest checkpoint lies on a server that does not answer: they wait for it.

To the policies such a job is one on hold, which the scheduler puts there and takes from there
itself. It goes on once the server answers or is lost, or once its owner gives the checkpoint up.
"""

from shunter.core.cluster import Cluster
from shunter.core.fold.checkpoints import awaited
from shunter.core.state import Job
from shunter.events.values.causes import CHECKPOINT, GIVEN_UP, LOST
from shunter.events.values.reasons import Reason, Wait

__all__ = [
    "CHECKPOINT",
    "GIVEN_UP",
    "LOST",
    "checkpoint_wait",
    "waits_for_checkpoint",
]


def waits_for_checkpoint(job: Job) -> bool:
    """Say whether a job is held because a server with its checkpoint does not answer."""
    return job.is_on_hold and job.held_by == CHECKPOINT


def checkpoint_wait(job: Job, cluster: Cluster) -> Wait:
    """Return why such a job waits: for which servers."""
    return Wait(Reason.checkpoint_unreachable, detail=",".join(awaited(job, cluster)))
