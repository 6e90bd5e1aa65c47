"""Listings of `scontrol show … --oneliner`: nodes, partitions, reservations, switches, settings.

One line a thing, Key=Value with spaces between; values may have spaces too. What looks like a key
that came before belongs to the value. Keys that are new are ignored, and most that are missing are,
since versions differ.

Free text comes last in the line of a node, and may say anything: the reason why it is drained, a
comment and what a site calls extra, in this order. Only what comes after a text by that order ends
it, and Slurm ends a reason by who said so and when: `[root@2026-11-28T05:22:55]`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Final, TypeVar

from shunter.backends.slurm.quantities import (
    gpu_indices,
    gpus_in_gres,
    instant_s,
    limit_s,
    whole,
)
from shunter.backends.slurm.records import Partition, Reservation, SlurmNode, Switch
from shunter.errors import SlurmUnknownError

# Hostlists as Slurm prints them: n[1-3,07] and rack[1-2]n[01-04], several with commas.
#
# Their order counts, since the first node of a job is that of its first rank.

NAMES_MOST = 1 << 17
_NOTHING = frozenset({"", "(null)", "None", "None assigned", "N/A", "n/a"})
_PIECE = re.compile(r"\[([^\][]*)\]|([^,\][]+)|(,)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def expanded(hostlist: str) -> tuple[str, ...]:
    """Return the names a hostlist stands for, in its order; of (null) none.

    Raises:
        SlurmUnknownError: it is no hostlist.
    """
    if hostlist in _NOTHING:
        return ()
    names: list[str] = []
    parts: list[list[str]] = []
    at = 0
    for piece in _PIECE.finditer(f"{hostlist},"):
        ranges, text, comma = piece.groups()
        if piece.start() != at or (comma and not parts):
            raise _odd(hostlist)
        at = piece.end()
        if comma:
            names += ["".join(words) for words in product(*parts)]
            parts = []
        else:
            parts.append([text] if ranges is None else _numbers(ranges, hostlist))
        if len(names) > NAMES_MOST:
            raise _odd(hostlist)
    if at != len(hostlist) + 1:
        raise _odd(hostlist)
    return tuple(names)


def _numbers(ranges: str, hostlist: str) -> list[str]:
    texts: list[str] = []
    for part in ranges.split(","):
        found = _RANGE.fullmatch(part)
        if found is None:
            raise _odd(hostlist)
        first, last = int(found[1]), int(found[2] or found[1])
        if not first <= last < first + NAMES_MOST:
            raise _odd(hostlist)
        texts += [str(number).zfill(len(found[1])) for number in range(first, last + 1)]
    return texts


def _odd(hostlist: str) -> SlurmUnknownError:
    return SlurmUnknownError(
        f"Slurm names nodes as {hostlist[:80]!r}", "expected a hostlist such as n[1-3,07]"
    )


Told = TypeVar("Told")
_KEY = re.compile(r"(?:^|(?<=\s))([A-Za-z][\w/:-]*)=")
_SAID_BY = re.compile(r" ?\[[^\]@\s]*@(?P<since>[^\]\s]*)\]")
_TEXTS: Final = ("Reason", "Comment", "Extra", "InstanceId", "InstanceType", "ReservationName")
"""What is last in the line of a node, in the order of all versions from 22.05 on."""
_SETTING = re.compile(r"^([A-Za-z]\w*)\s+= (.*)$", re.MULTILINE)
_MARKS: Final = "*~#!%$@^-+"
"""What Slurm puts behind a state: not answering, powered down, in maintenance and so on."""


def nodes(text: str) -> tuple[SlurmNode, ...]:
    """Return the nodes in an answer of `scontrol show node -d -o`.

    Raises:
        SlurmUnknownError: it is no such answer.
    """
    return _read(text, "NodeName", _node, _TEXTS)


def partitions(text: str) -> tuple[Partition, ...]:
    """Return the partitions in an answer of `scontrol show partition -o`.

    Raises:
        SlurmUnknownError: it is no such answer.
    """
    return _read(text, "PartitionName", _partition)


def reservations(text: str) -> tuple[Reservation, ...]:
    """Return the reservations in an answer of `scontrol show reservation -o`.

    Raises:
        SlurmUnknownError: it is no such answer.
    """
    if text.startswith("No reservations"):
        return ()
    return _read(text, "ReservationName", _reservation)


def switches(text: str) -> tuple[Switch, ...]:
    """Return switches and blocks in an answer of `scontrol show topology`.

    What another plugin tells, such as rings and tori, is left out.

    Raises:
        SlurmUnknownError: it is no such answer.
    """
    lines = [line.strip() for line in text.split("\n")]
    found = _read("\n".join(line for line in lines if "SwitchName=" in line), "SwitchName", _switch)
    blocks = "\n".join(line for line in lines if line.startswith("BlockName="))
    return found + _read(blocks, "BlockName", _block)


def settings(text: str) -> dict[str, str]:
    """Return the settings in an answer of `scontrol show config`.

    Raises:
        SlurmUnknownError: it is no such answer.
    """
    found = {key: value.strip() for key, value in _SETTING.findall(text)}
    if "ClusterName" not in found:
        raise SlurmUnknownError(
            f"scontrol shows no settings but {text[:60]!r}", "run `scontrol show config` by hand"
        )
    return found


def _read(
    text: str,
    first: str,
    make: Callable[[Mapping[str, str]], Told],
    texts: Sequence[str] = (),
) -> tuple[Told, ...]:
    made: list[Told] = []
    for line in text.split("\n"):
        if not line.strip():
            continue
        told = _pairs(line, texts)
        if not told.get(first):
            raise SlurmUnknownError(
                f"scontrol shows {line[:60]!r}, expected {first}=", "run it by hand and compare"
            )
        try:
            made.append(make(told))
        except (KeyError, ValueError) as error:
            raise SlurmUnknownError(
                f"scontrol tells of {told[first]} what cannot be read: {error}",
                "run it by hand and compare",
            ) from error
    return tuple(made)


def _pairs(line: str, texts: Sequence[str]) -> dict[str, str]:
    """Return what is told by key; `texts` are the last ones, which may say anything."""
    found: dict[str, re.Match[str]] = {}
    last = None
    for match in _KEY.finditer(line):
        if match[1] not in found and (last is None or _ends(last, match, texts)):
            found[match[1]] = match
            last = match if match[1] in texts else None
    ends = [*(match.start() for match in found.values()), len(line)][1:]
    values = zip(found.items(), ends, strict=False)
    return {key: line[match.end() : end].strip() for (key, match), end in values}


def _ends(text: re.Match[str], key: re.Match[str], texts: Sequence[str]) -> bool:
    """Say whether a key comes after a free text, not in it."""
    if key[1] not in texts or texts.index(key[1]) < texts.index(text[1]):
        return False
    line = text.string
    is_signed = _SAID_BY.search(line, text.end(), key.start()) is not None
    return text[1] != "Reason" or is_signed or _SAID_BY.search(line, key.end()) is None


def _node(told: Mapping[str, str]) -> SlurmNode:
    state, *flags = told["State"].split("+")
    if state.endswith("*"):
        flags.append("NOT_RESPONDING")
    used = told.get("GresUsed")
    reason = told.get("Reason", "")
    dated = _SAID_BY.search(reason)
    return SlurmNode(
        name=told["NodeName"],
        state=state.rstrip(_MARKS),
        flags=frozenset(flag.rstrip(_MARKS) for flag in flags),
        cpus=whole(told.get("CPUEfctv") or told["CPUTot"]),
        cpus_used=whole(told["CPUAlloc"]),
        memory_mb=whole(told["RealMemory"]) - whole(told.get("MemSpecLimit", "")),
        memory_used_mb=whole(told.get("AllocMem", "")),
        gpus=gpus_in_gres(told.get("Gres", "")),
        gpus_used=None if used is None else gpus_in_gres(used),
        gpus_used_indices=gpu_indices(used or ""),
        sockets=whole(told.get("Sockets", "")),
        features=_listed(told.get("AvailableFeatures", "")),
        partitions=_listed(told.get("Partitions", "")),
        reason=reason if dated is None else _without(reason, dated),
        reason_s=None if dated is None else instant_s(dated["since"]),
        version=told.get("Version", ""),
        reservation=told.get("ReservationName", ""),
    )


def _without(reason: str, dated: re.Match[str]) -> str:
    """Return a reason without who said so: Slurm tells that after its first line."""
    lines = (reason[: dated.start()], *reason[dated.end() :].split(8 * " "))
    return "; ".join(line.strip() for line in lines if line.strip())


def _partition(told: Mapping[str, str]) -> Partition:
    most = told.get("MaxNodes", "UNLIMITED")
    return Partition(
        name=told["PartitionName"],
        state=told["State"],
        nodes=expanded(told.get("Nodes", "")),
        time_limit_s=limit_s(told.get("MaxTime", "")),
        is_usual=told.get("Default") == "YES",
        nodes_max=None if most == "UNLIMITED" else int(most),
        accounts=_allowed(told.get("AllowAccounts", "ALL")),
        groups=_allowed(told.get("AllowGroups", "ALL")),
        qos=_allowed(told.get("AllowQos", "ALL")),
        over_subscribe=told.get("OverSubscribe", ""),
        root_only=told.get("RootOnly") == "YES",
        root_refused=told.get("DisableRootJobs") == "YES",
    )


def _reservation(told: Mapping[str, str]) -> Reservation:
    return Reservation(
        name=told["ReservationName"],
        state=told.get("State", ""),
        flags=frozenset(_listed(told.get("Flags", ""))),
        nodes=expanded(told.get("Nodes", "")),
        start_s=instant_s(told["StartTime"]),
        end_s=instant_s(told["EndTime"]),
        users=_listed(told.get("Users", "")),
        accounts=_listed(told.get("Accounts", "")),
        partition="".join(_listed(told.get("PartitionName", ""))),
    )


def _switch(told: Mapping[str, str]) -> Switch:
    level = whole(told.get("Level", "0"))
    below = expanded(told.get("Switches", ""))
    return Switch(told["SwitchName"], level, expanded(told.get("Nodes", "")), below)


def _block(told: Mapping[str, str]) -> Switch:
    return Switch(told["BlockName"], 0, expanded(told.get("Nodes", "")), ())


def _listed(text: str) -> tuple[str, ...]:
    return tuple(_parts(text)) if text not in {"(null)", "N/A"} else ()


def _allowed(text: str) -> tuple[str, ...]:
    """Return who is let in; nothing stands for everybody."""
    return () if text == "ALL" else _listed(text)


def _parts(text: str) -> Iterator[str]:
    words: Sequence[str] = text.split(",")
    return (word.strip() for word in words if word.strip())
