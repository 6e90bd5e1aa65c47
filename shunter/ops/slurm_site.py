"""A partition of Slurm before a daemon runs: what it has, what `doctor` checks, `init`'s config."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

from shunter import clock
from shunter.backends.slurm import (
    NetworkSwitch,
    Partition,
    Reservation,
    Slurm,
    SlurmNode,
    queue_options,
    reservation_in,
)
from shunter.config import GPUS_MAX, ClusterSection, SlurmSection
from shunter.core import is_mig
from shunter.counting import counted
from shunter.daemon import Place, check_served, places_in, rack_notes
from shunter.errors import (
    ConfigError,
    SlurmRefusedError,
    SlurmUnknownError,
    UnreachableError,
    UsageError,
)
from shunter.events import NodeName
from shunter.ops.first_config import LOG, POLICY
from shunter.ops.machine_checks import Finding, Looked

# What a config cannot hold is left out and named: servers without GPUs or with two GPU types.


@dataclass(frozen=True, slots=True)
class SlurmInventory:
    """What a cluster tells of itself."""

    version: str
    settings: Mapping[str, str]
    partitions: tuple[Partition, ...]
    nodes: tuple[SlurmNode, ...]
    switches: tuple[NetworkSwitch, ...]
    reservations: tuple[Reservation, ...]

    def partition(self, name: str) -> Partition:
        """Return a partition.

        Raises:
            UsageError: there is none of that name.
        """
        for one in self.partitions:
            if one.name == name:
                return one
        names = ", ".join(one.name for one in self.partitions) or "none"
        raise UsageError(f"Slurm has no partition {name!r}: expected one of {names}")

    def nodes_of(self, partition: Partition) -> tuple[SlurmNode, ...]:
        """Return the nodes of a partition, in its order."""
        known = {node.name: node for node in self.nodes}
        return tuple(known[name] for name in partition.nodes if name in known)


@dataclass(frozen=True, slots=True)
class ServerKind:
    """What equal servers have in common."""

    gpu_type: str
    gpus: int
    cpus: int
    memory_gb: int
    sockets: int
    rack: str
    domain: str


@dataclass(frozen=True, slots=True)
class Discovered:
    """The servers of a partition by kind, and what is to be said of them."""

    kinds: Mapping[ServerKind, Sequence[str]]
    features: Mapping[ServerKind, Sequence[str]]
    notes: Sequence[str]


async def inventory(slurm: Slurm) -> SlurmInventory:
    """Ask a cluster what it has.

    Raises:
        SlurmUnknownError: it does not answer.
    """
    return SlurmInventory(
        version=await slurm.version(),
        settings=await slurm.settings(),
        partitions=await slurm.partitions(),
        nodes=await slurm.nodes(),
        switches=await slurm.switches(),
        reservations=await slurm.reservations(),
    )


def discovered(found: SlurmInventory, partition: Partition) -> Discovered:
    """Return the servers of a partition.

    Raises:
        UsageError: not one of them can stand in a config.
    """
    places = places_in(found.switches)
    kinds: dict[ServerKind, list[str]] = {}
    features: dict[ServerKind, tuple[str, ...]] = {}
    left_out: dict[str, list[str]] = {}
    for node in found.nodes_of(partition):
        if why := _unfit(node):
            left_out.setdefault(why, []).append(node.name)
            continue
        kind = _kind(node, places.get(NodeName(node.name), Place()))
        kinds.setdefault(kind, []).append(node.name)
        features.setdefault(kind, node.features)
        if features[kind] != node.features:
            features[kind] = tuple(one for one in features[kind] if one in node.features)
    notes = [f"left out: {', '.join(names)}: {why}" for why, names in left_out.items()]
    if not kinds:
        raise UsageError(
            f"partition {partition.name!r} has no server that a config could hold"
            + "".join(f"; {note}" for note in notes)
        )
    placed = [name for names in kinds.values() for name in names]
    notes += [
        f"{node.name} takes no jobs now ({_trouble(node)}); it is in the config all the same"
        for node in found.nodes_of(partition)
        if node.name in placed and not node.is_in_service
    ]
    notes += [
        f"{', '.join(names)}: {kind.gpu_type} are MIG instances, on which jobs of one GPU run alone"
        for kind, names in kinds.items()
        if is_mig(kind.gpu_type)
    ]
    return Discovered(kinds, features, notes)


def _unfit(node: SlurmNode) -> str:
    """Return why a node cannot stand in a config; nothing if it can."""
    if not node.gpus:
        return "without GPUs that Slurm knows (GRES)"
    if len(node.gpus) > 1:
        return f"GPUs of several types ({', '.join(sorted(node.gpus))}), and [cluster] holds one"
    if sum(node.gpus.values()) > GPUS_MAX:
        return f"more than {GPUS_MAX} GPUs"
    return ""


def _trouble(node: SlurmNode) -> str:
    return f"{node.states_in_words}: {node.reason}" if node.reason else node.states_in_words


def _kind(node: SlurmNode, place: Place) -> ServerKind:
    ((gpu_type, gpus),) = node.gpus.items()
    is_divided = node.sockets > 1 and gpus % node.sockets == 0
    return ServerKind(
        gpu_type=gpu_type,
        gpus=gpus,
        cpus=node.cpus,
        memory_gb=node.memory_mb // 1000,
        sockets=node.sockets if is_divided else 1,
        rack=place.rack,
        domain=place.domain,
    )


# `shunter doctor`.

COMMANDS = ("sbatch", "scancel", "scontrol", "sinfo", "squeue")
SLOW_S = 2.0
CALL_MOST_S = 20.0
NETWORKED = frozenset(
    {"afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.glusterfs", "fuse.sshfs", "gpfs"}
    | {"lustre", "nfs", "nfs4", "orangefs", "panfs", "virtiofs", "wekafs", "9p"}
)


def slurm(looked: Looked) -> Iterator[Finding]:
    """Check the cluster of a config, by its commands."""
    if looked.loaded is None or looked.loaded.config.backend.kind != "slurm":
        return
    section = looked.loaded.config.backend.slurm
    assert section is not None, "the config was checked"
    try:
        check_served(looked.loaded.config.backend)
    except ConfigError as error:
        what, _, mend = str(error).partition(": ")
        yield Finding("slurm", "bad", what, mend)
    missing = [name for name in COMMANDS if shutil.which(name) is None]
    if missing:
        yield Finding(
            *("slurm", "bad", f"{', '.join(missing)} not found in PATH"),
            "install Slurm's client commands here, of the cluster's version",
        )
        return
    yield from _cluster(section, looked.loaded.config.cluster)
    yield from _root(Path(section.root).absolute())


def _cluster(section: SlurmSection, cluster: ClusterSection) -> Iterator[Finding]:
    # Nobody waits for a minute to learn that nothing answers.
    port = Slurm(deadline_s=min(section.call / 1e6, CALL_MOST_S))
    try:
        began_s = clock.monotonic_s()
        anyio.run(port.ping)
        took_s = clock.monotonic_s() - began_s
        found = anyio.run(inventory, port)
    except SlurmUnknownError as error:
        yield Finding("slurm", "bad", error.cause, error.hint)
        return
    name = found.settings["ClusterName"]
    yield Finding(
        *("slurm", "good"), f"cluster {name}, Slurm {found.version}, answered in {took_s:.2f} s"
    )
    if took_s > SLOW_S:
        mend = "a slow controller delays all decisions: ask its administrator, or raise poll"
        yield Finding("slurm", "poor", f"slurmctld took {took_s:.1f} s to answer", mend)
    yield from _versions(found)
    yield from _accounting(found)
    yield from ending(found)
    if section.mode == "per-job":
        yield from scheduling(found)
    partition = next((one for one in found.partitions if one.name == section.partition), None)
    if partition is None:
        names = ", ".join(one.name for one in found.partitions) or "none"
        yield Finding(
            *("slurm", "bad", f"there is no partition {section.partition}"),
            f"set backend.slurm.partition to one of {names}",
        )
        return
    yield from _partition(section, partition)
    yield from _servers(found, partition, cluster)
    yield from reserved(found, cluster, section.options, clock.wall_s())
    yield from _submission(section, port)


def _versions(found: SlurmInventory) -> Iterator[Finding]:
    ours = found.version.split(".")[:2]
    others = sorted({node.version for node in found.nodes if node.version})
    strange = [one for one in others if one.split(".")[:2] != ours]
    if strange:
        what = f"nodes run Slurm {', '.join(strange)}, and the commands here are {found.version}"
        yield Finding("slurm", "poor", what, "jobs run all the same; let them be updated together")


def _accounting(found: SlurmInventory) -> Iterator[Finding]:
    kind = found.settings.get("AccountingStorageType", "").rpartition("/")[2]
    if kind in {"", "none", "(null)"}:
        yield Finding(
            *("slurm", "good", "the site keeps no accounting (sacct)"),
            "how jobs ended is learnt from the queue and their folders; trace import needs sacct",
        )
    else:
        yield Finding("slurm", "good", f"accounting is kept by {kind}")
    hidden = found.settings.get("PrivateData", "")
    if "jobs" in hidden:
        yield Finding(
            *("slurm", "poor", "the jobs of others are hidden (PrivateData)"),
            "their GPUs are seen as taken all the same; by whom is not",
        )


def ending(found: SlurmInventory) -> Iterator[Finding]:
    """Tell where Slurm's SIGTERM ends programs before they are asked to save."""
    kind = found.settings.get("ProctrackType", "").rpartition("/")[2]
    is_sent_to_all = found.settings.get("SignalChildrenProcesses", "").lower() == "yes"
    if kind == "linuxproc" or (kind == "cgroup" and is_sent_to_all):
        cause = "SignalChildrenProcesses" if is_sent_to_all else f"ProctrackType is {kind}"
        yield Finding(
            *("slurm", "poor", f"scancel sends SIGTERM to programs of jobs, too ({cause})"),
            "those without a handler die before they save: end what they run in by "
            "scancel --signal=USR1 --batch (per-job: USR2), or handle SIGTERM",
        )


def scheduling(found: SlurmInventory) -> Iterator[Finding]:
    """Check that Slurm starts jobs of several parts: only backfill does."""
    kind = found.settings.get("SchedulerType", "").rpartition("/")[2]
    if kind != "backfill":
        yield Finding(
            *("slurm", "poor", f"Slurm schedules by {kind or 'a way that it does not tell'}"),
            "gangs with unequal parts wait there for ever: let SchedulerType be sched/backfill, "
            'or use mode = "pilot"',
        )


def _partition(section: SlurmSection, partition: Partition) -> Iterator[Finding]:
    name = f"partition {partition.name}"
    if partition.state != "UP":
        mend = "jobs wait until its administrator opens it"
        yield Finding("slurm", "bad", f"{name} is {partition.state}", mend)
    if partition.time_limit_s is None:
        yield Finding("slurm", "good", f"{name} has no time limit")
    elif section.time_limit > partition.time_limit_s * 1_000_000:
        minutes = partition.time_limit_s // 60
        yield Finding(
            *("slurm", "bad", f"{name} allows {minutes} minutes, and time_limit asks for more"),
            f'set backend.slurm.time_limit = "{minutes}m" or less',
        )
    else:
        yield Finding("slurm", "good", f"{name} allows {partition.time_limit_s // 60} minutes")
    if os.geteuid() == 0:
        mend = "run the daemon as the user whom jobs are to run as"
        if partition.root_refused:
            yield Finding("slurm", "bad", f"{name} takes no jobs of root", mend)
        else:
            yield Finding("slurm", "poor", "all jobs would be those of root", mend)


def _servers(
    found: SlurmInventory, partition: Partition, cluster: ClusterSection
) -> Iterator[Finding]:
    known = {node.name: node for node in found.nodes_of(partition)}
    out: dict[str, list[str]] = {}
    seen = 0
    for name, described in cluster.servers():
        node = known.get(name)
        if node is None:
            mend = "take it out of [cluster], or name the partition it is in"
            yield Finding(name, "bad", f"partition {partition.name} has no node {name}", mend)
            continue
        seen += sum(node.gpus.values())
        yield from _differences(node, described.gpu_type, described.gpus)
        if described.cpus_milli > node.cpus * 1000 or described.memory_mb > node.memory_mb:
            given = f"{counted(node.cpus, 'CPU')} and {node.memory_mb} MB"
            what = f"Slurm gives out {given}, the config says more"
            yield Finding(name, "bad", what, f"correct cpus and memory_gb of {name} in [cluster]")
        if not node.is_in_service:
            why = f"{node.states_in_words}, {node.reason or 'no reason given'}"
            out.setdefault(why, []).append(name)
    for why, names in out.items():
        mend = "its administrator resumes it: scontrol update NodeName=… State=RESUME"
        yield Finding("slurm", "poor", f"no job starts on {', '.join(names)}: {why}", mend)
    mig = [name for name, where in cluster.servers() if where.gpus and is_mig(where.gpu_type)]
    if mig:
        what = f"the GPUs of {', '.join(mig)} are MIG instances, of which a program can use one"
        yield Finding("slurm", "poor", what, "jobs of several GPUs go to other servers, or nowhere")
    yield from _racks(found, cluster)
    gpus, nodes = counted(seen, "GPU"), counted(len(known), "node")
    yield Finding("slurm", "good", f"{gpus} in {nodes}, by GRES")


def reserved(
    found: SlurmInventory, cluster: ClusterSection, options: Sequence[str], now_s: float
) -> Iterator[Finding]:
    """Tell which nodes Slurm keeps from this user, now or later.

    Args:
        found: what Slurm has.
        cluster: the nodes of the config.
        options: of sbatch; a reservation that they name is ours.
        now_s: seconds since 1970.
    """

    names = [str(name) for name, _ in cluster.servers()]
    for each in sorted(found.reservations, key=lambda each: (each.start_s, each.name)):
        nodes = [name for name in names if name in each.nodes]
        if not nodes or each.end_s <= now_s or each.name == reservation_in(options):
            continue
        starts = "nothing starts there before it is over"
        if each.start_s > now_s:
            starts = "what starts there must end before it begins"
        use = f'to use it, name it: options = ["--reservation={each.name}"]'
        yield Finding("slurm", "poor", each.in_words(", ".join(nodes)), f"{starts}; {use}")


def _racks(found: SlurmInventory, cluster: ClusterSection) -> Iterator[Finding]:
    """Tell which racks of the config hold other nodes than those of topology.conf."""
    notes = rack_notes(cluster, places_in(found.switches), "Slurm")
    for note in dict.fromkeys(notes.values()):
        what, _, mend = note.rpartition(": ")
        yield Finding("slurm", "poor", what, mend)


def _differences(node: SlurmNode, gpu_type: str, gpus: int) -> Iterator[Finding]:
    if node.gpus.get(gpu_type, 0) < gpus:
        told = ", ".join(f"{count} {name}" for name, count in node.gpus.items()) or "no GPUs"
        what = f"Slurm knows {told}, and the config says {gpus} {gpu_type}"
        yield Finding(node.name, "bad", what, f"correct gpus and type of {node.name} in [cluster]")


def _submission(section: SlurmSection, port: Slurm) -> Iterator[Finding]:
    """Ask whether Slurm would take a job of ours; none is submitted."""
    limit_s = section.time_limit / 1e6
    options = queue_options(section.partition, section.account, section.qos, limit_s)
    try:
        said = anyio.run(port.would_take, ["--gres=gpu:1", *options, *section.options])
    except SlurmRefusedError as error:
        mend = "correct account, qos, time_limit or options of [backend.slurm]"
        yield Finding("slurm", "bad", str(error), mend)
    except SlurmUnknownError as error:
        yield Finding("slurm", "poor", f"a test submission: {error.cause}", error.hint)
    else:
        yield Finding("slurm", "good", f"a test submission would be taken: {said}")


def _root(root: Path) -> Iterator[Finding]:
    """Check what can be told from here of the folder that all nodes are to share."""
    there = next(one for one in (root, *root.parents) if one.exists())
    if not os.access(there, os.W_OK):
        mend = "let this user write there, or set backend.slurm.root to another folder"
        yield Finding("root", "bad", f"{there} cannot be written", mend)
        return
    kind = _file_system(there)
    if kind in NETWORKED:
        what = f"{root} lies on a network file system ({kind})"
        mend = "whether each node mounts it under the same path cannot be seen from here"
        yield Finding("root", "good", what, mend)
    else:
        what = f"{root} lies on a local file system ({kind}): do the nodes see it?"
        yield Finding("root", "poor", what, "try it: srun -N 2 ls -d FOLDER, or name a shared one")


def _file_system(path: Path) -> str:
    """Return the type of the file system that a folder lies on."""
    resolved, best, kind = path.resolve(), -1, "unknown"
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
        where, name = line.split()[1:3]
        place = Path(where.encode().decode("unicode_escape"))
        if resolved.is_relative_to(place) and len(place.parts) >= best:
            best, kind = len(place.parts), name
    return kind


# `shunter init --slurm`.

DAY_S = 86_400
HEAD = """\
# Partition {partition} of cluster {cluster} (Slurm {version}), as it was found.
# `shunter doctor FILE` looks at it again, docs/reference/config.md lists every key.

"""
TAIL = f"""
{POLICY}
[backend]
kind = "slurm"
[backend.slurm]
partition = {{partition}}
mode = "pilot"                    # hold nodes, and run jobs inside; "per-job": one sbatch each
root = {{root}}  # all nodes and this machine share it, under the same path
time_limit = "{{time_limit}}"               # how long Slurm is asked for a node; {{longest}}
idle_release = "10m"              # a node that runs nothing is given back after that
# pilots_max = 8                  # no more nodes than that at once
{{account}}
# qos = "normal"                  # the quality of service
# options = ["--constraint=nvlink"]  # further options of sbatch
keep = "90d"                      # output of jobs that ended longer ago goes; checkpoints stay

{LOG}"""


def slurm_config(
    slurm: Slurm, partition: str, *, root: str, account: str = ""
) -> tuple[str, list[str]]:
    """Return a config for a partition, and what is to be said about it.

    Args:
        slurm: the cluster to ask.
        partition: its name.
        root: a folder that all nodes and this machine share.
        account: whom the jobs are charged to; the user's usual one if empty.
    Raises:
        UnreachableError: Slurm does not answer.
        UsageError: there is no such partition, or nothing in it that a config could hold.
    """
    try:
        found = anyio.run(inventory, slurm)
    except SlurmUnknownError as error:
        raise UnreachableError(f"init --slurm: {error}") from error
    chosen = found.partition(partition)
    servers = discovered(found, chosen)
    cluster = found.settings["ClusterName"]
    head = HEAD.format(partition=partition, cluster=cluster, version=found.version)
    groups = [_group(kind, names, servers.features[kind]) for kind, names in servers.kinds.items()]
    return head + "\n".join(groups) + _tail(chosen, root, account), _notes(chosen, servers)


def _notes(partition: Partition, servers: Discovered) -> list[str]:
    notes = list(servers.notes)
    if partition.state != "UP":
        notes.append(f"partition {partition.name} is {partition.state}: nothing starts there now")
    if any(kind.sockets > 1 for kind in servers.kinds):
        notes.append(
            "GPUs are taken to be divided evenly among the sockets, in order; Slurm does not tell"
        )
    return notes


def _group(kind: ServerKind, names: Sequence[str], features: Sequence[str]) -> str:
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

    folded = str(NodeSet.fromlist(names, resolver=RESOLVER_NOGROUP))
    lines = [
        "[[cluster.nodes]]",
        f"name = {json.dumps(folded)}" + (f"  # {','.join(features)}" if features else ""),
        f"gpus = {kind.gpus}",
        f"type = {json.dumps(kind.gpu_type)}",
        f"cpus = {kind.cpus}",
        f"memory_gb = {kind.memory_gb}",
    ]
    if kind.rack:
        lines.append(f"rack = {json.dumps(kind.rack)}")
    if kind.domain:
        lines.append(f"domain = {json.dumps(kind.domain)}")
    if kind.sockets > 1:
        lines.append(f"sockets = {kind.sockets}")
    return "\n".join(lines) + "\n"


def _tail(partition: Partition, root: str, account: str) -> str:
    longest_s = partition.time_limit_s
    longest = "the partition has no limit" if longest_s is None else f"at most {_span(longest_s)}"
    return TAIL.format(
        partition=json.dumps(partition.name),
        root=json.dumps(root),
        time_limit=_span(DAY_S if longest_s is None else min(longest_s, DAY_S)),
        longest=longest,
        account=(
            f"account = {json.dumps(account)}"
            if account
            else '# account = "lab"                 # whom the jobs are charged to'
        ),
    )


def _span(seconds: int) -> str:
    """Return a duration as configs write it, such as 1d or 90m."""
    for unit, size in (("d", DAY_S), ("h", 3_600), ("m", 60)):
        if seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
