"""`shunter doctor` of servers reached over SSH: what each lacks, and how to mend it."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

from shunter.backends.live.gpus import EXPLANATIONS, GpuFault, use_told
from shunter.counting import counted
from shunter.daemon.gpu_maps import found_map_of, server_map
from shunter.errors import extra_hint
from shunter.ops.doctor.findings import Check, Finding, Looked
from shunter.ops.doctor.machine import shares
from shunter.ops.first_config import OPEN_BASE

if TYPE_CHECKING:
    from shunter.backends.live.gpus import GpuUse
    from shunter.backends.live.ssh import HostInventory
    from shunter.config.cluster_section import ClusterSection, NodeGroup
    from shunter.config.live import SshSection
    from shunter.events.values import ConfigurationSet


SKEW_S = 5.0
SLOW_S = 5.0
FREE_LEAST_MB = 1_000
PYTHON = [3, 8]


def hosts(looked: Looked) -> Iterator[Finding]:
    """Check every host of a config, all at once."""
    if looked.loaded is None or looked.loaded.config.backend.kind != "ssh":
        return
    section = looked.loaded.config.backend.ssh
    assert section is not None, "the config was checked"
    if find_spec("asyncssh") is None:
        yield Finding("ssh", "bad", "asyncssh is missing", extra_hint("ssh"))
        return
    is_sized = looked.loaded.config.policy.sizing is not None
    yield from _hosts(section, looked.loaded.config.cluster, is_sized=is_sized)


CHECKS: tuple[Check, ...] = (hosts,)


def _hosts(
    section: "SshSection", cluster: "ClusterSection", *, is_sized: bool
) -> Iterator[Finding]:
    from shunter.backends.live.ssh import host_inventories
    from shunter.daemon.host_settings import access_of, hosts_of

    described, groups = dict(cluster.servers()), cluster.groups()
    inventories = host_inventories(
        hosts_of(section, cluster), access_of(section), section.connect / 1e6
    )
    for one in inventories:
        name = one.host.name
        findings = [
            *findings_of(one, described[name]),
            *map_findings(one, groups[name], described[name]),
        ]
        if all(finding.state == "good" for finding in findings):
            yield Finding(one.host.name, "good", summary(one))
        yield from (finding for finding in findings if finding.state != "good")
        if one.found is not None and is_sized:
            yield shares(one.host.name, one.found["shares"])
        elif one.found is not None:
            yield from _memory(one)
    if not section.checkpoints and len(inventories) > 1:
        yield from _common_folder(inventories)


def findings_of(one: "HostInventory", described: "ConfigurationSet") -> Iterator[Finding]:
    """Return what is poor or bad about a host, against what the config says of it."""
    name, found = one.host.name, one.found
    section = f"[backend.ssh.hosts.{name}]"
    if found is None:
        yield Finding(name, "bad", *halves(one.cause))
        return
    if found["python"][:2] < PYTHON:
        version = ".".join(map(str, found["python"]))
        yield Finding(name, "bad", f"Python {version}", "name a Python 3.8 or later: python = PATH")
    yield from _gpus(one, described)
    if found["memory_mb"] < described.memory_mb:
        what = f"{found['memory_mb']} MB of memory, and the config says {described.memory_mb}"
        yield Finding(name, "bad", what, f"correct memory_gb of {name} in [cluster]")
    if len(found["cpus"]) * 1000 < described.cpus_milli:
        cpus = counted(len(found["cpus"]), "CPU")
        what = f"{cpus}, and the config says {described.cpus_milli // 1000}"
        yield Finding(name, "bad", what, f"correct cpus of {name} in [cluster]")
    if abs(one.ahead_s) > SKEW_S:
        way = "ahead of" if one.ahead_s > 0 else "behind"
        what = f"its clock is {abs(one.ahead_s):.0f} s {way} ours"
        yield Finding(
            name, "poor", what, "jobs run all the same, their output is dated wrong: run NTP there"
        )
    if found["ends_sessions"]:
        yield Finding(
            *(name, "bad", "systemd ends what a session leaves behind, so jobs too"),
            f"KillUserProcesses=no in logind.conf, or: loginctl enable-linger {found['user']}",
        )
    if found["uid"] == 0 and not found["is_open"]:
        what = f"jobs run as their users, who cannot pass through {one.host.base}"
        mend = f'set base = "{OPEN_BASE}" in {section}: a folder that all may enter'
        yield Finding(name, "bad", what, mend)
    if found["is_networked"]:
        what = f"{one.host.base} lies on a network file system, where locks and syncs are slow"
        yield Finding(name, "poor", what, f"set base in {section} to a folder of a local disk")
    if found["free_mb"] < FREE_LEAST_MB:
        what = f"{found['free_mb']} MB are free for {one.host.base}"
        mend = f"make room, or set base in {section} to a folder of a larger disk"
        yield Finding(name, "poor", what, mend)
    if one.slow_s > SLOW_S:
        what = f"it took {one.slow_s:.1f} s to answer"
        yield Finding(name, "poor", what, "look at what its shell does at login (~/.bashrc)")


def map_findings(
    one: "HostInventory", group: "NodeGroup", described: "ConfigurationSet"
) -> Iterator[Finding]:
    """Return where the map of a host's GPUs is not as the config says, or not known."""
    if one.found is None or not one.found["gpus"] or group.gpus < 2:
        return
    found = found_map_of(one.found, one.host.gpus[: group.gpus])
    for note in server_map(group, described, found).notes:
        what, _, mend = note.rpartition(": ")
        yield Finding(one.host.name, "poor", what, mend)


def summary(one: "HostInventory") -> str:
    """Return in one line what a host has."""
    found = one.found
    assert found is not None, "a host that did not answer has a cause instead"
    seen = f"{counted(len(found['gpus']), 'GPU')} by {found['gpus_by']}"
    gpus = seen if found["gpus"] else f"no GPU seen ({found['gpu_fault']})"
    version = ".".join(map(str, found["python"]))
    limit = ", limited" if found["memory_group"] else ""
    return (
        f"{gpus}, {counted(len(found['cpus']), 'CPU')}, {found['memory_mb'] // 1000} GB{limit}, "
        f"Python {version}, answered in {one.slow_s:.1f} s, clock {one.ahead_s:+.1f} s"
    )


def halves(cause: str) -> tuple[str, str]:
    """Return what is wrong, and how to mend it, of a sentence that says both."""
    what, _, mend = cause.rpartition(": ")  # what a host said may have such marks in it
    return (what, mend) if what else (cause, "")


def _gpus(one: "HostInventory", described: "ConfigurationSet") -> Iterator[Finding]:
    found, name = one.found, one.host.name
    assert found is not None, "only hosts that answered are looked at"
    if described.unit_cpus_milli:
        return  # its GPUs, if it has any, are not given out
    yield from _lame(name, [use_told(each) for each in [*found["gpus"], *found["gpus_lost"]]])
    if not found["gpus"]:
        if described.gpus:
            what = f"no GPU is seen ({found['gpu_fault']}), and the config says {described.gpus}"
            yield Finding(name, "poor", what, "install the driver; they are given out unseen")
        return
    known = {each["uuid"] for each in found["gpus"]}
    known |= {str(each["index"]) for each in found["gpus"]}
    strange = [gpu for gpu in one.host.gpus[: described.gpus] if gpu not in known]
    if strange:
        what = f"it has no GPU {strange[0]}, but {len(found['gpus'])}: {', '.join(sorted(known))}"
        yield Finding(name, "bad", what, f"correct [backend.ssh.hosts.{name}] gpus")


def _memory(one: "HostInventory") -> Iterator[Finding]:
    """Say where jobs may use more memory than they asked for."""
    found, name = one.found, one.host.name
    assert found is not None, "only hosts that answered are looked at"
    if found["memory_unlimited"]:
        what = "jobs are not held to their memory"
        yield Finding(name, "poor", what, found["memory_unlimited"])


def _lame(name: str, gpus: "list[GpuUse]") -> Iterator[Finding]:
    """Name the GPUs that are lost, and the readings that others do not give."""
    lost = [str(gpu.index) for gpu in gpus if gpu.is_lost]
    if lost:
        what, mend = f"GPU {', '.join(lost)} is lost", EXPLANATIONS[GpuFault.lost]
        yield Finding(name, "bad", what, mend)
    missing: dict[tuple[str, GpuFault], list[str]] = {}
    for gpu in gpus:
        for what, fault in (gpu.faults or {}).items() if not gpu.is_lost else ():
            missing.setdefault((what, fault), []).append(str(gpu.index))
    for (what, fault), indices in sorted(missing.items()):
        told = f"GPU {', '.join(indices)} does not tell: {what}"
        yield Finding(name, "poor", told, EXPLANATIONS[fault])


def _common_folder(inventories: "list[HostInventory]") -> Iterator[Finding]:
    """Name the folders that all hosts mount from one place."""
    mounts = [
        {tuple(mount) for mount in one.found["shared"]}
        for one in inventories
        if one.found is not None
    ]
    common = sorted(set.intersection(*mounts)) if mounts else []
    if common:
        yield Finding(
            *("ssh", "good", f"all hosts share {common[0][0]} (from {common[0][1]})"),
            "checkpoints = a folder of it spares copying them when jobs move",
        )
