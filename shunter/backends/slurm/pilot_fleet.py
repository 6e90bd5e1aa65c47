"""The pilots of a cluster: submitted, found in the queue, let in, renewed and given back.

All that is known of a pilot outlives the daemon: its file (ROOT/pilots), Slurm's queue, and the
supervisors below ROOT/nodes. A daemon that starts reads these and goes on. A pilot missing from an
answer of squeue that began after its submission has ended or was never taken: Slurm forgets jobs of
the seconds before a crash. A failed answer says nothing.
"""

import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Self

import anyio

from shunter import clock
from shunter.backends.live import AgentProcess, Link, NodeAgent, UnreachedError, install_shared
from shunter.backends.node import PilotFile, failpoint
from shunter.backends.slurm.answers import QueuedJob, duration, end_in_words
from shunter.backends.slurm.backend import SlurmBackend, SlurmLink, SlurmTransport, node_service
from shunter.backends.slurm.commands import Slurm
from shunter.backends.slurm.node_service import NodeService, SubmitRefusals
from shunter.backends.slurm.pilot_channel import (
    ClusterAuthority,
    ListenerSettings,
    PilotListener,
    PilotStream,
    read_certificate,
)
from shunter.backends.slurm.pilots import (
    AllocationLimits,
    AllocationView,
    GpuRequest,
    Pilot,
    announced_end,
    decide,
)
from shunter.backends.slurm.settings import (
    SlurmServer,
    SlurmSettings,
    batch_script,
    name_in,
    own_user,
    share_options,
    usual_options,
)
from shunter.errors import BackendError, SlurmRefusedError, SlurmUnknownError
from shunter.events import NodeName

# An agent inside a pilot. Its session runs over the pilot's connection; verbs about files on the
# shared folder run on this machine.


class PilotTransport(SlurmTransport):
    """Reaches the agent of one node, while a pilot holds it.

    `reason` says why no pilot is there, for people.
    """

    def __init__(self, server: SlurmServer, root: str) -> None:
        folder = f"{root}/nodes/{server.name}"
        super().__init__(server.name, (server,), folder, is_on_demand=True)
        self.reason = f"Slurm was not asked for node {server.name} yet"
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


class _PilotLink(SlurmLink):
    """What can be begun while a pilot is connected."""

    def __init__(self, stream: PilotStream) -> None:
        self._stream = stream

    async def begin_session(self, folder: str) -> tuple[AgentProcess, str]:
        """Return the session that the pilot has begun."""
        return self._stream, self._stream.nonce


def pilot_script(python: str, agent: str, file: str, folder: str) -> str:
    """Return the script, which says where the pilot's secret lies, not what it is."""
    return batch_script((python, "-I", "-S", agent, "pilot", file, folder))


def pilot_options(
    settings: SlurmSettings, server: SlurmServer, pilot: str, limit_s: float
) -> list[str]:
    """Return the options of sbatch: one node, all its GPUs, CPUs and memory."""
    output = f"{settings.root}/pilots/{pilot}.out"
    return [
        *usual_options(settings, pilot, output, limit_s, "USR1"),
        *(f"--nodelist={server.name}", "--nodes=1", "--ntasks=1"),
        *share_options(max(1, len(server.cpus)), server.gres, server.memory_mb),
        *settings.options,
    ]


QUEUE_DAYS_S = 14 * 86_400.0  # a pilot's certificate outlives so long a wait in the queue
SETTLED_S = 15.0  # after a submission, until squeue is believed that it is not there
JobsOn = Callable[[NodeName], tuple[int, int]]


class PilotFleet:
    """Holds nodes of Slurm as jobs need them.

    `drains` says why nodes drain, from when it is known that their pilot is about to end until they
    are silent. `drains_changed` is set when one begins or is over, and is another event from then.

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
        self._limits = AllocationLimits(
            pilots_max=settings.pilots_max or len(settings.nodes),
            limit_s=settings.time_limit_s,
            idle_s=settings.idle_s,
        )
        self._folder = Path(settings.root) / "pilots"
        self._user = own_user()
        self._pilots: dict[str, Pilot] = {}
        self._spare_since_s: Mapping[str, float] = {}
        self._waiting: tuple[GpuRequest, ...] = ()
        self._wake = anyio.Event()
        self._look_at_s, self._is_seen = 0.0, False  # when the queue is due; whether it answered
        self.answered = anyio.Event()
        """Set once the queue has answered for the first time."""
        self.drains: dict[NodeName, str] = {}
        self.drains_changed = anyio.Event()
        self._listener: PilotListener | None = None
        self._authority: ClusterAuthority | None = None
        self._port = 0
        self._agent = ""

    @property
    def unheld(self) -> frozenset[NodeName]:
        """The nodes that no pilot holds, and on which nothing of ours runs."""
        begun = {pilot.node for pilot in self._pilots.values() if pilot.has_begun}
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
                    self._pilots[found.name] = _asked_now(found.name, node, self._limits.limit_s)

    def open(self, port: int) -> None:
        """Have pilots dial a port from now on; files of earlier ones are written again.

        Raises:
            BackendError: a file cannot be written.
        """
        self._port = port
        for pilot in self._pilots.values():
            self._admit(pilot)

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
        self.answered.set()

    async def connected(self, stream: PilotStream) -> None:
        """Serve a pilot that has dialled in."""
        pilot = self._pilots.get(stream.name)
        if pilot is not None:
            pilot.dial_in(stream.hello.instance, stream.hello.why, clock.wall_s())
            self._wake.set()
            failpoint("pilot connected")
            try:
                await self._transports[pilot.node].serve(stream)
            finally:
                pilot.note("hangs up")

    def draining(self, name: str, why: str, left_s: float) -> None:
        """Note that Slurm is about to end a pilot, which suspends its jobs by itself."""
        if pilot := self._pilots.get(name):
            self._begin_drain(pilot, announced_end(why, left_s, pilot, clock.wall_s()))
        self._wake.set()

    def note_up(self, node: NodeName) -> None:
        """Note that a pilot is connected, which may be about to end."""
        pilot = self._pilots.get(self._transports[node].pilot)
        self._note_drain(node, "" if pilot is None else pilot.drain)

    def note_silent(self, node: NodeName) -> None:
        """Note that no pilot is connected: that says all there is to say of its node."""
        self._note_drain(node, "")

    def _note_drain(self, node: NodeName, why: str) -> None:
        if self.drains.get(node, "") != why:
            self.drains[node] = why
            if not why:
                del self.drains[node]
            self.drains_changed.set()
            self.drains_changed = anyio.Event()

    def refused(self, peer: str, cause: str) -> None:
        """Handle a connection that was not let in: there is nothing to do about it."""

    def _is_served(self, pilot: Pilot) -> bool:
        """Say whether a pilot is the one that is connected on its node."""
        return self._transports[pilot.node].pilot == pilot.name

    def _begin_drain(self, pilot: Pilot, why: str) -> None:
        """Have nothing started in a pilot any more."""
        pilot.begin_drain(why, clock.wall_s())
        if self._is_served(pilot):
            self._note_drain(pilot.node, pilot.drain)

    async def _take_in(self, queue: Sequence[QueuedJob], began_s: float) -> None:
        """Note what the queue says of pilots, and forget those that are over."""
        found, ended = dict[str, QueuedJob](), dict[str, str]()
        for job in queue:
            name = name_in(self._settings.cluster_id, self._user, job)
            if name is not None and job.has_ended:
                ended[name] = job.state
            elif name is not None:
                found[name] = job
        for name, pilot in list(self._pilots.items()):
            shown = found.get(name)
            if not pilot.see(shown, began_s):
                continue
            if shown is None:
                is_over = name in ended or began_s - pilot.called_at_s > SETTLED_S
                is_served = self._is_served(pilot)
                if name in ended:
                    self._begin_drain(pilot, end_in_words(ended[name], pilot.limit_s))
                    is_served &= bool(self._jobs_on(pilot.node)[0])
                if is_over and not is_served:
                    await self._forget(pilot)
            elif shown.is_being_preempted and not pilot.drain:
                left_s = max(0.0, float(shown.end_s or 0) - clock.wall_s())
                await self._drain(pilot, f"Slurm preempts it in {duration(left_s)}")
        await self._end_unknown(
            [found[name] for name in sorted(found.keys() - self._pilots.keys())]
        )

    async def _end_unknown(self, pilots: Sequence[QueuedJob]) -> None:
        """End pilots of ours that are not let in, and would keep their nodes.

        Their submissions came to be long after the answers were lost, or their files are gone.
        """
        await self._slurm.cancel([job.id for job in pilots if job.is_pending])
        begun = [job.id for job in pilots if not job.is_pending]
        await self._slurm.cancel(begun, signal="USR1", batch_only=True)  # what runs there may save

    async def _act(self) -> None:
        """Decide what to ask for and to give back, and do it."""
        for pilot in self._pilots.values():
            pilot.jobs, pilot.busy_gpus = self._jobs_on(pilot.node) if pilot.has_begun else (0, 0)
        view = AllocationView(
            now_s=clock.wall_s(),
            nodes=tuple(self._service.nodes.values()),
            pilots=tuple(self._pilots.values()),
            waiting=(*self._waiting, *self._unread()),
            spare_since_s=self._spare_since_s,
        )
        decisions = decide(view, self._limits)
        self._spare_since_s = decisions.spare_since_s
        self._explain(decisions.reasons)
        for node, limit_s in decisions.submits.items():
            await self._submit(node, limit_s)
        for name, why in decisions.drains.items():
            await self._drain(self._pilots[name], why)
        for name, why in decisions.releases.items():
            await self._release(self._pilots[name], why)

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

    def _explain(self, reasons: Mapping[NodeName, str]) -> None:
        for node, transport in self._transports.items():
            transport.reason = reasons.get(node, transport.reason)

    async def _submit(self, node: NodeName, limit_s: float) -> None:
        """Ask Slurm for a node; an answer that is lost is settled by the queue.

        Raises:
            BackendError: there is no room for the files of a pilot.
        """
        try:
            self._prepare()
        except OSError as error:
            raise BackendError(f"{self._folder} cannot be written: {error}") from error
        pilot = _asked_now(f"{node}.{secrets.token_hex(4)}", node, limit_s)
        self._admit(pilot)
        self._pilots[pilot.name] = pilot
        settings, known = self._settings, self._service.nodes[node]
        folder = self._transports[node].folder
        script = pilot_script(settings.python, self._agent, str(self._file(pilot)), folder)
        options = pilot_options(settings, known.server, pilot.name, limit_s)
        failpoint("pilot admitted")
        try:
            pilot.number = await self._slurm.submit(script, options)
        except SlurmRefusedError as error:
            count = 1 if known.refusals is None else known.refusals.count + 1
            known.refusals = SubmitRefusals(count, clock.wall_s(), str(error))
            await self._forget(pilot)
        except SlurmUnknownError:
            # It may be there, or come yet: the queue will say so, some time from now.
            pilot.called_at_s = clock.wall_s()
        else:
            failpoint("pilot submitted")
            known.refusals = None

    async def _drain(self, pilot: Pilot, why: str) -> None:
        """Have a pilot suspend what runs in it, as Slurm does before its time limit."""
        self._begin_drain(pilot, why)
        if pilot.is_listed and pilot.number is not None:
            await self._slurm.cancel([pilot.number], signal="USR1", batch_only=True)

    async def _release(self, pilot: Pilot, why: str) -> None:
        """Give a node back, unless a job has come to it meanwhile.

        While its pilot is connected, first it is drained, so that nothing is planned there; at the
        next look it goes.
        """
        if self._is_served(pilot):
            if self._jobs_on(pilot.node)[0]:
                return
            if not pilot.drain:
                self._begin_drain(pilot, why)
                self._look_at_s = 0.0
                self._wake.set()
                return
        assert self._listener is not None, "it is open"
        await self._listener.revoke(pilot.name)
        if pilot.is_listed and pilot.number is not None:
            await self._slurm.cancel([pilot.number])
        failpoint("pilot released")
        await self._forget(pilot)

    def _file(self, pilot: Pilot) -> Path:
        return self._folder / f"{pilot.name}.pilot"

    def _admit(self, pilot: Pilot) -> None:
        """Write the file of a pilot, and let it in when it dials."""
        assert self._listener is not None, "it is open"
        assert self._authority is not None, "it is open"
        settings = self._settings
        told = PilotFile(
            name=pilot.name,
            addresses=settings.addresses,
            port=self._port,
            cluster=settings.cluster_id,
            silent_s=max(30.0, 3 * settings.patrol_s),
            patience_s=settings.heartbeat_deadline_s,
        )
        certificate = self._authority.issue(
            self._file(pilot),
            told,
            valid_s=pilot.limit_s + QUEUE_DAYS_S,
            wall_s=clock.wall_s(),
        )
        self._listener.admit(certificate)

    async def _forget(self, pilot: Pilot) -> None:
        """Take a pilot for ended, and its key with it."""
        assert self._listener is not None, "it is open"
        await self._listener.revoke(pilot.name)
        pilot.note("is gone")
        del self._pilots[pilot.name]
        with suppress(OSError):
            self._file(pilot).unlink(missing_ok=True)

    def _prepare(self) -> None:
        """Have the folder of pilots, and the agent in it, which may be removed."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self._agent or not Path(self._agent).exists():
            self._agent = install_shared(str(self._folder))


def _asked_now(name: str, node: NodeName, limit_s: float) -> Pilot:
    now_s = clock.wall_s()
    return Pilot(name, node, now_s, limit_s, called_at_s=now_s)


FIRST_LOOK_S = 3.0  # what a start waits for Slurm at most


class PilotBackend(SlurmBackend):
    """Runs attempts inside allocations of Slurm; use it as an async context."""

    def __init__(self, settings: SlurmSettings, start_us: int = 0) -> None:
        self._settings = settings
        transports = {
            server.name: PilotTransport(server, settings.root) for server in settings.nodes
        }
        self._slurm = Slurm(deadline_s=settings.command_s, conf=settings.conf)
        self._service = node_service(settings, self._slurm)
        super().__init__(settings, settings.owner, list(transports.values()), start_us)
        self._fleet = PilotFleet(settings, self._slurm, transports, self._service, self._jobs_on)

    async def __aenter__(self) -> Self:
        """Await pilots; those of earlier terms dial in again.

        Raises:
            ConfigError: the key pair of pilots is not one that only we can read.
            OSError: the port cannot be had, or the shared folder not be used.
        """
        settings = self._settings
        authority = ClusterAuthority.load(Path(settings.root), clock.wall_s())
        await super().__aenter__()
        listener = PilotListener(
            authority, self._fleet, ListenerSettings(host=settings.listen or None)
        )
        self._fleet.recall(authority, listener)  # first: who dials and is unwanted ends
        self._fleet.open(await self._tasks.start(listener.serve))
        self._tasks.start_soon(self._open_once_answered)
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

    async def _open_once_answered(self) -> None:
        """Have the pilots that are connected take new jobs, once Slurm has answered."""
        await self._fleet.answered.wait()
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
        out = super().out_of_service(now_s)
        return None if out is None else {**self._fleet.drains, **out}

    @property
    def renewed(self) -> frozenset[NodeName]:
        """The nodes that take no new jobs only until another pilot holds them."""
        out = self._service.out_of_service(clock.wall_s()) or {}
        return frozenset(node for node in self._fleet.drains if node not in out)

    @property
    def drains_changed(self) -> anyio.Event:
        """What is set when a pilot begins to drain, or one that did is silent."""
        return self._fleet.drains_changed

    def drain_of(self, node: NodeName) -> str:
        """Return why the pilot on a node is about to end; nothing if it is not."""
        return self._fleet.drains.get(node, "")

    def doubt_of(self, node: NodeName) -> str:
        """Return why the pilot on a node takes nothing new yet; nothing if it does.

        Slurm may have given the node up, or the pilot, while no daemon was there.
        """
        if self._fleet.answered.is_set() and self._service.known.is_set():
            return ""
        lacks = "told of its nodes" if self._fleet.answered.is_set() else "answered"
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
        self._fleet.note_silent(agent.name)

    def _jobs_on(self, node: NodeName) -> tuple[int, int]:
        """Return how many jobs run on a node, or are on their way, and their GPUs there."""
        gangs = [gang for gang in self._gangs.values() if node in gang.parts]
        gpus = 0
        for gang in gangs:
            started = gang.parts[node].started
            gpus += len(started.gpus) if started is not None else 1
        return len(gangs), gpus
