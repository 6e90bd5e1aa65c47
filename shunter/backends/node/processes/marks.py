"""The mark by which the processes of an attempt are known, and when it counts.

Ranks hand on two variables to all that they start: the folder of the attempt (`SHUNTER_FOLDER`),
and a seal (`SHUNTER_MARK`) that says whose the job is and when it was launched. A mark counts on a
process of the job's user that started after the launch, and nowhere else: a forged or copied one
neither gets anything killed nor holds anything. The seal is made with a key that only the
scheduler's user can read, so that it needs no folder to be believed. Supervisors are known by the
lock that they hold, also where its file was removed, if it is a file of ours (open_files.py); where
the folder was renamed, it is the lock of any folder, held by the parent of what carries the mark.
Only the standard library of Python 3.8 or later, as in supervisor.py.
"""

# Paths are strings, as in supervisor.py.
# ruff: noqa: PTH108, PTH110, PTH116, PTH123, PTH200

from __future__ import annotations

import os
from hashlib import blake2b
from typing import NamedTuple

from shunter.backends.node.messages.attempt_records import a_job, number_of, started_in
from shunter.backends.node.messages.shapes import checked
from shunter.backends.node.processes.open_files import is_ours, mount_of, open_files, real_user_of
from shunter.backends.node.records import boot_id, open_regular, processes

MARK, SEAL = "SHUNTER_FOLDER", "SHUNTER_MARK"
KEY_BYTES = 32
TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")


class Alive(NamedTuple):
    """The processes of an attempt: its supervisors, and what carries its mark."""

    supervisors: list[int]
    marked: list[int]


def alive_below(root: str) -> dict[tuple[str, int], Alive]:
    """Return what runs of the attempts below a root, with or without folders."""
    found: dict[tuple[str, int], Alive] = {}
    key, boot, me = seal_key(root), boot_id(), os.getpid()
    real, mount = os.path.realpath(root), mount_of(root)
    parents, holders = processes(), set()
    for pid in parents:
        carried = _mark_of(pid)
        attempt = None if carried is None else _attempt_in(root, carried[0])
        if attempt and carried and _counts(pid, carried, key, boot):
            found.setdefault(attempt, Alive([], [])).marked.append(pid)
        for folder in () if pid == me else _locked_below(real, pid, mount):
            holders.add(pid)
            attempt = _attempt_in(real, folder)
            if attempt is not None:
                found.setdefault(attempt, Alive([], [])).supervisors.append(pid)
    for each in found.values():
        if not each.supervisors:  # the folder of theirs may have another name now
            each.supervisors.extend(sorted({parents[pid] for pid in each.marked} & holders))
    return found


def seal(root: str, folder: str, uid: int) -> str:
    """Return the seal of the attempt that this process supervises, if any."""
    key, since = seal_key(root), started_ticks(os.getpid()) or 0
    return f"{uid}.{since}.{_digest(key, folder, uid, since, boot_id())}" if key else ""


def seal_key(root: str) -> bytes:
    """Return the key of a root; it is made when it is first asked for."""
    path = f"{root}/mark.key"
    key = _read_key(path)
    if not key:
        _make_key(path)
        key = _read_key(path)
    return key


def started_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since the boot."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None


def _read_key(path: str) -> bytes:
    try:
        with open(open_regular(path), "rb") as file:
            key = file.read(KEY_BYTES)
    except OSError:
        return b""
    return key if len(key) == KEY_BYTES else b""


def _make_key(path: str) -> None:
    """Make a key that is whole, once, whoever else makes one."""
    fresh = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
    try:
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(file, os.urandom(KEY_BYTES))
            os.fsync(file)
        finally:
            os.close(file)
        os.link(fresh, path)
    except OSError:
        return  # another one was quicker, or the disk is full
    finally:
        if os.path.exists(fresh):
            os.unlink(fresh)


def _mark_of(pid: int) -> tuple[str, str] | None:
    """Return the folder and the seal that a process carries."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:
        return None
    named = {}
    for entry in entries:
        name, _, value = entry.partition(b"=")
        if name in (MARK.encode(), SEAL.encode()):
            named[name.decode()] = value.decode("utf-8", "replace")
    return (named[MARK], named.get(SEAL, "")) if MARK in named else None


def _attempt_in(root: str, folder: str) -> tuple[str, int] | None:
    """Return the attempt whose folder this is; None if it is none below a root."""
    if not folder.startswith(f"{root}/jobs/"):
        return None
    job, _, attempt = folder[len(root) + 6 :].partition("/")
    number = number_of(attempt)
    return (job, number) if number is not None and checked(job, a_job) is not None else None


def _counts(pid: int, carried: tuple[str, str], key: bytes, boot: str) -> bool:
    """Say whether a mark counts on the process that carries it."""
    folder, sealed = carried
    claim = _claim(folder, sealed, key, boot)
    uid, ticks = real_user_of(pid), started_ticks(pid)
    if claim is None or uid is None or ticks is None:
        return False
    return uid == claim[0] and ticks >= claim[1]


def _claim(folder: str, sealed: str, key: bytes, boot: str) -> tuple[int, int] | None:
    """Return whose an attempt is and since when, by its seal or its records."""
    uid, _, rest = sealed.partition(".")
    since, _, digest = rest.partition(".")
    if key and uid.isdigit() and since.isdigit() and len(uid + since) < 40:
        if digest == _digest(key, folder, int(uid), int(since), boot):
            return int(uid), int(since)
        return None
    # A supervisor of an earlier version sealed nothing.
    started = started_in(folder)
    if started is None or started["boot"] != boot:
        return None
    try:
        owner = os.stat(f"{folder}/channel").st_uid
    except OSError:
        return None
    return owner, (started["started_ns"] + _asleep_ns()) // TICK_NS - 1


def _digest(key: bytes, folder: str, uid: int, since: int, boot: str) -> str:
    said = f"{folder}\0{uid}\0{since}\0{boot}".encode("utf-8", "replace")
    return blake2b(said, key=key, digest_size=16).hexdigest()


def _asleep_ns() -> int:
    """Return how long this machine has slept since its boot."""
    import time

    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) - time.monotonic_ns()


def _locked_below(root: str, pid: int, mount: str) -> list[str]:
    """Return the folders below a root whose lock a process of ours holds."""
    if not is_ours(pid):
        return []
    return [
        file.path[: -len("/lock")]
        for file in open_files(pid)
        if file.path.startswith(f"{root}/jobs/")
        and file.path.endswith("/lock")
        and file.is_locked()
        and file.is_believed(mount)
    ]
