"""A cluster inside Slurm, for the daemon: settings, nodes, demand, places, parts of nodes."""

import os
import secrets
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

import anyio

from shunter import clock
from shunter.backends.node import WITHDRAWN, Wiring, WrongMessageError, claimed_by, get, put
from shunter.backends.node.host import NOTED
from shunter.backends.slurm import (
    UNTYPED,
    GpuRequest,
    NetworkSwitch,
    Slurm,
    SlurmServer,
    SlurmSettings,
)
from shunter.config import (
    BackendSection,
    ClusterSection,
    Config,
    LoadedConfig,
    SlurmSection,
    shared_limits,
)
from shunter.core import Command, DrainNode, Health, RestoreNode, State
from shunter.daemon.feed import Feed
from shunter.daemon.gpu_maps import Place
from shunter.errors import ConfigError, SlurmUnknownError, UnreachableError, extra_hint
from shunter.events import (
    ConfigurationSet,
    JobId,
    JobSpec,
    NodeDrained,
    NodeName,
    NodeRemoved,
    NodeRestored,
)
from shunter.events.log import LogWriter, read_log

CRYPTOGRAPHY_LEAST = 46
"""The oldest version that the extra `slurm` takes, a whole number."""


def check_served(section: BackendSection) -> None:
    """Return if what a config needs of this machine is installed.

    Raises:
        ConfigError: it says Slurm, in a mode whose libraries are not there.
    """
    if section.kind != "slurm" or section.slurm is None:
        return
    if section.slurm.mode != "pilot":
        return
    needs = f"backend.slurm.mode = 'pilot' needs cryptography {CRYPTOGRAPHY_LEAST} or later"
    mend = f"{extra_hint('slurm')}; mode = 'per-job' needs none"
    if find_spec("cryptography") is None:
        raise ConfigError(f"{needs}: {mend}")
    found = version("cryptography")
    if int(found.partition(".")[0]) < CRYPTOGRAPHY_LEAST:
        raise ConfigError(f"{needs}, and {found} is installed: {mend}")


def served_notes(loaded: LoadedConfig) -> list[str]:
    """Return what a config says that Slurm will not do in per-job mode."""
    config, notes = loaded.config, list[str]()
    if not config.backend.launches_wait:
        return notes
    if getattr(loaded.chosen_params, "space_sharing", False):
        notes.append(
            f"policy.params.{config.policy.name}.space_sharing: with backend.slurm.mode = "
            "'per-job' no two jobs share a GPU: of those that the policy puts together Slurm gives "
            "each GPUs of its own, or has it wait; use mode = 'pilot', or take space_sharing out"
        )
    vague = [name for name, where in config.cluster.servers() if not where.cpus_milli]
    if vague:
        more = f" and {len(vague) - 1} more" if len(vague) > 1 else ""
        notes.append(
            f"cluster.nodes: no cpus of {vague[0]}{more}: what other people's jobs hold of them "
            "is not seen, and a job may wait in Slurm for it; name them, as `shunter init --slurm` "
            "does"
        )
    return notes


def keep_mode(root: str, mode: str, held: Collection[tuple[JobId, int]]) -> None:
    """Note the mode of a cluster; refuse another one while attempts may run.

    Each mode has its attempts in folders of its own, and would take the other's for gone.

    Args:
        root: the folder of the cluster.
        mode: what it is to be served with.
        held: the attempts that hold GPUs by the log; of others nothing runs, whatever they left.

    Raises:
        ConfigError: attempts of the other mode have not ended.
        OSError: the folder cannot be used.
    """
    path = f"{root}/mode"
    # Earlier versions knew pilots only, and named no mode.
    unnamed = "pilot" if Path(root, "pilots").is_dir() else mode
    before = (get(path) or {}).get("mode", unnamed)
    if before != mode:
        left = _not_ended(root, str(before), held)
        if left:
            raise ConfigError(
                f"backend.slurm.mode = '{mode}': attempt {left} of mode '{before}' has not ended "
                f"by the log, nor by its records below {root}: serve it with that mode until it "
                f"has; or remove {path} if nothing of it runs"
            )
    put(path, {"mode": mode})


def _not_ended(root: str, mode: str, held: Collection[tuple[JobId, int]]) -> str:
    """Return an attempt of a mode that has begun, or may, and has not ended."""
    names = {f"{job}/{attempt}" for job, attempt in held}
    pattern = "jobs/*/*/order" if mode == "per-job" else "nodes/*/clusters/*/jobs/*/*/started"
    for found in sorted(Path(root).glob(pattern)):
        folder = found.parent
        name, is_over = f"{folder.parent.name}/{folder.name}", (folder / "status").exists()
        if name in names and not is_over and claimed_by(str(folder)) != WITHDRAWN:
            return name
    return ""


def slurm_settings(
    section: SlurmSection, cluster: ClusterSection, cluster_id: str, term: int
) -> SlurmSettings:
    """Return what the Slurm backend is told for a term."""
    root = os.path.abspath(section.root)  # noqa: PTH100 the path need not exist, nor be resolved
    return SlurmSettings(
        root=root,
        nodes=tuple(_server(name, where) for name, where in cluster.servers()),
        cluster_id=cluster_id,
        term=term,
        holder=secrets.token_hex(8),
        partition=section.partition,
        addresses=section.addresses or (socket.gethostname(),),
        listen=section.listen,
        account=section.account,
        qos=section.qos,
        time_limit_s=section.time_limit / 1e6,
        idle_s=section.idle_release / 1e6,
        pilots_max=section.pilots_max,
        poll_s=section.poll / 1e6,
        command_s=section.call / 1e6,
        python=section.python,
        options=section.options,
        is_suspended_in_slurm=section.stops_by == "scontrol",
        checkpoints=f"{root}/checkpoints",
        patrol_s=section.heartbeat / 1e6,
        margin_s=section.margin / 1e6,
        **shared_limits(section),
    )


def _server(name: NodeName, where: ConfigurationSet) -> SlurmServer:
    typed = "" if where.gpu_type == UNTYPED else f"{where.gpu_type}:"
    return SlurmServer(
        name=name,
        gpus=tuple(str(number) for number in range(where.gpus)),
        cpus=tuple(range(where.cpus_milli // 1000)),
        gpu_type=str(where.gpu_type),
        gres=f"gpu:{typed}{where.gpus}" if where.gpus else "",
        memory_mb=where.memory_mb,
    )


# A node that Slurm has out of service is drained here under a name that begins with `slurm: `, and
# restored once it is back; so is one whose pilot is about to end. A node that a person drained is
# left alone. Who drained it is in the log, so a restart of the daemon changes nothing of it.

BY: Final = "slurm: "
NODES_EVERY_S: Final = 0.5
_KINDS: Final = frozenset({NodeDrained.__name__, NodeRestored.__name__, NodeRemoved.__name__})
GiveCommand = Callable[[Callable[[int], Command]], Awaitable[object]]


@runtime_checkable
class SeesNodes(Protocol):
    """A backend that knows which of its nodes somebody else has out of service."""

    def out_of_service(self, now_s: float) -> Mapping[NodeName, str] | None:
        """Return the nodes that take no new jobs, each with why; None: not known yet."""

    @property
    def silence(self) -> str:
        """For how long who knows it has not answered, and why; empty: it answers."""


@runtime_checkable
class HoldsOnDemand(Protocol):
    """A backend whose servers come and go with the demand."""

    def want(self, waiting: Sequence[GpuRequest]) -> None:
        """Take in what jobs wait for."""

    @property
    def unheld(self) -> Collection[NodeName]:
        """The servers that are not held now, and on which nothing of ours runs."""

    @property
    def renewed(self) -> Collection[NodeName]:
        """The servers that take no new jobs only until they are held again."""

    @property
    def drains_changed(self) -> anyio.Event:
        """What is set when a server begins to take no new jobs, or does not any more."""


def is_by_slurm(by: str) -> bool:
    """Say whether it was Slurm that had a node drained, not a person."""
    return by.startswith(BY)


async def follow_slurm_nodes(
    feed: Feed,
    log: LogWriter,
    state: State,
    backend: SeesNodes,
    tell: GiveCommand,
    by: dict[NodeName, str],
) -> None:
    """Drain and restore nodes as Slurm does, for ever.

    Args:
        feed: of the log.
        log: to read who drained nodes before.
        state: of the cluster.
        backend: whose nodes they are.
        tell: gives the scheduler a command.
        by: where who drained which node is kept up to date.
    """
    seq = feed.committed
    by.update(await _drained_by(log, seq, state))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_note, feed, seq, by)
        while True:
            changed = (
                backend.drains_changed if isinstance(backend, HoldsOnDemand) else anyio.Event()
            )
            out = backend.out_of_service(clock.wall_s())
            if out is not None:
                await _follow_drains(state, out, by, tell)
            with anyio.move_on_after(NODES_EVERY_S):
                await changed.wait()


async def tell_silence(backend: SeesNodes, tell: Callable[[str], None]) -> None:
    """Tell once that Slurm does not answer, and once that it does again, for ever."""
    was_silent = False
    while True:
        silence = backend.silence
        if bool(silence) != was_silent:
            was_silent = bool(silence)
            tell(
                f"{silence}; jobs run on, none starts in Slurm or leaves its queue until it does"
                if silence
                else "Slurm answers again"
            )
        await anyio.sleep(NODES_EVERY_S)


async def _follow_drains(
    state: State, out: Mapping[NodeName, str], by: Mapping[NodeName, str], tell: GiveCommand
) -> None:
    for node, server in sorted(state.cluster.servers.items()):
        order: Callable[[int], Command]
        if server.health is Health.removed:
            continue
        if node in out and not server.drained:
            order = partial(DrainNode, node=node, by=f"{BY}{out[node]}")
        elif node not in out and server.drained and is_by_slurm(by.get(node, "")):
            order = partial(RestoreNode, node=node, by=f"{BY}in service again")
        else:
            continue
        try:
            await tell(order)
        except UnreachableError:  # the scheduler ends
            return


async def _note(feed: Feed, after: int, by: dict[NodeName, str]) -> None:
    """Keep up to date who drained which node."""
    async for _, event in feed.follow(after):
        if isinstance(event, NodeDrained):
            by[event.node] = event.by
        elif isinstance(event, NodeRestored | NodeRemoved):
            by.pop(event.node, None)


async def _drained_by(log: LogWriter, seq: int, state: State) -> dict[NodeName, str]:
    """Return who drained the nodes that are drained now, by the log up to an event."""
    wanted = {name for name, server in state.cluster.servers.items() if server.drained}
    by: dict[NodeName, str] = {}
    if not wanted:
        return by
    async with read_log(log) as reader:
        async for frame in reader.frames_before(seq):
            for _, event in reversed(frame.of_kinds(_KINDS)):
                if isinstance(event, NodeDrained) and event.node in wanted:
                    by.setdefault(event.node, event.by)
            if by.keys() >= wanted:
                break
    return by


DEMAND_EVERY_S = 0.5
JOBS_MOST = 2000
"""Beyond so many that wait, more of them ask for no more servers than there are."""


async def tell_demand(
    feed: Feed, state: State, backend: HoldsOnDemand, by: Mapping[NodeName, str]
) -> None:
    """Tell what jobs wait for, soon after it has changed, for ever.

    Args:
        feed: of the log.
        state: of the cluster.
        backend: who is told.
        by: who drained each node that is drained.
    """
    seq = -1
    while True:
        if feed.committed != seq:
            seq = feed.committed
            found = [node for node in backend.renewed if is_by_slurm(by.get(node, ""))]
            backend.want(waiting_requests(state, found))
        await anyio.sleep(DEMAND_EVERY_S)


def waiting_requests(state: State, renewed: Collection[NodeName] = ()) -> list[GpuRequest]:
    """Return what each job that waits needs; a job without GPUs needs a server too.

    Of servers that are drained nobody needs anything, but for those that are `renewed`.
    """
    found: list[GpuRequest] = []
    servers = state.cluster.servers
    nodes = frozenset(
        str(name) for name, server in servers.items() if not server.drained or name in renewed
    )
    if not nodes:
        return found
    choice = nodes if len(nodes) < len(servers) else frozenset[str]()
    for job in state.jobs.values():
        if job.is_eligible:
            spec = job.spec
            types = frozenset(str(each) for each in spec.gpu_types)
            found.append(GpuRequest(max(1, spec.gpus), types, choice))
            if len(found) == JOBS_MOST:
                break
    return found


# By topology.conf, a rack is the lowest switch (topology/tree) or the block (topology/block), a
# domain the switch right above it, where there are several.

ASK_S = 5.0
"""How long a start waits for that; a controller that is away lets its commands wait for longer."""


def places_in(switches: Sequence[NetworkSwitch]) -> dict[NodeName, Place]:
    """Return where nodes are, without those on two of the lowest switches."""
    leaves = [switch for switch in switches if not switch.level]
    above = [switch for switch in switches if switch.level == 1]
    domains = {rack: switch.name for switch in above for rack in switch.below}
    if len(above) < 2:  # that there is one domain tells nothing
        domains = {}
    hung = Counter(node for leaf in leaves for node in leaf.nodes)
    return {
        NodeName(node): Place(leaf.name, domains.get(leaf.name, ""))
        for leaf in leaves
        for node in leaf.nodes
        if hung[node] == 1
    }


async def ask_places(section: SlurmSection) -> dict[NodeName, Place]:
    """Ask Slurm where its nodes are; nothing where it does not say."""
    slurm = Slurm(deadline_s=min(section.call / 1e6, ASK_S))
    try:
        return places_in(await slurm.switches())
    except SlurmUnknownError:
        return {}


# A daemon that starts may have no pilot anywhere. So each pilot notes the wiring of its node in the
# folder that all share, and the next start reads it.


def read_noted_wirings(
    section: SlurmSection, servers: Iterable[tuple[NodeName, ConfigurationSet]]
) -> dict[NodeName, Wiring]:
    """Return what was noted of servers with several GPUs.

    A pilot sees all GPUs of its node. Where these are others than the config says, nobody knows
    which of them a pilot will get.
    """
    if section.mode != "pilot":
        return {}
    root = os.path.abspath(section.root)  # noqa: PTH100  as the backend has it
    found: dict[NodeName, Wiring] = {}
    for name, configuration in servers:
        if configuration.gpus < 2:
            continue
        try:
            record = get(f"{root}/nodes/{name}/{NOTED}")
            told = None if record is None else Wiring.decoded(record)
        except WrongMessageError as error:
            told = Wiring(cause=f"what a pilot has noted cannot be read: {error}")
        except OSError as error:
            told = Wiring(cause=f"what a pilot has noted cannot be read: {error.strerror}")
        if told is not None and told.gpus and len(told.gpus) != configuration.gpus:
            seen = len(told.gpus)
            told = Wiring(cause=f"a pilot saw {seen} GPUs there, and the config says otherwise")
        if told is not None:
            found[name] = told
    return found


# Slurm gives a job what it is asked for and no more. A job that names no CPUs, or no memory, asks
# for its GPUs' part of a node, as `DefCpuPerGPU` does: of the node with the smallest part, so that
# it fits on each.

WHOLE_MILLI = 1000
"""Slurm gives whole CPUs, and one at least."""


def asked_of_slurm(spec: JobSpec, config: Config) -> JobSpec:
    """Return a job with the CPUs and memory that it is to have of Slurm.

    It is the same job where the config says of no attempt that it is a job of Slurm, where the job
    names both, or where the config does not say of some node what it has.
    """
    if not config.backend.launches_wait:
        return spec
    nodes = [
        where
        for _, where in config.cluster.servers()
        if not spec.gpus
        or (where.gpus and (not spec.gpu_types or where.gpu_type in spec.gpu_types))
    ]
    cpus_milli = spec.cpus_milli or _cpus_milli(spec.gpus, nodes)
    memory_mb = spec.memory_mb or _memory_mb(spec.gpus, cpus_milli, nodes)
    if (cpus_milli, memory_mb) == (spec.cpus_milli, spec.memory_mb):
        return spec
    return replace(spec, cpus_milli=cpus_milli, memory_mb=memory_mb)


def as_first_asked(spec: JobSpec, first: JobSpec, config: Config) -> JobSpec:
    """Return a job that is submitted again with what it was given the first time.

    The nodes may have been others then, and so may its part of them.
    """
    if not config.backend.launches_wait:
        return spec
    return replace(
        spec,
        cpus_milli=spec.cpus_milli or first.cpus_milli,
        memory_mb=spec.memory_mb or first.memory_mb,
    )


def _cpus_milli(gpus: int, nodes: Collection[ConfigurationSet]) -> int:
    """Return the CPUs of some GPUs, in thousandths; 0: it is not known."""
    if not gpus:
        return WHOLE_MILLI
    each_milli = _least(where.cpus_milli // where.gpus for where in nodes)
    if each_milli >= WHOLE_MILLI:
        each_milli -= each_milli % WHOLE_MILLI
    return each_milli and max(WHOLE_MILLI, each_milli * gpus)


def _memory_mb(gpus: int, cpus_milli: int, nodes: Collection[ConfigurationSet]) -> int:
    """Return the memory that goes with GPUs, or with CPUs alone; 0: unknown."""
    if gpus:
        return gpus * _least(where.memory_mb // where.gpus for where in nodes)
    parts = [
        where.memory_mb * cpus_milli // where.cpus_milli
        for where in nodes
        if cpus_milli <= where.cpus_milli
    ]
    return _least(parts)


def _least(parts: Iterable[int]) -> int:
    return min(parts, default=0)
