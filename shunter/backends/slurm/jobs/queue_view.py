"""What Slurm's queue says of our attempts, as of the last answer that was whole."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from shunter.backends.slurm.jobs.script import Key, key_in
from shunter.backends.slurm.quantities import duration
from shunter.backends.slurm.records import QueuedJob

__all__ = ["QueueView"]

MAY_LIVE_ON = frozenset({"NODE_FAIL", "BOOT_FAIL"})
"""States after which a job's processes may run: its node does not answer Slurm."""


@dataclass(frozen=True, slots=True)
class QueueView:
    """The Slurm jobs of each attempt; several where an answer of sbatch was lost.

    `began_s` is when the question was asked, by the monotonic clock.
    """

    began_s: float
    jobs: Mapping[Key, tuple[QueuedJob, ...]] = field(hash=False)

    @classmethod
    def of(
        cls, cluster_id: str, user: str, began_s: float, queue: Iterable[QueuedJob]
    ) -> "QueueView":
        """Return what an answer of squeue says of a cluster's attempts."""
        found: dict[Key, tuple[QueuedJob, ...]] = {}
        for job in queue:
            key = key_in(cluster_id, user, job)
            if key is not None:
                found[key] = (*found.get(key, ()), job)
        return cls(began_s, found)

    def alive(self, key: Key) -> tuple[QueuedJob, ...]:
        """Return the Slurm jobs of an attempt that wait or run."""
        return tuple(job for job in self.jobs.get(key, ()) if not job.has_ended)

    def is_running(self, key: Key) -> bool:
        """Say whether Slurm runs an attempt."""
        return any(job.state != "PENDING" for job in self.alive(key))

    def standing(self, key: Key) -> tuple[tuple[int, str], ...]:
        """Return what changes when anything of an attempt does."""
        return tuple((job.id, job.state) for job in self.jobs.get(key, ()))

    def is_surely_over(self, key: Key) -> bool:
        """Say whether Slurm has ended an attempt, and all its processes with it."""
        ended = self.jobs.get(key, ())
        return bool(ended) and not any(
            not job.has_ended or job.state in MAY_LIVE_ON for job in ended
        )

    def ended_as(self, key: Key) -> str:
        """Return how Slurm ended an attempt, such as TIMEOUT; nothing if it did not."""
        return next((job.state for job in self.jobs.get(key, ()) if job.has_ended), "")

    def wait_of(self, key: Key, now_s: float) -> str:
        """Return how long an attempt has waited in Slurm's queue, and for what."""
        waiting = [job for job in self.alive(key) if job.state == "PENDING"]
        if not waiting or waiting != list(self.alive(key)):
            return ""
        job = waiting[0]
        asked_s = now_s if job.submit_s is None else float(job.submit_s)
        reason = f" ({job.reason})" if job.reason else ""
        ago = duration(now_s - asked_s)
        return f"waiting for Slurm to start job {job.id}, asked {ago} ago{reason}"
