"""What the daemon knows of one pilot that it has asked Slurm for."""

from dataclasses import dataclass

from shunter.backends.slurm.pilots.allocation_view import Pilot, PilotState
from shunter.backends.slurm.pilots.certificates import PilotCertificate
from shunter.backends.slurm.records import QueuedJob
from shunter.events.values.ids import NodeName


@dataclass(slots=True)
class KnownPilot:
    """A pilot of ours, what squeue said of it last, and why it is about to end."""

    node: NodeName
    certificate: PilotCertificate
    asked_at_s: float
    limit_s: float
    seen: QueuedJob | None = None
    drain: str = ""
    unheard_at_s: float = 0.0
    number: int | None = None
    """What sbatch answered; squeue, which is asked seldom, tells it again."""

    @property
    def has_begun(self) -> bool:
        """Whether Slurm runs it, by the last look at the queue."""
        return self.seen is not None and self.seen.state != "PENDING"

    def as_pilot(self, name: str, jobs_on: tuple[int, int], *, is_connected: bool) -> Pilot:
        """Return what decisions look at.

        Args:
            name: its own.
            jobs_on: how many jobs run on its node, and how many GPUs they hold.
            is_connected: whether it has dialled in, which says sooner than squeue that it runs.
        """
        job, state = self.seen, PilotState.ASKED
        jobs, busy_gpus = 0, 0
        if self.has_begun or is_connected:
            state = PilotState.DRAINING if self.drain else PilotState.HELD
            jobs, busy_gpus = jobs_on
        started_s = job.start_s if job is not None and self.has_begun else None
        reason = job.reason if job is not None and state is PilotState.ASKED else ""
        return Pilot(
            name,
            str(self.node),
            state,
            float((job.submit_s if job is not None else None) or self.asked_at_s),
            float((job.time_limit_s if job is not None else None) or self.limit_s),
            None if started_s is None else float(started_s),
            jobs,
            busy_gpus,
            "" if reason == "None" else reason,
        )
