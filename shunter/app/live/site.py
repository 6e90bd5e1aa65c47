"""One running cluster: its state, its log, its loop, and what people may do with it."""

from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta

from shunter.app.config.model import Config
from shunter.app.live.backends import LiveBackend
from shunter.app.live.commands import Commands
from shunter.app.live.desk import Desk, Stopped
from shunter.app.live.feed import Feed
from shunter.app.live.history import Identity
from shunter.app.live.requests import Caller, Receipt, Submission
from shunter.app.runs.recorder import snapshot_of
from shunter.core.intake.inputs import Command
from shunter.core.rounds import run_rounds
from shunter.core.scheduler import Scheduler
from shunter.core.state import State
from shunter.errors import ShunterError
from shunter.events.facts.run import SchedulerStopped
from shunter.events.kinds import Event
from shunter.events.log import LogWriter
from shunter.events.values.ids import JobId

__all__ = ["Site"]


class Site:
    """A cluster that runs; made by `open_site`, and at work while `run` is."""

    def __init__(
        self,
        config: Config,
        identity: Identity,
        core: Scheduler,
        backend: LiveBackend,
        log: LogWriter,
    ) -> None:
        self.config = config
        self.cluster_id = identity.cluster_id
        self.origin = identity.origin
        self._core = core
        self._backend = backend
        self._log = log
        self._feed = Feed(log)
        self._desk = Desk(backend, log, self._feed)
        self._commands = Commands(core.state, config)

    @property
    def term(self) -> int:
        """The term of this start of the scheduler."""
        return self._log.term

    @property
    def policy(self) -> str:
        """The policy that decides."""
        return self._core.policy.name

    @property
    def state(self) -> State:
        """What is true now; to be read only, on the thread of the loop."""
        return self._core.state

    @property
    def committed(self) -> int:
        """The sequence number of the last durable event."""
        return self._feed.committed

    def now_us(self) -> int:
        """Return the instant it is."""
        return self._backend.now_us()

    def wall(self, at_us: int) -> datetime:
        """Return an instant of the log as a date and time, in UTC."""
        return self.origin + timedelta(microseconds=at_us)

    def follow(self, after: int) -> AsyncIterator[tuple[int, Event]]:
        """Yield the durable events after a sequence number, with theirs, until the site stops.

        Raises:
            UsageError: the number lies beyond the log.
        """
        return self._feed.follow(after)

    async def tell(self, stamped: Callable[[int], Command]) -> Receipt:
        """Hand a command in; return once its step is durable and its effects are out.

        Raises:
            UnreachableError: the scheduler stopped before it took the command.
        """
        return await self._desk.tell(stamped)

    async def submit(self, request: Submission, by: Caller) -> JobId:
        """Submit a job; return its id once it is durable.

        Raises:
            RefusedError: the caller may not, or no job like that can ever run here.
            NotFoundError: it depends on a job that does not exist.
        """
        return await self._commands.submit(self.tell, request, by)

    async def cancel(self, job_id: JobId, by: Caller) -> None:
        """End a job, or keep it from starting.

        Raises:
            NotFoundError: there is no such job.
            RefusedError: it is somebody else's, or has ended.
        """
        await self.tell(self._commands.cancel(job_id, by))

    async def run(self) -> None:
        """Run the round loop until it is asked to stop.

        Raises:
            LogError: the log cannot be written; nothing was done that is not in it.
            BackendError: the backend failed for good.
        """
        cause = "it ended"
        try:
            await run_rounds(self._core, self._desk, self._desk, self._core.state.now_us)
        except Stopped:
            cause = "it was asked to"
            await self._say_goodbye()
        except ShunterError as error:
            cause = str(error)
            raise
        finally:
            self._desk.close(cause)
            self._feed.close()

    def stop(self) -> None:
        """Let `run` end after the step it is in; jobs run on."""
        self._desk.stop()

    async def _say_goodbye(self) -> None:
        """Close the term, with a snapshot for the next one."""
        core = self._core
        at_us = max(core.state.now_us, self.now_us())
        core.view.open()
        core.emit(SchedulerStopped(at_us, "asked to stop"))
        core.view.close()
        self._desk.append([SchedulerStopped(at_us, "asked to stop")])
        await self._log.save_snapshot(snapshot_of(core))
        await self._desk.commit()
