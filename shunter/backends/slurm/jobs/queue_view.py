"""What Slurm's queue says of our attempts, as of the last answer that was whole."""

import os
import pwd
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from shunter import clock
from shunter.backends.slurm.commands import Slurm
from shunter.backends.slurm.jobs.script import Key, key_in
from shunter.backends.slurm.limit_reasons import reason_in_words
from shunter.backends.slurm.quantities import duration
from shunter.backends.slurm.records import QueuedJob

MAY_LIVE_ON = frozenset({"NODE_FAIL", "BOOT_FAIL"})
"""States after which a job's processes may run: its node does not answer Slurm."""


@dataclass(frozen=True, slots=True)
class QueueView:
    """The Slurm jobs of each attempt; several where an answer of sbatch was lost.

    `began_s` is when the question was asked, by the monotonic clock. `past` are the last states of
    the jobs of attempts that accounting knows to be over, and the queue not at all.
    """

    began_s: float
    jobs: Mapping[Key, tuple[QueuedJob, ...]] = field(hash=False)
    past: Mapping[Key, tuple[str, ...]] = field(hash=False, default_factory=dict)

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

    def is_waiting(self, key: Key) -> bool:
        """Say whether an attempt waits in Slurm's queue, and none of its jobs runs."""
        alive = self.alive(key)
        return bool(alive) and all(job.state == "PENDING" for job in alive)

    def being_preempted(self) -> list[Key]:
        """Return the attempts that run in the grace before they are preempted."""
        return sorted(
            key for key, jobs in self.jobs.items() if any(job.is_being_preempted for job in jobs)
        )

    def standing(self, key: Key) -> object:
        """Return what changes when anything of an attempt does."""
        return tuple((job.id, job.state) for job in self.jobs.get(key, ())), self._past(key)

    def is_surely_over(self, key: Key) -> bool:
        """Say whether Slurm has ended an attempt, and all its processes with it."""
        jobs = self.jobs.get(key, ())
        states = [job.state for job in jobs] or self._past(key)
        has_ended = all(job.has_ended for job in jobs)
        return bool(states) and has_ended and not MAY_LIVE_ON.intersection(states)

    def ended_as(self, key: Key) -> str:
        """Return how Slurm ended an attempt, such as TIMEOUT; nothing if it did not."""
        ended = [job.state for job in self.jobs.get(key, ()) if job.has_ended]
        return next(iter(ended or self._past(key)), "")

    def limit_s(self, key: Key) -> int | None:
        """Return for how many seconds Slurm lets an attempt run; None: not known."""
        return next((job.time_limit_s for job in self.jobs.get(key, ()) if job.time_limit_s), None)

    def limit_at_s(self, key: Key) -> float | None:
        """Return when its time limit ends an attempt; None: not known.

        That is in seconds since 1970.
        """
        ends = [
            float(job.start_s + job.time_limit_s)
            for job in self.jobs.get(key, ())
            if job.start_s is not None and job.time_limit_s is not None and job.state != "PENDING"
        ]
        return next(iter(ends), None)

    def wait_of(self, key: Key, now_s: float) -> str:
        """Return how long an attempt has waited in Slurm's queue, and for what."""
        if not self.is_waiting(key):
            return ""
        job = self.alive(key)[0]
        asked_s = now_s if job.submit_s is None else float(job.submit_s)
        reason = f" ({reason_in_words(job.reason)})" if job.reason else ""
        ago = duration(now_s - asked_s)
        return f"waiting for Slurm to start job {job.id}, asked {ago} ago{reason}"

    def _past(self, key: Key) -> tuple[str, ...]:
        return () if key in self.jobs else self.past.get(key, ())


async def queue_view(slurm: Slurm, cluster_id: str) -> QueueView:
    """Ask Slurm what it has of a cluster's attempts.

    Raises:
        SlurmUnknownError: it does not say it.
    """
    began_s = clock.monotonic_s()
    return QueueView.of(cluster_id, own_user(), began_s, await slurm.queue())


def own_user() -> str:
    """Return as whom we submit."""
    return pwd.getpwuid(os.geteuid()).pw_name
