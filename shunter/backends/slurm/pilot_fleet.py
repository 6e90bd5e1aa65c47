"""The pilots of a cluster: submitted, found in the queue, let in, renewed and given back.

All that is known of a pilot outlives the daemon: its file (ROOT/pilots), Slurm's queue, and the
supervisors below ROOT/nodes. A daemon that starts reads these and goes on. A pilot missing from an
answer of squeue that began after its submission has ended or was never taken: Slurm forgets jobs of
the seconds before a crash. A failed answer says nothing.
"""

import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import anyio

from shunter import clock
from shunter.backends.live import (
    AgentProcess,
    Link,
    NodeAgent,
    Server,
    SupervisedBackend,
    UnreachedError,
    begin_here,
    install_shared,
)
from shunter.backends.node import failpoint
from shunter.backends.slurm.answers import QueuedJob, duration, end_in_words
from shunter.backends.slurm.commands import Slurm
from shunter.backends.slurm.node_service import NodeService, least_s
from shunter.backends.slurm.pilot_allocations import (
    AllocationLimits,
    AllocationView,
    GpuRequest,
    Pilot,
    PilotState,
    SubmitRefusals,
    announced_end,
    decide,
)
from shunter.backends.slurm.pilot_channel import (
    ClusterAuthority,
    DialBack,
    ListenerSettings,
    PilotCertificate,
    PilotListener,
    PilotStream,
    read_certificate,
)
from shunter.backends.slurm.settings import (
    SlurmServer,
    SlurmSettings,
    batch_script,
    name_in,
    own_user,
    usual_options,
)
from shunter.errors import BackendError, SlurmRefusedError, SlurmUnknownError
from shunter.events import NodeName

# An agent inside a pilot. Its session runs over the pilot's connection; verbs about files on the
# shared folder run on this machine.

NOT_ASKED = "Slurm was not asked for node {name} yet"


class PilotTransport:
    """Reaches the agent of one node, while a pilot holds it.

    `reason` says why nobody is there, for people.
    """

    def __init__(self, server: SlurmServer, root: str) -> None:
        self.name = server.name
        self.servers: Sequence[Server] = (server,)
        self.address = str(server.name)
        self.environment: Mapping[str, str] = {}
        self.cgroup: str | None = ""
        self.folder = f"{root}/nodes/{server.name}"
        self.is_here = False
        self.is_on_demand = True
        self.reason = NOT_ASKED.format(name=server.name)
        self._stream: PilotStream | None = None
        self._came = anyio.Event()

    @property
    def pilot(self) -> str:
        """The name of the pilot that is connected; nothing if none is."""
        return "" if self._stream is None else self._stream.name

    async def serve(self, stream: PilotStream) -> None:
        """Have a pilot that dialled in used until its connection is over."""
        self._stream = stream
        self._came.set()
        try:
            await stream.over.wait()
        finally:
            if self._stream is stream:
                self._stream = None
                self._came = anyio.Event()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Link]:
        """Take the pilot that is there.

        Raises:
            UnreachedError: there is none, and why.
        """
        if self._stream is None:
            raise UnreachedError(self.reason)
        stream = self._stream
        try:
            yield _PilotLink(stream)
        finally:
            await stream.aclose()
            stream.over.set()

    async def answers(self) -> bool:
        """Wait until a pilot has dialled in."""
        await self._came.wait()
        return True


class _PilotLink:
    """What can be begun while a pilot is connected."""

    def __init__(self, stream: PilotStream) -> None:
        self._stream = stream

    async def begin(self, verb: str, *words: str) -> AgentProcess:
        """Begin a verb of the agent on this machine, which has the same files."""
        return await begin_here(verb, *words)

    async def begin_session(self, folder: str) -> tuple[AgentProcess, str]:
        """Return the session that the pilot has begun."""
        return _PilotSession(self._stream), self._stream.nonce


class _PilotSession:
    """The session of a pilot, as a program of the agent."""

    def __init__(self, stream: PilotStream) -> None:
        self._stream = stream

    async def read(self, most: int) -> bytes:
        try:
            return await self._stream.receive(most)
        except anyio.EndOfStream:
            return b""

    async def write(self, content: bytes) -> None:
        try:
            await self._stream.send(content)
        except anyio.BrokenResourceError as error:
            raise BrokenPipeError("the pilot is gone") from error

    async def end_input(self) -> None:
        await self._stream.send_eof()

    async def complaint(self) -> bytes:
        return self._stream.cause.encode()

    async def status(self) -> int | None:
        return None

    async def aclose(self) -> None:
        await self._stream.aclose()


def pilot_script(python: str, agent: str, file: str, folder: str) -> str:
    """Return the script, which says where the pilot's secret lies, not what it is."""
    return batch_script((python, "-I", "-S", agent, "pilot", file, folder))


def pilot_options(
    settings: SlurmSettings, server: SlurmServer, pilot: str, limit_s: float
) -> list[str]:
    """Return the options of sbatch: one node, all its GPUs, CPUs and memory."""
    output = f"{settings.root}/pilots/{pilot}.out"
    options = [
        *usual_options(settings, pilot, output, limit_s, "USR1"),
        f"--nodelist={server.name}",
        "--nodes=1",
        "--ntasks=1",
        f"--cpus-per-task={max(1, len(server.cpus))}",
    ]
    if server.gres:
        options.append(f"--gres={server.gres}")
    if server.memory_mb:
        options.append(f"--mem={server.memory_mb}M")
    return [*options, *settings.options]


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


class NodeDrains:
    """The nodes that drain.

    They do from when it is known that their pilot is about to end until they are silent. `changed`
    is set when one begins or is over, and is another event from then on.
    """

    def __init__(self) -> None:
        self._reasons: dict[NodeName, str] = {}
        self.changed = anyio.Event()

    @property
    def reasons(self) -> Mapping[NodeName, str]:
        """Why each of them drains."""
        return self._reasons

    def begin(self, node: NodeName, why: str) -> None:
        """Note why a node drains."""
        if self._reasons.get(node) != why:
            self._reasons[node] = why
            self._tell()

    def end(self, node: NodeName) -> None:
        """Note that a node does not drain: it is silent, or has another pilot."""
        if self._reasons.pop(node, None) is not None:
            self._tell()

    def _tell(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()


QUEUE_DAYS_S = 14 * 86_400.0  # a pilot's certificate outlives so long a wait in the queue
SETTLED_S = 15.0  # after a submission, until squeue is believed that it is not there
JobsOn = Callable[[NodeName], tuple[int, int]]


class PilotFleet:
    """Holds nodes of Slurm as jobs need them; `drains` says which are about to go.

    Args:
        settings: of the backend.
        slurm: the commands of the cluster.
        transports: the agent of each node.
        service: which nodes Slurm has in service.
        jobs_on: how many jobs run on a node, and how many GPUs they hold.
    """

    def __init__(
        self,
        settings: SlurmSettings,
        slurm: Slurm,
        transports: Mapping[NodeName, PilotTransport],
        service: NodeService,
        jobs_on: JobsOn,
    ) -> None:
        self._settings = settings
        self._slurm = slurm
        self._transports = transports
        self._service = service
        self._jobs_on = jobs_on
        self._servers = {server.name: server for server in settings.nodes}
        self._limits = AllocationLimits(
            pilots_max=settings.pilots_max or len(settings.nodes),
            limit_s=settings.time_limit_s,
            idle_s=settings.idle_s,
        )
        self._folder = Path(settings.root) / "pilots"
        self._user = own_user()
        self._known: dict[str, KnownPilot] = {}
        self._refusals: dict[str, SubmitRefusals] = {}
        self._spare_since_s: Mapping[str, float] = {}
        self._waiting: tuple[GpuRequest, ...] = ()
        self._wake = anyio.Event()
        self._look_at_s, self._is_seen = 0.0, False  # when the queue is due; whether it answered
        self.heard = anyio.Event()
        """Set once the queue has answered for the first time."""
        self.drains = NodeDrains()
        self._listener: PilotListener | None = None
        self._authority: ClusterAuthority | None = None
        self._port = 0
        self._agent = ""

    @property
    def unheld(self) -> frozenset[NodeName]:
        """The nodes that no pilot holds, and on which nothing of ours runs."""
        begun = {known.node for known in self._known.values() if known.has_begun}
        return frozenset(
            node
            for node, transport in self._transports.items()
            if not transport.pilot and node not in begun and not self._jobs_on(node)[0]
        )

    def want(self, waiting: Sequence[GpuRequest]) -> None:
        """Take in what jobs wait for; a change is acted upon at once."""
        if tuple(waiting) != self._waiting:
            self._waiting = tuple(waiting)
            self._wake.set()

    def recall(self, authority: ClusterAuthority, listener: PilotListener) -> None:
        """Let the pilots in that were asked for before, in whatever term.

        Raises:
            OSError: the folder of pilots cannot be used.
        """
        self._authority, self._listener = authority, listener
        self._prepare()
        for path in sorted(self._folder.glob("*.pilot")):
            with suppress(BackendError):
                found = read_certificate(path)
                node = NodeName(found.name.rpartition(".")[0])
                if node in self._transports:
                    listener.admit(found)
                    self._known[found.name] = KnownPilot(
                        node, found, clock.wall_s(), self._limits.limit_s
                    )

    def open(self, port: int) -> None:
        """Have pilots dial a port from now on; files of earlier ones are written anew.

        Raises:
            BackendError: a file cannot be written.
        """
        self._port = port
        for name, known in list(self._known.items()):
            self._admit(name, known.node, known.asked_at_s, known.limit_s)

    async def run(self) -> None:
        """Look at the queue once a poll; act then and at each change, for ever."""
        while True:
            with anyio.move_on_after(self._look_at_s - clock.monotonic_s()):
                await self._wake.wait()
            self._wake = anyio.Event()
            try:
                if clock.monotonic_s() >= self._look_at_s:
                    await self._take_in_queue()
                if self._is_seen:
                    await self._act()
            except BackendError as error:  # no answer, or no room for the file of a pilot
                self._explain({node: str(error) for node in self._transports})

    async def look(self) -> None:
        """Look at the queue, and decide nothing on it; no answer says nothing."""
        with suppress(BackendError):
            await self._take_in_queue()

    async def _take_in_queue(self) -> None:
        began_s, self._is_seen = clock.wall_s(), False
        self._look_at_s = clock.monotonic_s() + self._settings.poll_s
        await self._take_in(await self._slurm.queue(), began_s)
        self._is_seen = True
        self.heard.set()

    async def connected(self, stream: PilotStream) -> None:
        """Serve a pilot that has dialled in."""
        known = self._known.get(stream.name)
        if known is not None:
            if not stream.hello.why:  # Slurm may have run it again, after it was drained
                known.drain = ""
            self._wake.set()
            failpoint("pilot connected")
            await self._transports[known.node].serve(stream)

    def draining(self, name: str, why: str, left_s: float) -> None:
        """Note that Slurm is about to end a pilot, which suspends its jobs by itself."""
        if known := self._known.get(name):
            pilot = self._pilot(name, known)
            self._begin_drain(name, announced_end(why, left_s, pilot, clock.wall_s()))
        self._wake.set()

    def note_up(self, node: NodeName) -> None:
        """Note that a pilot is connected, which may be about to end."""
        if (known := self._known.get(self._transports[node].pilot)) and known.drain:
            self.drains.begin(node, known.drain)
        else:
            self.drains.end(node)

    def _begin_drain(self, name: str, why: str) -> None:
        """Have nothing started in a pilot any more; the first reason counts."""
        known = self._known.get(name)
        if known is None:
            return
        number = known.number if known.seen is None else known.seen.id
        job = "" if number is None else f" (Slurm job {number})"
        whose = f"the pilot on node {known.node}{job}"
        known.drain = known.drain or f"{whose} is about to end: {why}"
        if self._transports[known.node].pilot == name:
            self.drains.begin(known.node, known.drain)

    def refused(self, peer: str, cause: str) -> None:
        """Handle somebody who was not let in: there is nothing to do about it."""

    async def _take_in(self, queue: Sequence[QueuedJob], began_s: float) -> None:
        """Note what the queue tells of pilots, and forget those that are over."""
        found, ended = {}, {}
        for job in queue:
            name = name_in(self._settings.cluster_id, self._user, job)
            if name is not None and job.has_ended:
                ended[name] = job.state
            elif name is not None:
                found[name] = job
        for name, known in list(self._known.items()):
            known.seen = found.get(name)
            asked_at_s = max(known.asked_at_s, known.unheard_at_s)
            is_settled = name in ended or began_s - asked_at_s > SETTLED_S
            is_connected = self._transports[known.node].pilot == name
            if known.seen is None and name in ended:
                self._begin_drain(name, end_in_words(ended[name], known.limit_s))
                is_connected &= bool(self._jobs_on(known.node)[0])
            if known.seen is None and is_settled and not is_connected:
                await self._forget(name)
            if known.seen is not None and known.seen.is_being_preempted and not known.drain:
                left_s = max(0.0, float(known.seen.end_s or 0) - clock.wall_s())
                await self._drain(name, f"Slurm preempts it in {duration(left_s)}")
        await self._end_unknown([found[name] for name in sorted(found.keys() - self._known.keys())])

    async def _end_unknown(self, pilots: Sequence[QueuedJob]) -> None:
        """End pilots of ours that are not let in, and would keep their nodes.

        Their submissions came to be long after the answers were lost, or their files are gone.
        """
        await self._slurm.cancel([job.id for job in pilots if job.state == "PENDING"])
        begun = [job.id for job in pilots if job.state != "PENDING"]
        await self._slurm.cancel(begun, signal="USR1", batch_only=True)  # what runs there may save

    async def _act(self) -> None:
        """Decide what to ask for and to give back, and do it."""
        now_s = clock.wall_s()
        view = AllocationView(
            now_s=now_s,
            nodes=self._settings.nodes,
            pilots=tuple(self._pilot(name, known) for name, known in self._known.items()),
            waiting=(*self._waiting, *self._unread()),
            refusals=dict(self._refusals),
            reservations=self._service.reservations,
            out_of_service=self._service.out_of_service(now_s) or {},
            spare_since_s=self._spare_since_s,
        )
        decisions = decide(view, self._limits)
        self._spare_since_s = decisions.spare_since_s
        self._explain(decisions.reasons)
        for submit in decisions.submits:
            await self._submit(NodeName(submit.node), submit.limit_s)
        for drain in decisions.drains:
            await self._drain(drain.pilot, drain.why)
        for release in decisions.releases:
            await self._release(release.pilot, release.why)

    def _unread(self) -> list[GpuRequest]:
        """Return requests for nodes with attempts whose pilots are gone.

        What attempts left there is read by the next pilot: else they would count as running until
        nothing of them can be alive any more.
        """
        return [
            GpuRequest(1, nodes=frozenset({str(node)}))
            for node, transport in self._transports.items()
            if not transport.pilot and self._jobs_on(node)[0]
        ]

    def _pilot(self, name: str, known: KnownPilot) -> Pilot:
        is_connected = self._transports[known.node].pilot == name
        return known.as_pilot(name, self._jobs_on(known.node), is_connected=is_connected)

    def _explain(self, reasons: Mapping[NodeName, str] | Mapping[str, str]) -> None:
        for node, transport in self._transports.items():
            transport.reason = reasons.get(node, transport.reason)

    async def _submit(self, node: NodeName, limit_s: float) -> None:
        """Ask Slurm for a node; an answer that is lost is settled by the queue.

        Raises:
            BackendError: there is no room for the files of a pilot.
        """
        name = f"{node}.{secrets.token_hex(4)}"
        try:
            self._prepare()
        except OSError as error:
            raise BackendError(f"{self._folder} cannot be written: {error}") from error
        certificate = self._admit(name, node, clock.wall_s(), limit_s)
        server, settings = self._servers[node], self._settings
        folder = self._transports[node].folder
        script = pilot_script(settings.python, self._agent, str(certificate.path), folder)
        options = pilot_options(settings, server, name, limit_s)
        failpoint("pilot admitted")
        try:
            submitted = await self._slurm.submit(script, options, environment={})
        except SlurmRefusedError as error:
            before = self._refusals.get(node)
            count = 1 if before is None else before.count + 1
            self._refusals[node] = SubmitRefusals(count, clock.wall_s(), str(error))
            await self._forget(name)
        except SlurmUnknownError:
            # It may be there, or come yet: the queue tells, some time from now.
            self._known[name].unheard_at_s = clock.wall_s()
        else:
            failpoint("pilot submitted")
            self._known[name].number = submitted.id
            self._refusals.pop(node, None)

    async def _drain(self, name: str, why: str) -> None:
        """Have a pilot suspend what runs in it, as Slurm does before its time limit."""
        known = self._known[name]
        self._begin_drain(name, why)
        if known.seen is not None:
            await self._slurm.cancel([known.seen.id], signal="USR1", batch_only=True)

    async def _release(self, name: str, why: str) -> None:
        """Give a node back, unless a job has come to it meanwhile.

        While its pilot is connected, first nothing is started there any more, which is told; at
        the next look it goes.
        """
        known = self._known[name]
        if self._transports[known.node].pilot == name:
            if self._jobs_on(known.node)[0]:
                return
            if not known.drain:
                self._begin_drain(name, why)
                self._look_at_s = 0.0
                self._wake.set()
                return
        assert self._listener is not None, "it is open"
        await self._listener.revoke(name)
        if known.seen is not None:
            await self._slurm.cancel([known.seen.id])
        failpoint("pilot released")
        await self._forget(name)

    def _admit(
        self, name: str, node: NodeName, asked_at_s: float, limit_s: float
    ) -> PilotCertificate:
        """Write the file of a pilot, and let it in when it dials."""
        assert self._listener is not None, "it is open"
        assert self._authority is not None, "it is open"
        settings = self._settings
        dial_back = DialBack(
            addresses=settings.addresses,
            port=self._port,
            cluster=settings.cluster_id,
            silent_s=max(30.0, 3 * settings.patrol_s),
            patience_s=settings.heartbeat_deadline_s,
        )
        certificate = self._authority.issue(
            name,
            self._folder / f"{name}.pilot",
            dial_back,
            valid_s=limit_s + QUEUE_DAYS_S,
            wall_s=clock.wall_s(),
        )
        self._listener.admit(certificate)
        self._known[name] = KnownPilot(node, certificate, asked_at_s, limit_s)
        return certificate

    async def _forget(self, name: str) -> None:
        """Take a pilot for ended, and its key with it."""
        assert self._listener is not None, "it is open"
        await self._listener.revoke(name)
        known = self._known.pop(name)
        with suppress(OSError):
            known.certificate.remove_file()

    def _prepare(self) -> None:
        """Have the folder of pilots, and the agent in it, which may be removed."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self._agent or not Path(self._agent).exists():
            self._agent = install_shared(str(self._folder))


FIRST_LOOK_S = 3.0  # what a start waits for Slurm at most


class PilotBackend(SupervisedBackend):
    """Runs attempts inside allocations of Slurm; use it as an async context."""

    def __init__(self, settings: SlurmSettings, start_us: int = 0) -> None:
        self._slurm_settings = settings
        transports = {
            server.name: PilotTransport(server, settings.root) for server in settings.nodes
        }
        super().__init__(settings, settings.owner, list(transports.values()), start_us)
        slurm = Slurm(deadline_s=settings.command_s, conf=settings.conf)
        self._service = NodeService(
            slurm, transports, least_s=least_s(settings.time_limit_s), options=settings.options
        )
        self._fleet = PilotFleet(settings, slurm, transports, self._service, self._jobs_on)

    async def __aenter__(self) -> Self:
        """Await pilots; those of earlier terms dial in again.

        Raises:
            ConfigError: the key pair of pilots is not one that only we can read.
            OSError: the port cannot be had, or the shared folder not be used.
        """
        settings = self._slurm_settings
        authority = ClusterAuthority.load(Path(settings.root), clock.wall_s())
        await super().__aenter__()
        listener = PilotListener(
            authority, self._fleet, ListenerSettings(host=settings.listen or None)
        )
        self._fleet.recall(authority, listener)  # first: who dials and is unwanted ends
        self._fleet.open(await self._tasks.start(listener.serve))
        self._tasks.start_soon(self._open_once_heard)
        await self._look_first()
        self._tasks.start_soon(self._service.run, settings.poll_s)
        self._tasks.start_soon(self._fleet.run)
        return self

    async def _look_first(self) -> None:
        """Ask, before anything is started, what Slurm has ended meanwhile.

        That is of pilots and of nodes. A controller that does not answer is waited for later: what
        runs is to go on, and until then pilots take nothing new.
        """
        with anyio.move_on_after(FIRST_LOOK_S):
            async with anyio.create_task_group() as looks:
                looks.start_soon(self._fleet.look)
                looks.start_soon(self._look_at_nodes)

    async def _open_once_heard(self) -> None:
        """Have the pilots that are connected take new jobs, once Slurm has answered."""
        await self._fleet.heard.wait()
        await self._service.known.wait()
        for agent in self.agents.values():
            if agent.is_up:
                await self.note_up(agent)

    async def _look_at_nodes(self) -> None:
        with suppress(SlurmUnknownError):
            await self._service.look()

    def want(self, waiting: Sequence[GpuRequest]) -> None:
        """Take in what jobs wait for."""
        self._fleet.want(waiting)

    @property
    def unheld(self) -> frozenset[NodeName]:
        """The nodes of which nothing is expected, as Slurm has not given them."""
        return self._fleet.unheld

    def out_of_service(self, now_s: float) -> Mapping[NodeName, str] | None:
        """Return the nodes that take no new jobs, with why; None: not known yet.

        Those of pilots that are about to end are among them, until they have ended.
        """
        out = self._service.out_of_service(now_s)
        return None if out is None else {**self._fleet.drains.reasons, **out}

    @property
    def renewed(self) -> frozenset[NodeName]:
        """The nodes that take no new jobs only until another pilot holds them."""
        out = self._service.out_of_service(clock.wall_s()) or {}
        return frozenset(node for node in self._fleet.drains.reasons if node not in out)

    @property
    def drains_changed(self) -> anyio.Event:
        """What is set when a pilot begins to drain, or one that did is silent."""
        return self._fleet.drains.changed

    def drain_of(self, node: NodeName) -> str:
        """Return why the pilot on a node is about to end; nothing if it is not."""
        return self._fleet.drains.reasons.get(node, "")

    def doubt_of(self, node: NodeName) -> str:
        """Return why the pilot on a node takes nothing new yet; nothing if it does.

        Slurm may have given the node up, or the pilot, while no daemon was there to be told.
        """
        if self._fleet.heard.is_set() and self._service.known.is_set():
            return ""
        lacks = "told of its nodes" if self._fleet.heard.is_set() else "answered"
        return (
            f"Slurm has not {lacks} since this daemon started, so whether it still has node "
            f"{node} in service is not known; what runs there goes on"
        )

    async def came_up(self, agent: NodeAgent) -> None:
        """Handle a pilot that is connected."""
        self._fleet.note_up(agent.name)
        await super().came_up(agent)

    def became_unreachable(self, agent: NodeAgent) -> None:
        """Handle a node without a pilot: its being silent says all there is to say of it."""
        super().became_unreachable(agent)
        self._fleet.drains.end(agent.name)

    @property
    def silence(self) -> str:
        """For how long Slurm has not answered, and why not; nothing where it answers."""
        return self._service.silence

    def _jobs_on(self, node: NodeName) -> tuple[int, int]:
        """Return how many jobs run on a node, or are on their way, and their GPUs there."""
        gangs = [gang for gang in self._gangs.values() if node in gang.parts]
        gpus = 0
        for gang in gangs:
            started = gang.parts[node].started
            gpus += len(started.gpus) if started is not None else 1
        return len(gangs), gpus
