"""What Slurm is told of attempts: to run, suspend and end them, and to wake their supervisors.

Nobody waits for it but who submits. What Slurm is to end it is told at every look until the queue
says that it has, so that a controller which is away, or forgets, changes nothing.
"""

from collections.abc import Callable, Collection
from contextlib import suppress

import anyio
from anyio.abc import TaskGroup

from shunter import clock
from shunter.backends.slurm.commands import Slurm
from shunter.backends.slurm.jobs.queue_view import QueueView
from shunter.backends.slurm.jobs.script import LIMIT_SIGNAL, Key, job_name
from shunter.backends.slurm.records import QueuedJob
from shunter.errors import SlurmRefusedError, SlurmUnknownError

AT_ONCE = 4
"""Commands at once: the controller answers others in between."""
FORGOTTEN_S = 600.0
"""For so long a submission whose answer was lost may still come to be."""


class Submissions:
    """Orders to Slurm on their way."""

    def __init__(
        self,
        slurm: Slurm,
        cluster_id: str,
        tasks: TaskGroup,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._slurm = slurm
        self._cluster_id = cluster_id
        self._tasks = tasks
        self._turns = anyio.Semaphore(AT_ONCE)
        self._under_way: set[Key] = set()
        self._end_from_s: dict[Key, float] = {}
        self._ending: set[int] = set()
        self._queue: QueueView | None = None
        self._to_suspend: set[Key] = set()
        self._suspended: set[Key] = set()
        self._releasing: set[Key] = set()
        self._tell = tell
        self._told = ""

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
        """Have the program of an attempt look at its orders now, and not later.

        One that is suspended in Slurm goes on there first, to do what it is told.
        """
        self._to_suspend.discard(key)
        jobs = self._alive(key)
        if key in self._suspended or any(job.state == "SUSPENDED" for job in jobs):
            self._tasks.start_soon(self._release, key)
        for job in jobs:
            if job.state == "RUNNING" and key not in self._suspended:
                self._tasks.start_soon(self._cancel, key, job.id, "USR1")

    def warn(self, key: Key) -> None:
        """Have an attempt save and leave, as Slurm does before its time limit."""
        for job in self._alive(key):
            self._tasks.start_soon(self._cancel, key, job.id, LIMIT_SIGNAL.removeprefix("SIG"))

    def suspend(self, key: Key) -> None:
        """Have Slurm suspend an attempt, once it stands still by itself."""
        if key not in self._suspended:
            self.wake(key)
        self._to_suspend.add(key)

    def note_stopped(self, stopped: Collection[Key]) -> None:
        """Suspend those in Slurm that are to be and stand still by now."""
        for key in sorted(self._to_suspend.intersection(stopped) - self._suspended):
            if any(job.state == "RUNNING" for job in self._alive(key)):
                self._suspended.add(key)
                self._tasks.start_soon(self._suspend, key)

    def end(self, key: Key, after_s: float = 0.0) -> None:
        """Have Slurm end all of an attempt that is not over after some seconds."""
        from_s = clock.monotonic_s() + after_s
        self._end_from_s[key] = min(from_s, self._end_from_s.get(key, from_s))
        self._end_if_due(key)

    def take(self, queue: QueueView) -> None:
        """Take in an answer of squeue; end what is there and should not be."""
        self._queue = queue
        self._suspended = {key for key in self._suspended if queue.alive(key)}
        self._to_suspend &= self._suspended | set(queue.jobs)
        for key in sorted(self._releasing):
            if any(job.state == "SUSPENDED" for job in queue.alive(key)):
                self._tasks.start_soon(self._release, key)
            else:
                self._releasing.discard(key)
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

    async def _suspend(self, key: Key) -> None:
        async with self._turns:
            try:
                await self._slurm.suspend([job.id for job in self._alive(key)])
            except SlurmRefusedError as error:
                self._to_suspend.discard(key)
                self._suspended.discard(key)
                self._refuse(str(error))
                return
            except SlurmUnknownError:
                if key in self._to_suspend:
                    self._suspended.discard(key)  # it is tried again
        if key not in self._to_suspend:  # it was told something else meanwhile
            await self._release(key)

    def _refuse(self, cause: str) -> None:
        """Tell, unless it was told last, that jobs only stand still by signals."""
        if cause != self._told:
            self._told = cause
            self._tell(
                f"jobs that stand still keep their CPUs in Slurm ({cause}): take out "
                "backend.slurm.stops_by, or ask its administrator for the rights of an operator"
            )

    async def _release(self, key: Key) -> None:
        """Have Slurm let an attempt go on; what it does not answer is asked again."""
        self._releasing.add(key)
        async with self._turns:
            with suppress(SlurmRefusedError, SlurmUnknownError):
                await self._slurm.resume([job.id for job in self._alive(key)])
                self._suspended.discard(key)
        for job in self._alive(key):
            await self._cancel(key, job.id, "USR1")

    async def _cancel(self, key: Key, number: int, signal: str) -> None:
        name = job_name(self._cluster_id, *key)
        async with self._turns:
            with suppress(SlurmUnknownError):
                await self._slurm.cancel(
                    [number], name=name, signal=signal, batch_only=bool(signal)
                )
        if not signal:
            self._ending.discard(number)
