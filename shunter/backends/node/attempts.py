"""The attempts of one machine, seen from outside: what runs, what is fenced, what is left."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from shunter.backends.node.cgroups import close_group, members
from shunter.backends.node.messages import PATH, Known, a_job, number_of, started_in, status_in
from shunter.backends.node.records import (
    LINE_BYTES_MAX,
    below,
    boot_id,
    count_in,
    fifo,
    folder_of,
    get,
    hold,
    kill,
    open_regular,
    own_folder,
    processes,
    put,
    stat_of,
    tell,
)
from shunter.backends.node.shapes import checked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from shunter.backends.node.messages import Key, State

NO_END = ("absent", "lost")
MARK, SEAL = "SHUNTER_FOLDER", "SHUNTER_MARK"
KEY_BYTES = 32
TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")
DELETED = " (deleted)"


def raise_term(root: str, term: int) -> int:
    """Let no scheduler of a lower term order anything; return the term in force."""
    own_folder(f"{root}/jobs")
    return _raise(f"{root}/term", "term", term)


def raise_fence(root: str, job: str, attempt: int) -> int:
    """Let no attempt up to this one start any more; return the fence in force."""
    own_folder(f"{root}/jobs/{job}")
    return _raise(f"{root}/jobs/{job}/fence", "attempt", attempt)


def _raise(path: str, name: str, value: int) -> int:
    held = hold(f"{path}.lock", fcntl.LOCK_EX)
    assert held is not None, "a lock that waits was refused"
    try:
        now = count_in(path, name)
        if value > now:
            put(path, {name: value})
        return max(value, now)
    finally:
        os.close(held)


def is_held(path: str) -> bool:
    """Say whether somebody holds the flock of a file."""
    if not os.path.exists(path):
        return False
    held = hold(path, fcntl.LOCK_SH | fcntl.LOCK_NB)
    if held is not None:
        os.close(held)
    return held is None


def attempt_of(folder: str) -> tuple[str, str, int]:
    """Return the root, the job and the number of the attempt that lives in a folder."""
    root, _, name = folder.rpartition("/jobs/")
    job, _, number = name.partition("/")
    return root, job, number_of(number) or 0


def probe(folder: str) -> Known:
    """Return what is known of an attempt, without the notes of its journal."""
    held = is_held(f"{folder}/lock")  # first: what its holder wrote is read after
    started, status = started_in(folder), status_in(folder)
    if status is not None:
        state: State = "ended"
    elif held:
        state = "running" if started is not None else "starting"
    else:
        state = "lost" if started is not None else "absent"
    _, job, number = attempt_of(folder)
    return Known(
        job=job, attempt=number, folder=folder, state=state, started=started, status=status
    )


def inventory(root: str) -> list[Known]:
    """Return the state of every attempt there is, in order of job and attempt."""
    jobs = f"{root}/jobs"
    return [
        probe(folder_of(root, job, attempt))
        for job in (sorted(os.listdir(jobs)) if os.path.isdir(jobs) else [])
        for attempt in (numbers_in(f"{jobs}/{job}") if checked(job, a_job) else ())
    ]


def numbers_in(folder: str) -> list[int]:
    """Return the numbers of the attempts whose folders lie in that of a job."""
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return sorted(number for name in names if (number := number_of(name)) is not None)


def known_of(root: str, job: str) -> list[int]:
    """Return the attempts of a job that have folders or processes."""
    alive = [number for name, number in alive_below(root) if name == job]
    return sorted({*numbers_in(f"{root}/jobs/{job}"), *alive})


def running(root: str, wanted: Iterable[Key]) -> list[Known]:
    """Return the state of some attempts, and of all others that still run.

    However many there have been below a root, it costs no more than those and a look at the
    processes of this machine.
    """
    alive = alive_below(root)
    found = [probe(folder_of(root, *key)) for key in sorted({*wanted, *alive})]
    for known in found:
        if known.state in NO_END and (known.job, known.attempt) in alive:
            known.state = "running"
    return found


def pids_of(root: str, key: Key, parents: Mapping[int, int]) -> list[int]:
    """Return the processes of an attempt that runs, whatever their sessions.

    Args:
        root: where it is.
        key: its job and number.
        parents: the parent of each process of this machine.
    """
    folder = folder_of(root, *key)
    started = started_in(folder) if is_held(f"{folder}/lock") else None
    return [] if started is None else below(started.pid, parents)


def send(folder: str, order: Mapping[str, object]) -> bool:
    """Hand an order to the supervisor of an attempt; False if nobody takes it."""
    line = json.dumps(order).encode() + b"\n"
    return len(line) <= LINE_BYTES_MAX and tell(f"{folder}/orders", line)


def open_notices(root: str) -> int:
    """Return the FIFO through which supervisors say that there is something to read."""
    return fifo(f"{root}/notices")


def sweep(folder: str) -> int:
    """Kill what an attempt left without its supervisor; return how much there was.

    None were there and nobody has `ranks.lock` open: only then is the attempt really over. A
    supervisor whose folder was removed looks after its processes, and makes the folder anew.
    """
    root, job, number = attempt_of(folder)
    alive = alive_below(root).get((job, number), Alive([], []))
    if alive.supervisors:
        return len(alive.supervisors)
    group = checked((get(f"{folder}/started") or {}).get("cgroup"), PATH) or ""
    grouped = members(group) if group else ()
    left = [pid for pid in processes() if pid in grouped or pid in alive.marked]
    for pid in left:
        kill(pid, signal.SIGKILL)
    if group and not left:
        close_group(group)
    return len(left) or len(holders(folder))


def holders(folder: str) -> list[int]:
    """Return the processes of an attempt's user that have its `ranks.lock` open.

    No lock on it counts, since who has it open could give that up for all others. Whose the attempt
    was its channel tells or, where that was removed, the file that they have open.
    """
    path = os.path.realpath(f"{folder}/ranks.lock")
    mount = mount_of(folder.rpartition("/jobs/")[0])
    try:
        user = os.stat(f"{folder}/channel").st_uid
    except OSError:
        user = None
    found = []
    for pid in processes():
        started_by = real_user_of(pid)
        if user not in (None, started_by):
            continue
        held = [file for file in open_files(pid) if file.path == path and file.is_believed(mount)]
        if held if user is not None else any(file.owner() == started_by for file in held):
            found.append(pid)
    return found


def end_alone(root: str, job: str, attempt: int, term: int) -> bool:
    """End one attempt, whatever its number; return whether nothing of it runs.

    No fence is raised by it, and no record of it is read.
    """
    folder = folder_of(root, job, attempt)
    if is_held(f"{folder}/lock"):
        send(folder, {"do": "fence", "term": term})
    return remains(folder) == "lost"


def remains(folder: str) -> State:
    """Return whether an attempt runs or is lost; no record of it is read."""
    return "running" if is_held(f"{folder}/lock") or sweep(folder) else "lost"


# The mark of an attempt's processes: two variables that all their children inherit.
#
# `SHUNTER_FOLDER` is its folder, `SHUNTER_MARK` a seal with the user and the launch, made with a
# key that only the scheduler's user can read. A mark counts only on a process of that user which
# started after the launch, so a copied one does no harm. Supervisors are known by the lock that
# they hold, also where its file was removed.


class Alive(NamedTuple):
    """The processes of an attempt: its supervisors, and what carries its mark."""

    supervisors: list[int]
    marked: list[int]


def alive_below(root: str) -> dict[Key, Alive]:
    """Return what runs of the attempts below a root, with or without folders."""
    found: dict[Key, Alive] = {}
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


def _attempt_in(root: str, folder: str) -> Key | None:
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
    if started is None or started.boot != boot:
        return None
    try:
        owner = os.stat(f"{folder}/channel").st_uid
    except OSError:
        return None
    return owner, (started.started_ns + _asleep_ns()) // TICK_NS - 1


def started_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since the boot."""
    said = stat_of(pid)
    return int(said[19]) if len(said) > 19 else None


def _asleep_ns() -> int:
    """Return how long this machine has slept since its boot."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) - time.monotonic_ns()


def seal(root: str, folder: str, uid: int) -> str:
    """Return the seal of an attempt of which no process has started yet, if any."""
    key, since = seal_key(root), (time.monotonic_ns() + _asleep_ns()) // TICK_NS - 1
    return f"{uid}.{since}.{_digest(key, folder, uid, since, boot_id())}" if key else ""


def _digest(key: bytes, folder: str, uid: int, since: int, boot: str) -> str:
    said = f"{folder}\0{uid}\0{since}\0{boot}".encode("utf-8", "replace")
    return blake2b(said, key=key, digest_size=16).hexdigest()


def seal_key(root: str) -> bytes:
    """Return the key of a root; it is made when it is first asked for."""
    path = f"{root}/mark.key"
    key = _read_key(path)
    if not key:
        _make_key(path)
        key = _read_key(path)
    return key


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


# Which files a process has open. In namespaces of their own users have files of any name, and a
# setuid program is a process of root's with what they opened before. So a path counts only if it
# was opened through the mount that has this path here, or is the very file that lies there. A
# process is ours only if all of its user ids are.


class OpenFile(NamedTuple):
    """An open file of a process, by the path that the kernel tells, deleted or not."""

    pid: int
    number: str
    path: str
    is_deleted: bool

    def is_locked(self) -> bool:
        """Say whether it is locked for writing: not of one who only looks."""
        return any(line.startswith("lock:") and " WRITE " in line for line in self._about())

    def is_believed(self, mount: str) -> bool:
        """Say whether we would find it at its path, given the mount we look by."""
        if mount and mount == _mount_in(self._about()):
            return True
        try:
            found = os.stat(f"/proc/{self.pid}/fd/{self.number}")
            there = os.stat(self.path, follow_symlinks=False)
        except OSError:
            return False
        is_same = (found.st_dev, found.st_ino) == (there.st_dev, there.st_ino)
        return is_same and not self.is_deleted

    def owner(self) -> int:
        """Return whose file it is; -1 of one that was closed meanwhile."""
        try:
            return os.stat(f"/proc/{self.pid}/fd/{self.number}").st_uid
        except OSError:
            return -1

    def _about(self) -> list[str]:
        return _lines_in(f"/proc/{self.pid}/fdinfo/{self.number}")


def open_files(pid: int) -> Iterator[OpenFile]:
    """Yield what a process has open; of one that we may not look into, nothing."""
    folder = f"/proc/{pid}/fd"
    try:
        numbers = sorted(os.listdir(folder))
    except OSError:
        return
    for number in numbers:
        try:
            told = os.readlink(f"{folder}/{number}")
        except OSError:
            continue  # closed meanwhile
        path = told.rpartition(DELETED)[0] if told.endswith(DELETED) else told
        yield OpenFile(pid, number, path, path != told)


def mount_of(folder: str) -> str:
    """Return the mount by which a folder is found here; nothing if it is not told."""
    try:
        opened = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return _mount_in(_lines_in(f"/proc/self/fdinfo/{opened}"))
    finally:
        os.close(opened)


def _mount_in(about: list[str]) -> str:
    told = [line for line in about if line.startswith("mnt_id:")]
    return told[0].split()[1] if told else ""


def real_user_of(pid: int) -> int | None:
    """Return who started a process, whatever rights it has; None of one that is gone."""
    ids = _ids(str(pid))
    return ids[0] if ids else None


def is_ours(pid: int) -> bool:
    """Say whether a process has our own four user ids, and not just one."""
    ids = _ids(str(pid))
    return bool(ids) and ids == _ids("self")


def _ids(pid: str) -> list[int]:
    told = [line for line in _lines_in(f"/proc/{pid}/status") if line.startswith("Uid:")]
    return [int(each) for each in told[0].split()[1:5]] if told else []


def _lines_in(path: str) -> list[str]:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []
