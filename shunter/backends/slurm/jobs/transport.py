"""Slurm as one agent for all nodes of a partition: a session within the daemon."""

import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup, TaskStatus

from shunter import clock
from shunter.backends.agents.child_process import begin_here
from shunter.backends.agents.transport import AgentProcess, Link, Server, UnreachedError
from shunter.backends.agents.zip_application import install_shared
from shunter.backends.slurm.commands import Slurm
from shunter.backends.slurm.jobs.queue_view import QueueView
from shunter.backends.slurm.jobs.script import Key
from shunter.backends.slurm.jobs.session import JobSession
from shunter.backends.slurm.node_service import NodeService
from shunter.backends.slurm.settings import SlurmSettings
from shunter.errors import BackendError
from shunter.events.values.ids import NodeName

NAME = NodeName("slurm")


class JobTransport:
    """Reaches what Slurm runs: by its commands, and by a folder that all nodes share."""

    def __init__(
        self,
        settings: SlurmSettings,
        slurm: Slurm,
        service: NodeService,
        seen: Callable[[QueueView], None],
        tell: Callable[[str], None],
    ) -> None:
        self.name = NAME
        self.servers: Sequence[Server] = settings.nodes
        self.address = str(settings.nodes[0].name) if settings.nodes else ""
        self.environment: Mapping[str, str] = {}
        self.cgroup: str | None = ""
        self.folder = settings.root
        self.is_here = True
        self.is_on_demand = False
        self.reason = ""
        self._settings = settings
        self._slurm = slurm
        self._service = service
        self._seen = seen
        self._tell = tell
        self._queue: QueueView | None = None
        self._held_back: dict[Key, str] = {}

    def wait_of(self, job: str, attempt: int) -> str:
        """Return what Slurm says that an attempt waits for; nothing if it does not wait."""
        key = job, attempt
        waits = "" if self._queue is None else self._queue.wait_of(key, clock.wall_s())
        return waits or self._held_back.get(key, "")

    def session(self, agent: str, say: Callable[[bytes], None]) -> JobSession:
        """Return a session that has not begun."""
        return JobSession(
            self._settings,
            self._slurm,
            agent,
            say,
            self._take,
            self._service,
            self._held_back,
            self._tell,
        )

    def _take(self, queue: QueueView) -> None:
        self._queue = queue
        self._seen(queue)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Link]:
        """Put the program of attempts onto the shared folder, and begin.

        Raises:
            UnreachedError: the folder cannot be used.
        """
        try:
            agent = await to_thread.run_sync(install_shared, f"{self.folder}/agent")
        except OSError as error:
            raise UnreachedError(f"the shared folder cannot be used: {error}") from error
        failed: BackendError | None = None
        async with anyio.create_task_group() as tasks:
            try:
                yield _JobLink(self, agent, tasks)
            except BackendError as error:  # which a task group would pack
                failed = error
            tasks.cancel_scope.cancel()
        if failed is not None:
            raise failed

    async def answers(self) -> bool:
        """Return that there is somebody; the folder is tried by using it."""
        return True


class _JobLink:
    """What can be begun: one session, and verbs that are about files alone."""

    def __init__(self, transport: JobTransport, agent: str, tasks: TaskGroup) -> None:
        self._transport = transport
        self._agent = agent
        self._tasks = tasks

    async def begin(self, verb: str, *words: str) -> AgentProcess:
        """Begin a verb of the agent on this machine, which has the same files.

        Raises:
            OSError: it cannot be begun.
        """
        return await begin_here(verb, *words)

    async def begin_session(self, folder: str) -> tuple[AgentProcess, str]:
        """Begin a session."""
        process = _SessionProcess()
        process.session = self._transport.session(self._agent, process.say)
        nonce = secrets.token_hex(8)
        process.session.greet(nonce)
        await self._tasks.start(process.run)
        return process, nonce


class _SessionProcess:
    """A session within this process, as a program of the agent."""

    session: JobSession

    def __init__(self) -> None:
        self._said, self._came = bytearray(), anyio.Event()
        self._left = b""
        self._is_over, self._complaint = False, ""

    async def run(self, task_status: TaskStatus[None]) -> None:
        """Run the session until the shared folder fails it."""
        try:
            await self.session.run(task_status)
        except* OSError as errors:
            cause: BaseException = errors
            while isinstance(cause, BaseExceptionGroup):
                cause = cause.exceptions[0]
            self._complaint = f"the shared folder cannot be used: {cause}"
        await self.end_input()

    def say(self, line: bytes) -> None:
        """Take what the session says."""
        self._said += line
        self._came.set()

    async def read(self, most: int) -> bytes:
        while not self._said and not self._is_over:
            self._came = anyio.Event()
            await self._came.wait()
        piece = bytes(self._said[:most])
        del self._said[:most]
        return piece

    async def write(self, content: bytes) -> None:
        if self._is_over:
            raise BrokenPipeError("the session has ended")
        *lines, self._left = (self._left + content).split(b"\n")
        for line in lines:
            self.session.take(line)

    async def end_input(self) -> None:
        self._is_over = True
        self._came.set()

    async def complaint(self) -> bytes:
        return self._complaint.encode()

    async def status(self) -> int | None:
        return None

    async def aclose(self) -> None:
        await self.end_input()
