"""Whose a node is: one scheduler owns its folder at a time, and keeps it while it is alive.

The file `owner` names the cluster, its term and the scheduler; a flock that each session holds
(`session.lock`) says that its scheduler is there, and a heartbeat that it is alive.
"""

from __future__ import annotations

import fcntl
import os
import platform
import time
from typing import TYPE_CHECKING

from shunter.backends.node.attempts import inventory, is_held
from shunter.backends.node.messages import ClaimRefused
from shunter.backends.node.records import get, hold, make_folder, own_folder, put

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shunter.backends.node.messages import Claim

NETWORKED = ("nfs", "nfs4", "lustre", "ceph", "beegfs", "gpfs", "glusterfs", "cifs", "fuse.sshfs")
OWNED_S = 60.0
LEAVE_TRIES = 20


def base_of(base: str, mounts: str = "/proc/mounts") -> str:
    """Return a node's own folder: its name, below one that others have too.

    Where homes lie on a network file system, all hosts have the same. A lock or a sign of life of
    one must not be taken for another's.
    """
    return f"{base}/{platform.node()}" if is_networked(base, mounts) else base


def is_networked(path: str, mounts: str = "/proc/mounts") -> bool:
    """Say whether a folder lies on a network file system."""
    kind, longest = "", ""
    try:
        with open(mounts, encoding="utf-8", errors="replace") as file:
            for line in file:
                _, point, of, *_ = line.split()
                if f"{path}/".startswith(f"{point.rstrip('/')}/") and len(point) >= len(longest):
                    kind, longest = of, point
    except (OSError, ValueError):
        return False
    return kind in NETWORKED


def taken(base: str, claim: Claim) -> tuple[ClaimRefused | None, int]:
    """Take a node for a scheduler, unless it is another's.

    Returns:
        why not, or None; and the file whose flock is to be held as long as the scheduler is there,
        or -1.
    """
    make_folder(base)
    held = hold(f"{base}/owner.lock", fcntl.LOCK_EX)
    assert held is not None, "a lock that waits was refused"
    try:
        owner = get(f"{base}/owner") or {}
        refusal = _refused(base, owner, claim)
        if refusal:
            return refusal, -1
        mine = {
            "cluster": claim.cluster,
            "term": claim.term,
            "holder": claim.holder,
            "node": claim.node,
        }
        if owner != mine:
            put(f"{base}/owner", mine)
        root = f"{base}/clusters/{claim.cluster}"
        for each in (base, f"{base}/clusters", root, f"{root}/jobs"):
            own_folder(each)
        # Before anybody else can claim: an owner of whom there is no sign is taken for dead.
        session = hold(f"{root}/session.lock", fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None, -1 if session is None else session
    finally:
        os.close(held)


def _refused(base: str, owner: Mapping[str, object], claim: Claim) -> ClaimRefused | None:
    """Return why a node cannot be claimed; None if it can."""
    if not owner:
        return None
    if owner.get("cluster") == claim.cluster:
        term = owner["term"]
        if not isinstance(term, int):
            raise ValueError(f"{base}/owner names no term")
        if term > claim.term:
            return ClaimRefused(refused="replaced", cause=f"term {term} rules here")
        if term == claim.term and owner["holder"] != claim.holder:
            cause = "a scheduler with a copy of this log rules here"
            return ClaimRefused(refused="taken", cause=cause)
        if term == claim.term and owner["node"] != claim.node:
            cause = f"{base} is the folder of {owner['node']} too: name another, base = PATH"
            return ClaimRefused(refused="shared", cause=cause)
        return None
    root = f"{base}/clusters/{owner.get('cluster')}"
    if not inventory(root) and _is_left(root) and not inventory(root):  # it may have begun since
        return None  # it died before it committed anything: nobody will ever bear its name again
    silent_s = silence_s(f"{root}/heartbeat")
    if silent_s is None:
        return None
    if silent_s <= OWNED_S or any(is_held(f"{each.folder}/lock") for each in inventory(root)):
        cause = f"the cluster {owner.get('cluster')} rules here"
        return ClaimRefused(refused="taken", cause=cause)
    return None


def _is_left(root: str) -> bool:
    """Say whether nobody talks of a cluster; one who leaves may take a moment."""
    for _ in range(LEAVE_TRIES):
        held = hold(f"{root}/session.lock", fcntl.LOCK_EX | fcntl.LOCK_NB)
        if held is not None:
            os.close(held)
            return True
        time.sleep(0.1)
    return False


# A scheduler's sign of life. The file holds the instant for which it was written, so a sign that
# was late is as old as it is. The clock counts from the boot, through sleep; the wall clock is not
# used. A remote scheduler's deadline counts from when it sent, a local one's from when it was seen.

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Heartbeat:
    """What a supervisor knows of its scheduler's life."""

    def __init__(self, path: str, deadline_s: float, *, is_remote: bool) -> None:
        self._path = path
        self._deadline_ns = int(deadline_s * 1e9)
        self._is_remote = is_remote
        self._moved = -1
        self._beat_ns = 0

    def is_over(self) -> bool:
        """Say whether the last sign is too old; the first time, count from now."""
        now_ns = uptime_ns() if self._is_remote else time.monotonic_ns()
        moved = _moved_ns(self._path)
        if moved not in (-1, self._moved):
            self._moved = moved
            told_ns = _sent_ns(self._path) if self._is_remote else None
            # One that cannot be read, or is of an earlier boot, counts from its being seen.
            self._beat_ns = max(self._beat_ns, now_ns if told_ns is None else min(told_ns, now_ns))
        self._beat_ns = self._beat_ns or now_ns
        return now_ns - self._beat_ns > self._deadline_ns


def write_beat(path: str, for_ns: int | None = None) -> None:
    """Move a heartbeat; not synced, since it means nothing after a crash.

    Args:
        path: its file.
        for_ns: the uptime at which it was asked for; now, if that is not said or is yet to come.
    """
    now_ns = uptime_ns()
    line = f"{now_ns if for_ns is None else min(for_ns, now_ns):020}\n".encode()
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.pwrite(file, line, 0)  # in its place, for which a full disk has room
        finally:
            os.close(file)
    except OSError:
        if os.path.exists(path):
            os.utime(path)  # a full disk after all, which has room for the time of a change


def silence_s(path: str) -> float | None:
    """Return how old the last sign is, in seconds; None if there never was one."""
    if _moved_ns(path) == -1:
        return None
    now_ns, told_ns = uptime_ns(), _sent_ns(path)
    if told_ns is None:
        return 0.0
    # One that is yet to come is of an earlier boot: in this one there was none.
    return (now_ns - told_ns if told_ns <= now_ns else now_ns) / 1e9


def uptime_ns() -> int:
    """Return how long ago this machine was booted, in ns, its sleep included."""
    return time.clock_gettime_ns(_CLOCK)


def _moved_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return -1


def _sent_ns(path: str) -> int | None:
    """Return the instant that a sign tells; None if it is unreadable."""
    try:
        with open(path, "rb") as file:
            return int(file.read(64))
    except (OSError, ValueError):
        return None
