"""Which files a process has open, as far as its user cannot shape what the kernel tells of it.

In namespaces of their own users have files of any name, and a program with the setuid bit is a
process of root's that they started, with what they opened before. So a path counts only if the file
was opened through the mount that has this path here, in whose folders nobody but us makes names; or
if it is the very file that lies there, for one who mounts anew (a service with a private /tmp that
was restarted). A process counts as ours by all of its user ids. Only the standard library of Python
3.8 or later, as in supervisor.py.
"""

# Paths are strings, as in supervisor.py.
# ruff: noqa: PTH115, PTH116, PTH123, PTH208

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

DELETED = " (deleted)"


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
        return _told_in(f"/proc/{self.pid}/fdinfo/{self.number}")


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
        return _mount_in(_told_in(f"/proc/self/fdinfo/{opened}"))
    finally:
        os.close(opened)


def real_user_of(pid: int) -> int | None:
    """Return who started a process, whatever rights it has; None of one that is gone."""
    ids = _ids(str(pid))
    return ids[0] if ids else None


def is_ours(pid: int) -> bool:
    """Say whether a process has our own four user ids, and not just one."""
    ids = _ids(str(pid))
    return bool(ids) and ids == _ids("self")


def _ids(pid: str) -> list[int]:
    told = [line for line in _told_in(f"/proc/{pid}/status") if line.startswith("Uid:")]
    return [int(each) for each in told[0].split()[1:5]] if told else []


def _mount_in(about: list[str]) -> str:
    told = [line for line in about if line.startswith("mnt_id:")]
    return told[0].split()[1] if told else ""


def _told_in(path: str) -> list[str]:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []
