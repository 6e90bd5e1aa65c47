"""What Slurm is told of attempts: to run them, to end them, and to wake their supervisors.

Nobody waits for it but who submits. What Slurm is to end it is told at every look until the queue
says that it has, so that a controller which is away, or forgets, changes nothing.
"""

from contextlib import suppress

import anyio
from anyio.abc import TaskGroup

from shunter import clock
from shunter.backends.slurm.commands import Slurm
from shunter.backends.slurm.jobs.queue_view import QueueView
from shunter.backends.slurm.jobs.script import Key, job_name
from shunter.backends.slurm.records import QueuedJob
from shunter.errors import SlurmRefusedError, SlurmUnknownError

__all__ = ["Submissions"]

AT_ONCE = 4
"""Commands at once: the controller answers others in between."""
FORGOTTEN_S = 600.0
"""For so long a submission whose answer was lost may still come to be."""


class Submissions:
    """Orders to Slurm on their way."""

    def __init__(self, slurm: Slurm, cluster_id: str, tasks: TaskGroup) -> None:
        self._slurm = slurm
        self._cluster_id = cluster_id
        self._tasks = tasks
        self._turns = anyio.Semaphore(AT_ONCE)
        self._under_way: set[Key] = set()
        self._end_from_s: dict[Key, float] = {}
        self._ending: set[int] = set()
        self._queue: QueueView | None = None

    def is_under_way(self, key: Key) -> bool:
        """Say whether Slurm is being asked to run an attempt."""
        return key in self._under_way

    async def submit(self, key: Key, script: str, options: list[str]) -> str:
        """Have an attempt run; return why Slurm refuses it, if it does.

        Whether it has it, if Slurm does not answer, its queue will tell.
        """
        self._under_way.add(key)
        try:
            async with self._turns:
                await self._slurm.submit(script, options, environment={})
        except SlurmRefusedError as error:
            return str(error)
        except SlurmUnknownError:
            return ""
        finally:
            self._under_way.discard(key)
        return ""

    def wake(self, key: Key) -> None:
        """Have the program of an attempt look at its orders now, and not later."""
        for job in self._alive(key):
            if job.state == "RUNNING":
                self._tasks.start_soon(self._cancel, key, job.id, "USR1")

    def end(self, key: Key, after_s: float = 0.0) -> None:
        """Have Slurm end all of an attempt that is not over after some seconds."""
        from_s = clock.monotonic_s() + after_s
        self._end_from_s[key] = min(from_s, self._end_from_s.get(key, from_s))
        self._end_if_due(key)

    def take(self, queue: QueueView) -> None:
        """Take in an answer of squeue; end what is there and should not be."""
        self._queue = queue
        for key in [key for key in self._end_from_s if not queue.alive(key)]:
            if clock.monotonic_s() > self._end_from_s[key] + FORGOTTEN_S:
                del self._end_from_s[key]
        for key in self._end_from_s:
            self._end_if_due(key)

    def _end_if_due(self, key: Key) -> None:
        if clock.monotonic_s() >= self._end_from_s[key]:
            for job in self._alive(key):
                if job.id not in self._ending:
                    self._ending.add(job.id)
                    self._tasks.start_soon(self._cancel, key, job.id, "")

    def _alive(self, key: Key) -> tuple[QueuedJob, ...]:
        return () if self._queue is None else self._queue.alive(key)

    async def _cancel(self, key: Key, number: int, signal: str) -> None:
        name = job_name(self._cluster_id, *key)
        async with self._turns:
            with suppress(SlurmUnknownError):
                await self._slurm.cancel(
                    [number], name=name, signal=signal, batch_only=bool(signal)
                )
        if not signal:
            self._ending.discard(number)
