"""Jobs of Slurm's queue, as squeue would tell of them."""

from dataclasses import replace

from shunter.backends.slurm import QueuedJob

_JOB = QueuedJob(
    id=1,
    name="",
    user="me",
    state="PENDING",
    reason="",
    nodes=(),
    submit_s=0,
    start_s=None,
    end_s=None,
    time_limit_s=None,
    restarts=0,
)


def queued(name: str, **fields: object) -> QueuedJob:
    """Return a job in the queue."""
    return replace(_JOB, name=name, **fields)  # type: ignore[arg-type]  # any field may be given
