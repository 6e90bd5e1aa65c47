"""Servers reached over SSH before a daemon runs: what `doctor` checks, and `init`'s config."""

import re
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Any

from shunter.backends.live import (
    EXPLANATIONS,
    GpuFault,
    GpuUse,
    HostInventory,
    SshAccess,
    SshHost,
    host_inventories,
    use_told,
)
from shunter.config import ClusterSection, GpuGroups, NodeGroup, SshSection
from shunter.counting import counted
from shunter.daemon import found_map_of, server_map
from shunter.errors import UnreachableError, UsageError, extra_hint
from shunter.events import ConfigurationSet, NodeName
from shunter.ops.first_config import LOG, OPEN_BASE, POLICY
from shunter.ops.machine_checks import Finding, Looked, shares

# `shunter doctor`.

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


def _hosts(section: SshSection, cluster: ClusterSection, *, is_sized: bool) -> Iterator[Finding]:
    from shunter.daemon import access_of, hosts_of

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


def findings_of(one: HostInventory, described: ConfigurationSet) -> Iterator[Finding]:
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
    one: HostInventory, group: NodeGroup, described: ConfigurationSet
) -> Iterator[Finding]:
    """Return where the map of a host's GPUs is not as the config says, or not known."""
    if one.found is None or not one.found["gpus"] or group.gpus < 2:
        return
    found = found_map_of(one.found, one.host.gpus[: group.gpus])
    for note in server_map(group, described, found).notes:
        what, _, mend = note.rpartition(": ")
        yield Finding(one.host.name, "poor", what, mend)


def summary(one: HostInventory) -> str:
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


def _gpus(one: HostInventory, described: ConfigurationSet) -> Iterator[Finding]:
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


def _memory(one: HostInventory) -> Iterator[Finding]:
    """Say where jobs may use more memory than they asked for."""
    found, name = one.found, one.host.name
    assert found is not None, "only hosts that answered are looked at"
    if found["memory_unlimited"]:
        what = "jobs are not held to their memory"
        yield Finding(name, "poor", what, found["memory_unlimited"])


def _lame(name: str, gpus: list[GpuUse]) -> Iterator[Finding]:
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


def _common_folder(inventories: list[HostInventory]) -> Iterator[Finding]:
    """Name the folders that all hosts mount from one place."""
    if common := _common_mounts(inventories):
        yield Finding(
            *("ssh", "good", f"all hosts share {common[0][0]} (from {common[0][1]})"),
            "checkpoints = a folder of it spares copying them when jobs move",
        )


def _common_mounts(inventories: list[HostInventory]) -> list[tuple[str, ...]]:
    """Return the folders that all hosts which answered mount from one place."""
    mounts = [
        {tuple(mount) for mount in one.found["shared"]}
        for one in inventories
        if one.found is not None
    ]
    return sorted(set.intersection(*mounts)) if mounts else []


# `shunter init --ssh`.

CONNECT_S = 15.0
_TARGET = re.compile(r"(?:(?P<user>[^@\s]+)@)?(?P<address>[A-Za-z0-9._-]+)(?::(?P<port>\d{1,5}))?")
_MODEL = re.compile(
    r"\b(GB?\d{3}|[ABHLPTV]\d{1,3}S?|K\d{2}|RTX ?\w+ ?\d{4}|\d{4}(?: ?Ti)?)\b", re.IGNORECASE
)

HEAD = """\
# A live cluster of servers reached over SSH, as they were found. `shunter doctor FILE` looks at
# them again, docs/reference/config.md lists every key.

"""
TAIL = f"""
{POLICY}
[backend]
kind = "ssh"
[backend.ssh]
root = "shunter-daemon"           # beside this file: what jobs are given in secret
known_hosts = {{known_hosts}}
{{login}}
{{checkpoints}}
keep = "90d"                      # output of jobs that ended longer ago goes; checkpoints stay
# heartbeat_deadline = "15m"      # a server that is silent for so long has ended its jobs itself
{{hosts}}
{LOG}"""


def parsed_host(text: str, python: str) -> SshHost:
    """Return a host from [USER@]ADDRESS[:PORT].

    Raises:
        UsageError: it is none.
    """
    found = _TARGET.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"--ssh {text!r}: expected [USER@]HOST[:PORT], several with commas")
    address = found["address"]
    return SshHost(
        name=NodeName(text.strip()),
        address=address,
        gpus=(),
        port=int(found["port"] or 22),
        user=found["user"] or "",
        python=python,
    )


def ssh_config(
    hosts: Sequence[SshHost], access: SshAccess, gpus: int | None = None
) -> tuple[str, list[str]]:
    """Return a config for hosts, and what is to be said about them.

    Args:
        hosts: whom to ask.
        access: how to log in.
        gpus: how many a host has where none is seen; None: none then.
    Raises:
        UnreachableError: not one of them answers.
    """
    names = _names(hosts)
    inventories = host_inventories(tuple(hosts), access, CONNECT_S)
    silent = [one for one in inventories if one.found is None]
    if len(silent) == len(inventories):
        raise UnreachableError("; ".join(one.cause for one in silent))
    notes = [f"left out: {one.cause}" for one in silent]
    there = [(names[one.host.name], one) for one in inventories if one.found is not None]
    for name, one in there:
        notes += [f"{name}: {note}" for note in _notes(one, gpus)]
    text = HEAD + "\n".join(_node(name, one, gpus or 0) for name, one in there)
    return text + _tail(there, access), notes


def _names(hosts: Sequence[SshHost]) -> dict[str, str]:
    """Return a name for each host: the first part of its own, or its address."""
    names: dict[str, str] = {}
    for host in hosts:
        first = host.address.partition(".")[0]
        name = plain = host.address if first.isdigit() else first
        number = 1
        while name in names.values():
            number += 1
            name = f"{plain}-{number}"
        names[host.name] = name
    return names


def _notes(one: HostInventory, gpus: int | None) -> list[str]:
    found, notes = one.found or {}, []
    seen = len(found["gpus"])
    if not seen:
        mend = "--gpus says how many there are" if gpus is None else f"{gpus} as --gpus says"
        notes.append(f"no GPU is seen ({found['gpu_fault']}); {mend}")
    elif gpus is not None and gpus != seen:
        is_ = "is" if seen == 1 else "are"
        notes.append(f"{counted(seen, 'GPU')} {is_} seen, and written, not the {gpus} of --gpus")
    if _is_closed(one):
        notes.append(f"its users cannot pass through {one.host.base}: base = {OPEN_BASE!r} instead")
    if abs(one.ahead_s) > SKEW_S:
        notes.append(f"its clock is {one.ahead_s:+.0f} s against ours; jobs run all the same")
    if found["ends_sessions"]:
        notes.append("systemd ends what sessions leave behind: KillUserProcesses=no is needed")
    return notes


def _is_closed(one: HostInventory) -> bool:
    """Say whether root starts jobs there as users who cannot get to the usual folder."""
    found = one.found or {}
    return found["uid"] == 0 and not found["is_open"]


def _node(name: str, one: HostInventory, unseen: int) -> str:
    found: dict[str, Any] = one.found or {}
    gpus = found["gpus"]
    lines = [
        "[[cluster.nodes]]",
        f'name = "{name}"',
        f"gpus = {len(gpus) or unseen}",
        f'type = "{_type(gpus)}"' + (f"  # {gpus[0]['name']}" if gpus else ""),
        f"cpus = {len(found['cpus'])}",
        f"memory_gb = {found['memory_mb'] // 1000}",
    ]
    return "\n".join([*lines, *_map_lines(one)]) + "\n"


def _map_lines(one: HostInventory) -> Iterator[str]:
    """Yield the keys of the map of the GPUs of a host, as far as it tells one."""
    found = found_map_of(one.found or {})
    for count, key, groups in (
        ("sockets", "socket_gpus", found.socket_gpus),
        ("switches", "switch_gpus", found.switch_gpus),
    ):
        if groups and groups == _even(groups):
            yield f"{count} = {len(groups)}"
        elif groups:
            yield f"{key} = {_nested(groups)}"
    cpus = found.socket_cpus(found.socket_gpus)
    if cpus and sorted(cpu for near in cpus for cpu in near) == list(found.cpus_there):
        yield f"socket_cpus = {_nested(cpus)}"
    if found.nvlink:
        yield f"nvlink = {_nested(found.nvlink)}"


def _even(groups: GpuGroups) -> GpuGroups:
    """Return as many groups of the same GPUs in order, of one size."""
    size = len(groups[0])
    return tuple(tuple(range(at * size, at * size + size)) for at in range(len(groups)))


def _nested(groups: GpuGroups) -> list[list[int]]:
    return [list(group) for group in groups]


def _type(gpus: Sequence[dict[str, Any]]) -> str:
    """Return a short name for a kind of GPU, such as a100."""
    if not gpus:
        return "gpu"
    found = _MODEL.search(gpus[0]["name"])
    return (found[0] if found else gpus[0]["name"]).lower().replace(" ", "-")


def _tail(there: Sequence[tuple[str, HostInventory]], access: SshAccess) -> str:
    keys = ", ".join(f'"{key}"' for key in access.keys)
    login = f"keys = [{keys}]" if access.keys else f'agent = "{access.agent}"'
    common = _common_mounts([one for _, one in there])
    place = f"{common[0][0]}/shunter" if common else "/shared/shunter"
    said = "all servers mount it" if common else "if all servers share a folder; else copied"
    return TAIL.format(
        known_hosts=f'"{access.known_hosts}"',
        login=login,
        checkpoints=f'# checkpoints = "{place}"  # {said}',
        hosts="\n".join(_host(name, one) for name, one in there),
    )


def _host(name: str, one: HostInventory) -> str:
    host, found = one.host, one.found or {}
    lines = [f"[backend.ssh.hosts.{_key(name)}]"]
    if host.address != name:
        lines.append(f'address = "{host.address}"')
    if host.port != 22:
        lines.append(f"port = {host.port}")
    if host.user:
        lines.append(f'user = "{host.user}"')
    if host.python != "python3":
        lines.append(f'python = "{host.python}"')
    if _is_closed(one):
        lines.append(f'base = "{OPEN_BASE}"  # where all users may enter, as jobs run as theirs')
    if found["gpus"]:
        uuids = ", ".join(f'"{gpu["uuid"]}"' for gpu in found["gpus"])
        lines.append(f"gpus = [{uuids}]")
    if found["cpus"] != list(range(len(found["cpus"]))):
        lines.append(f"cpus = {found['cpus']}")
    return "\n".join(lines) + "\n" if len(lines) > 1 else ""


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else f'"{name}"'
