"""`shunter init --ssh`: a config for hosts that were asked what they have."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from shunter.backends.live.settings import SshAccess, SshHost
from shunter.backends.live.ssh import HostInventory, host_inventories
from shunter.config.accelerators import GpuGroups
from shunter.counting import counted
from shunter.daemon.gpu_maps import found_map_of
from shunter.errors import UnreachableError, UsageError
from shunter.events.values import NodeName
from shunter.ops.first_config import LOG, OPEN_BASE, POLICY

CONNECT_S = 15.0
SKEW_S = 5.0
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
    mounts = [{tuple(mount) for mount in (one.found or {})["shared"]} for _, one in there]
    common = sorted(set.intersection(*mounts)) if mounts else []
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
