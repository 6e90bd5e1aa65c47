"""`shunter doctor` of a Slurm cluster: what keeps this user from running jobs there."""

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from shunter import clock
from shunter.core.admission import is_mig
from shunter.counting import counted
from shunter.daemon.slurm import check_served
from shunter.errors import ConfigError, SlurmRefusedError, SlurmUnknownError
from shunter.ops.doctor.findings import Check, Finding, Looked

if TYPE_CHECKING:
    from shunter.backends.slurm import Partition, SlurmNode
    from shunter.config.cluster_section import ClusterSection
    from shunter.config.live import SlurmSection
    from shunter.ops.slurm.discovery import SlurmInventory


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


CHECKS: tuple[Check, ...] = (slurm,)


def _cluster(section: "SlurmSection", cluster: "ClusterSection") -> Iterator[Finding]:
    import anyio

    from shunter.backends.slurm import Slurm
    from shunter.ops.slurm.discovery import inventory

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


def _versions(found: "SlurmInventory") -> Iterator[Finding]:
    ours = found.version.split(".")[:2]
    others = sorted({node.version for node in found.nodes if node.version})
    strange = [one for one in others if one.split(".")[:2] != ours]
    if strange:
        what = f"nodes run Slurm {', '.join(strange)}, and the commands here are {found.version}"
        yield Finding("slurm", "poor", what, "jobs run all the same; let them be updated together")


def _accounting(found: "SlurmInventory") -> Iterator[Finding]:
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


def ending(found: "SlurmInventory") -> Iterator[Finding]:
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


def scheduling(found: "SlurmInventory") -> Iterator[Finding]:
    """Check that Slurm starts jobs of several parts: only backfill does."""
    kind = found.settings.get("SchedulerType", "").rpartition("/")[2]
    if kind != "backfill":
        yield Finding(
            *("slurm", "poor", f"Slurm schedules by {kind or 'a way that it does not tell'}"),
            "gangs with unequal parts wait there for ever: let SchedulerType be sched/backfill, "
            'or use mode = "pilot"',
        )


def _partition(section: "SlurmSection", partition: "Partition") -> Iterator[Finding]:
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
    found: "SlurmInventory", partition: "Partition", cluster: "ClusterSection"
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
            state = "+".join([node.state, *sorted(node.flags)]).lower()
            out.setdefault(f"{state}, {node.reason or 'no reason given'}", []).append(name)
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
    found: "SlurmInventory", cluster: "ClusterSection", options: Sequence[str], now_s: float
) -> Iterator[Finding]:
    """Tell which nodes Slurm keeps from this user, now or later.

    Args:
        found: what Slurm has.
        cluster: the nodes of the config.
        options: of sbatch; a reservation that they name is ours.
        now_s: seconds since 1970.
    """
    from shunter.backends.slurm.node_service import node_reservation, reservation_in

    names = [str(name) for name, _ in cluster.servers()]
    for each in sorted(found.reservations, key=lambda each: (each.start_s or 0, each.name)):
        nodes = [name for name in names if name in each.nodes]
        kept = node_reservation(each)
        if not nodes or kept.end_s <= now_s or each.name == reservation_in(options):
            continue
        starts = "nothing starts there before it is over"
        if kept.start_s > now_s:
            starts = "what starts there must end before it begins"
        use = f'to use it, name it: options = ["--reservation={each.name}"]'
        yield Finding("slurm", "poor", kept.in_words(", ".join(nodes)), f"{starts}; {use}")


def _racks(found: "SlurmInventory", cluster: "ClusterSection") -> Iterator[Finding]:
    """Tell which racks of the config hold other nodes than those of topology.conf."""
    from shunter.daemon.gpu_maps import rack_notes
    from shunter.daemon.slurm import places_in

    notes = rack_notes(cluster, places_in(found.switches), "Slurm")
    for note in dict.fromkeys(notes.values()):
        what, _, mend = note.rpartition(": ")
        yield Finding("slurm", "poor", what, mend)


def _differences(node: "SlurmNode", gpu_type: str, gpus: int) -> Iterator[Finding]:
    if node.gpus.get(gpu_type, 0) < gpus:
        told = ", ".join(f"{count} {name}" for name, count in node.gpus.items()) or "no GPUs"
        what = f"Slurm knows {told}, and the config says {gpus} {gpu_type}"
        yield Finding(node.name, "bad", what, f"correct gpus and type of {node.name} in [cluster]")


def _submission(section: "SlurmSection", port: object) -> Iterator[Finding]:
    """Ask whether Slurm would take a job of ours; none is submitted."""
    import anyio

    from shunter.backends.slurm import Slurm

    assert isinstance(port, Slurm)
    minutes = max(1, section.time_limit // 60_000_000)
    options = [f"--partition={section.partition}", "--gres=gpu:1", f"--time={minutes}"]
    options += [f"--account={section.account}"] if section.account else []
    options += [f"--qos={section.qos}"] if section.qos else []
    try:
        said = anyio.run(port.would_take, [*options, *section.options])
    except SlurmRefusedError as error:
        mend = "correct account, qos, time_limit or options of [backend.slurm]"
        yield Finding("slurm", "bad", str(error), mend)
    except SlurmUnknownError as error:
        yield Finding("slurm", "poor", f"a trial submission: {error.cause}", error.hint)
    else:
        yield Finding("slurm", "good", f"a trial submission would be taken: {said}")


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
