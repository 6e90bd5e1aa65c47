"""Slurm's answers: records of jobs, nodes, partitions and more, and how text is read into them.

In this order: small texts, records, listings of scontrol, the queue, the accounting.

What reads an answer raises SlurmUnknownError if it is cut off, or is no such answer. States and
flags stay texts: each version of Slurm adds some, and an unknown one is no error.
Instants are seconds since 1970; None is an instant or a limit that is not set.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import product
from typing import Final, TypeVar

from shunter import clock
from shunter.errors import SlurmUnknownError

# GRES are gpu:v100:4(S:0-1).

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400
UNTYPED: Final = "gpu"
"""The type of GPUs that Slurm knows no type of."""

_NO_VALUE = 2**32 - 2
"""How Slurm's C code says that a number is not set (NO_VAL); 22.05 prints it of some jobs."""

_UNSET = frozenset({"", "(null)", "None", "N/A", "n/a", "Unknown", "unknown", "NONE", "NOT_SET"})
_GRES = re.compile(
    r"(?:gres[:/])?gpu(?::(?P<type>[^:=,()\s]*[^\d:=,()\s][^:=,()\s]*))?"
    r"(?:[:=](?P<count>\d+)(?P<suffix>[KMG]?))?(?:\((?P<note>[^)]*)\))?"
)
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_LIMIT = re.compile(r"(?:(?P<days>\d+)-)?(?P<clock>\d+(?::\d+){0,2})")
_SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def gpus_in_gres(text: str) -> dict[str, int]:
    """Return GPUs by type in a list of GRES; other resources do not count."""
    found: dict[str, int] = {}
    for one in _entries(text):
        name = one["type"] or UNTYPED
        count = int(one["count"] or 1) * _SUFFIXES[one["suffix"] or ""]
        found[name] = found.get(name, 0) + count
    return found


def gpu_indices(text: str) -> dict[str, tuple[int, ...]]:
    """Return the devices in use by type, as in gpu:v100:2(IDX:0-1)."""
    found: dict[str, tuple[int, ...]] = {}
    for one in _entries(text):
        note = one["note"] or ""
        if note.startswith("IDX:"):
            numbers = [
                number
                for first, last in _RANGE.findall(note)
                for number in range(int(first), int(last or first) + 1)
            ]
            found[one["type"] or UNTYPED] = tuple(numbers)
    return found


def instant_s(text: str) -> int | None:
    """Return seconds since 1970 of an instant, None if it is not set.

    It is a number of them, or ISO 8601 in local time.

    Raises:
        ValueError: it is neither, and does not say that none is set.
    """
    if text in _UNSET:
        return None
    if text.isdigit():
        return int(text) or None
    return int(datetime.fromisoformat(text).timestamp())


def limit_s(text: str) -> int | None:
    """Return the seconds of a time limit, None if there is none.

    It is a number of minutes, MM:SS, HH:MM:SS or D-HH:MM:SS.

    Raises:
        ValueError: it is no limit.
    """
    if text in _UNSET or text.lower() in {"unlimited", "infinite", "partition_limit", "invalid"}:
        return None
    found = _LIMIT.fullmatch(text)
    if found is None:
        raise ValueError(text)
    numbers = [int(part) for part in found["clock"].split(":")]
    if found["days"] is not None:  # D-HH, D-HH:MM or D-HH:MM:SS
        hours, minutes, seconds = [*numbers, 0, 0][:3]
        return int(found["days"]) * 86_400 + hours * 3_600 + minutes * 60 + seconds
    if len(numbers) == 1:
        return numbers[0] * 60
    hours, minutes, seconds = [0, *numbers][-3:]
    return hours * 3_600 + minutes * 60 + seconds


def whole(text: str) -> int:
    """Return a whole number, 0 where none is set; of a range such as 2-4 the first.

    Raises:
        ValueError: it is no number.
    """
    number = 0 if text in _UNSET else int(text.partition("-")[0])
    return 0 if number >= _NO_VALUE else number


def _entries(text: str) -> Iterator[re.Match[str]]:
    """Yield the GPU entries of a list; commas in brackets separate no entries."""
    text = text.replace(":(null)", "")  # how devices without a type are said to be in use
    depth, start = 0, 0
    for place, sign in enumerate(f"{text},"):
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth <= 0:
            found = _GRES.fullmatch(text[start:place].strip())
            if found is not None:
                yield found
            start = place + 1


def duration(seconds: float) -> str:
    """Return a duration in words, of two units at most: 12 min, 3 h 10 min."""
    whole = max(0, int(seconds))
    if whole < MINUTE_S:
        return f"{whole} s"
    if whole < HOUR_S:
        return f"{whole // MINUTE_S} min"
    large, small, size, part = (
        ("h", "min", HOUR_S, MINUTE_S) if whole < DAY_S else ("d", "h", DAY_S, HOUR_S)
    )
    rest = whole % size // part
    return f"{whole // size} {large}" + (f" {rest} {small}" if rest else "")


# How Slurm ends jobs, in words.

SAYS_WHY = frozenset({"CANCELLED", "DEADLINE", "PREEMPTED", "TIMEOUT"})
"""Last states that say for what Slurm ended a job, which sends SIGTERM for all of them."""


def end_in_words(state: str, limit_s: float | None = None) -> str:
    """Return what ended a job, by its last state in Slurm.

    Args:
        state: such as TIMEOUT.
        limit_s: the job's time limit in Slurm, in seconds; None: not known.
    """
    if state == "TIMEOUT":
        return limit_in_words(limit_s)
    if state == "CANCELLED":
        return "it was cancelled in Slurm (scancel)"
    if state == "PREEMPTED":
        return "it was preempted in Slurm"
    return f"Slurm ended it: {state}"


def limit_in_words(limit_s: float | None) -> str:
    """Return that a job's time limit in Slurm ended it, in seconds (None: not known)."""
    of = "" if limit_s is None else f" of {duration(limit_s)}"
    return f"Slurm's time limit{of} ended it"


def signal_in_words(signal: str) -> str:
    """Return what is known of a job's end by the signal alone that announced it."""
    return f"Slurm sent it {signal}, and has not said why"


_OUT = frozenset(
    {"DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "ERROR", "INVAL", "FUTURE"}
    | {"POWERED_DOWN", "POWERING_DOWN", "REBOOT_ISSUED"}
)
"""States of a node that takes no jobs until an administrator resumes it."""
_NO_JOBS_NOW = _OUT | {"NOT_RESPONDING", "UNKNOWN", "MAINT"}
"""And those that pass: a node that has not answered for a moment (NOT_RESPONDING), or has yet to
answer a controller that has just started (UNKNOWN), will answer, or be down."""
SURELY_EARLY_S = 5  # before the time limit: Slurm counts whole seconds, and clocks differ
_ENDED = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY"}
    | {"PREEMPTED", "REVOKED", "TIMEOUT", "LAUNCH_FAILED", "RECONFIG_FAIL"}
)


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """A job, as Slurm's accounting knows it for long."""

    id: int
    name: str
    user: str
    state: str

    @property
    def has_ended(self) -> bool:
        """Whether its state is a last one."""
        return self.state in _ENDED


@dataclass(frozen=True, slots=True)
class QueuedJob(SlurmJob):
    """A job that the controller knows: waiting, running, or ended a short while ago.

    Each task of an array has an `id` of its own. Ids are used again after a crash of the
    controller: name and `submit_s` together tell jobs apart. `restarts` counts how often Slurm has
    run it again.
    """

    reason: str
    nodes: tuple[str, ...]
    submit_s: int | None
    start_s: int | None
    end_s: int | None
    time_limit_s: int | None
    restarts: int

    @property
    def is_pending(self) -> bool:
        """Whether it waits for its first nodes, or for others after a restart."""
        return self.state == "PENDING"

    @property
    def is_being_preempted(self) -> bool:
        """Whether it runs in the grace that a partition gives before it preempts.

        Slurm has moved its end forward. It sends SIGTERM to what srun has started, and nothing to
        the batch script.
        """
        if self.start_s is None or self.end_s is None or self.time_limit_s is None:
            return False
        early_s = self.start_s + self.time_limit_s - self.end_s
        return self.state == "RUNNING" and early_s > SURELY_EARLY_S


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """A node: what it has, what of it is given out, and what is the matter with it.

    `gpus` are counts by type as they are configured, under "gpu" where no type is;
    `gpus_used_indices` are the devices in use, by type. `state` is the first of the flags that
    Slurm joins by "+", `flags` are the others. `reason` is why it is out of service, in an
    administrator's words.
    """

    name: str
    state: str
    flags: frozenset[str]
    cpus: int
    cpus_used: int
    memory_mb: int
    memory_used_mb: int
    gpus: Mapping[str, int] = field(hash=False)
    gpus_used_indices: Mapping[str, tuple[int, ...]] = field(hash=False)
    sockets: int
    features: tuple[str, ...]
    reason: str
    version: str

    @property
    def is_in_service(self) -> bool:
        """Whether new jobs may start on it now, as far as its state goes."""
        return not _NO_JOBS_NOW & {self.state, *self.flags}

    @property
    def out_of_service(self) -> str:
        """Why it takes no jobs until it is resumed; nothing if it takes some."""
        words = {self.state, *self.flags}
        if not _OUT & words:
            return ""
        how = "down" if {"DOWN", "POWERED_DOWN"} & words else "drained"
        return f"Slurm has node {self.name} {how}" + (f": {self.reason}" if self.reason else "")

    @property
    def states_in_words(self) -> str:
        """Its state and flags, such as idle+drain."""
        return "+".join([self.state, *sorted(self.flags)]).lower()


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition: its nodes, whether jobs may start there, and for how long."""

    name: str
    state: str
    nodes: tuple[str, ...]
    time_limit_s: int | None
    root_refused: bool


SLACK_LEAST_S: Final = 60.0
"""Slurm counts limits in minutes, and a job that waits starts a little later than it was asked."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes that are kept from other users, or for maintenance, between two instants.

    One without an end ends at infinity, one without a beginning has begun.
    """

    name: str
    nodes: tuple[str, ...]
    start_s: float
    end_s: float
    is_maintenance: bool

    def in_words(self, node: str) -> str:
        """Return a sentence for people, in the local time of this machine."""
        what = "for maintenance" if self.is_maintenance else f"for reservation {self.name}"
        until = "" if self.end_s == float("inf") else f" to {_time_of_day(self.end_s)}"
        return f"Slurm keeps node {node} {what} from {_time_of_day(self.start_s)}{until}"

    def limit_s(self, now_s: float) -> float:
        """Return the longest time limit with which a job ends before, in whole minutes.

        A tenth of the time is left for the wait in Slurm's queue.
        """
        left_s = self.start_s - now_s
        return max(0.0, (left_s - max(SLACK_LEAST_S, left_s / 10)) // 60 * 60)


def _time_of_day(at_s: float) -> str:
    """Return an instant in local time, with the day if it is not today."""
    at, today = time.localtime(at_s), time.localtime(clock.wall_s())
    is_today = (at.tm_year, at.tm_yday) == (today.tm_year, today.tm_yday)
    return time.strftime("%H:%M" if is_today else "%Y-%m-%d %H:%M", at)


@dataclass(frozen=True, slots=True)
class NetworkSwitch:
    """A switch or a block of the network; what is of level 0 has nodes."""

    name: str
    level: int
    nodes: tuple[str, ...]
    below: tuple[str, ...]


# Hostlists: n[1-3,07], rack[1-2]n[01-04]. Order counts: the first node has the first rank.

NAMES_MOST = 1 << 17
_NOTHING = frozenset({"", "(null)", "None", "None assigned", "N/A", "n/a"})
_PIECE = re.compile(r"\[([^\][]*)\]|([^,\][]+)|(,)")


def expanded(hostlist: str) -> tuple[str, ...]:
    """Return the names in a hostlist, in its order; of (null) none.

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


# Listings of `scontrol show … --oneliner`: a thing a line, Key=Value, and values may have spaces. A
# key that came before is part of the value. New and most missing keys are ignored.
#
# Free text (Reason, Comment, Extra) comes last in the line of a node, in this order, and may say
# anything: only a key that follows by that order ends it. Slurm ends a reason by
# `[root@2026-11-28T05:22:55]`.

Record = TypeVar("Record")
_KEY = re.compile(r"(?:^|(?<=\s))([A-Za-z][\w/:-]*)=")
_SAID_BY = re.compile(r" ?\[[^\]@\s]*@[^\]\s]*\]")
_TEXTS: Final = ("Reason", "Comment", "Extra", "InstanceId", "InstanceType", "ReservationName")
"""What is last in the line of a node, in the order of all versions from 22.05 on."""
_SETTING = re.compile(r"^([A-Za-z]\w*)\s+= (.*)$", re.MULTILINE)
_MARKS: Final = "*~#!%$@^-+"
"""What Slurm puts behind a state: not answering, powered down, in maintenance and so on."""


def read_nodes(text: str) -> tuple[SlurmNode, ...]:
    """Return the nodes in an answer of `scontrol show node -d -o`."""
    return _read(text, "NodeName", _node, _TEXTS)


def read_partitions(text: str) -> tuple[Partition, ...]:
    """Return the partitions in an answer of `scontrol show partition -o`."""
    return _read(text, "PartitionName", _partition)


def read_reservations(text: str) -> tuple[Reservation, ...]:
    """Return the reservations in an answer of `scontrol show reservation -o`."""
    if text.startswith("No reservations"):
        return ()
    return _read(text, "ReservationName", _reservation)


def read_switches(text: str) -> tuple[NetworkSwitch, ...]:
    """Return switches and blocks in an answer of `scontrol show topology`.

    What other plugins show, such as rings and tori, is left out.
    """
    lines = [line.strip() for line in text.split("\n")]
    found = _read("\n".join(line for line in lines if "SwitchName=" in line), "SwitchName", _switch)
    blocks = "\n".join(line for line in lines if line.startswith("BlockName="))
    return found + _read(blocks, "BlockName", _block)


def read_settings(text: str) -> dict[str, str]:
    """Return the settings in an answer of `scontrol show config`."""
    found = {key: value.strip() for key, value in _SETTING.findall(text)}
    if "ClusterName" not in found:
        raise SlurmUnknownError(
            f"scontrol shows no settings but {text[:60]!r}", "run `scontrol show config` by hand"
        )
    return found


def _read(
    text: str,
    first: str,
    make: Callable[[Mapping[str, str]], Record],
    texts: Sequence[str] = (),
) -> tuple[Record, ...]:
    made: list[Record] = []
    for line in text.split("\n"):
        if not line.strip():
            continue
        fields = _pairs(line, texts)
        if not fields.get(first):
            raise SlurmUnknownError(
                f"scontrol shows {line[:60]!r}, expected {first}=", "run it by hand and compare"
            )
        try:
            made.append(make(fields))
        except (KeyError, ValueError) as error:
            raise SlurmUnknownError(
                f"scontrol tells of {fields[first]} what cannot be read: {error}",
                "run it by hand and compare",
            ) from error
    return tuple(made)


def _pairs(line: str, texts: Sequence[str]) -> dict[str, str]:
    """Return the values by key; `texts` are the last ones, which may say anything."""
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


def _node(fields: Mapping[str, str]) -> SlurmNode:
    state, *flags = fields["State"].split("+")
    if state.endswith("*"):
        flags.append("NOT_RESPONDING")
    reason = fields.get("Reason", "")
    dated = _SAID_BY.search(reason)
    return SlurmNode(
        name=fields["NodeName"],
        state=state.rstrip(_MARKS),
        flags=frozenset(flag.rstrip(_MARKS) for flag in flags),
        cpus=whole(fields.get("CPUEfctv") or fields["CPUTot"]),
        cpus_used=whole(fields["CPUAlloc"]),
        memory_mb=whole(fields["RealMemory"]) - whole(fields.get("MemSpecLimit", "")),
        memory_used_mb=whole(fields.get("AllocMem", "")),
        gpus=gpus_in_gres(fields.get("Gres", "")),
        gpus_used_indices=gpu_indices(fields.get("GresUsed", "")),
        sockets=whole(fields.get("Sockets", "")),
        features=_listed(fields.get("AvailableFeatures", "")),
        reason=reason if dated is None else _without(reason, dated),
        version=fields.get("Version", ""),
    )


def _without(reason: str, dated: re.Match[str]) -> str:
    """Return a reason without who said so: Slurm says that after its first line."""
    lines = (reason[: dated.start()], *reason[dated.end() :].split(8 * " "))
    return "; ".join(line.strip() for line in lines if line.strip())


def _partition(fields: Mapping[str, str]) -> Partition:
    return Partition(
        name=fields["PartitionName"],
        state=fields["State"],
        nodes=expanded(fields.get("Nodes", "")),
        time_limit_s=limit_s(fields.get("MaxTime", "")),
        root_refused=fields.get("DisableRootJobs") == "YES",
    )


def _reservation(fields: Mapping[str, str]) -> Reservation:
    end_s = instant_s(fields["EndTime"])
    return Reservation(
        name=fields["ReservationName"],
        nodes=expanded(fields.get("Nodes", "")),
        start_s=float(instant_s(fields["StartTime"]) or 0),
        end_s=float("inf") if end_s is None else float(end_s),
        is_maintenance="MAINT" in _listed(fields.get("Flags", "")),
    )


def _switch(fields: Mapping[str, str]) -> NetworkSwitch:
    level = whole(fields.get("Level", "0"))
    below = expanded(fields.get("Switches", ""))
    return NetworkSwitch(fields["SwitchName"], level, expanded(fields.get("Nodes", "")), below)


def _block(fields: Mapping[str, str]) -> NetworkSwitch:
    return NetworkSwitch(fields["BlockName"], 0, expanded(fields.get("Nodes", "")), ())


def _listed(text: str) -> tuple[str, ...]:
    if text in {"(null)", "N/A"}:
        return ()
    return tuple(word.strip() for word in text.split(",") if word.strip())


# The queue. Names and comments of jobs may hold line breaks and look like jobs of ours. So each
# value is followed by its field and a random word, value=Field<word>, which squeue gets in the
# environment that other users cannot read.

FIELDS: Final = (
    *("JobID", "Name", "UserName", "State", "Reason", "NodeList", "SubmitTime", "StartTime"),
    *("EndTime", "TimeLimit", "RestartCnt"),
)
"""The first is where a record begins."""


def queue_format(word: str) -> str:
    """Return what squeue is asked for; the word begins with no digit."""
    assert not word[0].isdigit(), "a digit would be read as a width"
    return ",".join(f"{field}:={field}{word}" for field in FIELDS)


def queued_jobs(text: str, word: str) -> tuple[QueuedJob, ...]:
    """Return the jobs in an answer of squeue."""
    try:
        return tuple(_job(record) for record in _records(text, word))
    except ValueError as error:
        raise SlurmUnknownError(
            f"squeue tells of a job what cannot be read: {error}", "run squeue by hand and compare"
        ) from error


def _records(text: str, word: str) -> Iterator[Mapping[str, str]]:
    *cells, rest = text.split(word)
    if rest.strip():
        raise SlurmUnknownError(
            f"the answer of squeue ends with {rest[-60:]!r}", "expected whole records; ask again"
        )
    record: dict[str, str] = {}
    for cell in cells:
        value, _, field = cell.rpartition("=")
        if field == FIELDS[0]:
            if record:
                yield _whole_record(record)
            record, value = {}, value.lstrip()
        record[field] = value.strip()
    if record:
        yield _whole_record(record)


def _whole_record(record: Mapping[str, str]) -> Mapping[str, str]:
    missing = [field for field in FIELDS if field not in record]
    if missing:
        raise SlurmUnknownError(
            f"squeue tells no {missing[0]} of job {record.get(FIELDS[0])}", "ask again"
        )
    return record


def _job(fields: Mapping[str, str]) -> QueuedJob:
    return QueuedJob(
        id=int(fields["JobID"]),
        name=fields["Name"],
        user=fields["UserName"],
        state=fields["State"],
        reason="" if fields["Reason"] in {"(null)", "N/A", "None"} else fields["Reason"],
        nodes=expanded(fields["NodeList"]),
        submit_s=instant_s(fields["SubmitTime"]),
        start_s=instant_s(fields["StartTime"]),
        end_s=instant_s(fields["EndTime"]),
        time_limit_s=limit_s(fields["TimeLimit"]),
        restarts=whole(fields["RestartCnt"]),
    )


# The accounting. A random word separates columns, and the last column is a plain number, so that no
# name of a job makes rows.

ACCOUNTING_FIELDS: Final = "JobIDRaw,JobName,User,State,NNodes"


def past_jobs(text: str, word: str) -> tuple[SlurmJob, ...]:
    """Return the jobs in an answer of sacct."""
    try:
        return tuple(_past_job(row) for row in _rows(text, word))
    except (KeyError, ValueError) as error:
        raise SlurmUnknownError(
            f"sacct tells of a job what cannot be read: {error}", "run sacct by hand and compare"
        ) from error


def _rows(text: str, word: str) -> Iterator[Mapping[str, str]]:
    first, _, rest = text.partition("\n")
    header = first.split(word)
    if header[-1] != "NNodes":
        raise SlurmUnknownError(f"sacct answers {first[:60]!r}", "expected a header of its columns")
    cells: list[str] = []
    for cell in rest.split(word):
        if len(cells) == len(header) - 1:
            last, line_break, following = cell.partition("\n")
            if not line_break:
                raise ValueError("the answer is cut off")
            yield dict(zip(header, [*cells, last], strict=True))
            cells = [following]
        else:
            cells.append(cell)
    if cells != [""]:
        raise ValueError("the answer is cut off")


def _past_job(row: Mapping[str, str]) -> SlurmJob:
    state = row["State"].partition(" ")[0]  # "CANCELLED by 1000"
    return SlurmJob(int(row["JobIDRaw"]), row["JobName"], row["User"], state)
