"""The folder of a job's checkpoints, as each attempt of the job finds it.

What carries checkpoints from one server to another is checkpoint_transfer.py. An agent does not
load that: it needs threads, and a fork takes longer in a process that has `threading`.
"""

from __future__ import annotations

import fcntl
import os
import time
from typing import TYPE_CHECKING

from shunter.backends.node.records import hold, make_folder

if TYPE_CHECKING:
    from shunter.backends.node.messages import User

WAIT_S = 2.0


def open_checkpoints(folder: str, user: User | None) -> None:
    """Make the folder of a job's checkpoints for an attempt that begins.

    Raises:
        OSError: a transfer into it has not ended.
    """
    until_s = time.monotonic() + WAIT_S
    while True:
        held = hold(f"{folder}.lock", fcntl.LOCK_SH | fcntl.LOCK_NB)
        if held is not None:
            break
        if time.monotonic() > until_s:
            raise BlockingIOError("its checkpoints are still arriving on this host")
        time.sleep(0.02)
    try:
        finish_swap(folder)
        if not os.path.lexists(folder):
            make_private(folder, user)
        whole = record_of(folder, "whole")
        if os.path.exists(whole):
            os.rename(whole, record_of(folder, "received"))
    finally:
        os.close(held)


def open_shared_checkpoints(folder: str, user: User | None) -> None:
    """Make the folder of a job's checkpoints in one that nodes share.

    Others may write to the shared folder, so what is there must be what we would have made.

    Raises:
        OSError: it is somebody else's, or a link.
    """
    base, cluster, job = folder.rsplit("/", 2)
    make_folder(base)
    top = os.open(base, os.O_RDONLY | os.O_DIRECTORY)
    try:
        inner = _open_inner(top, cluster, 0o711, None)
        try:
            os.close(_open_inner(inner, job, 0o700, user))
        finally:
            os.close(inner)
    finally:
        os.close(top)


def _open_inner(top: int, name: str, mode: int, user: User | None) -> int:
    """Open a user's folder in an open one, and make it if there is none."""
    is_new = True
    try:
        os.mkdir(name, mode, dir_fd=top)
    except FileExistsError:
        is_new = False
    folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
    found, us = os.fstat(folder), os.geteuid()
    expected = us if user is None or is_new else user.uid
    if found.st_uid != expected:
        os.close(folder)
        raise PermissionError(f"the folder {name} for checkpoints is user {found.st_uid}'s")
    if is_new:
        os.fchmod(folder, mode)
        if user is not None:
            os.fchown(folder, user.uid, user.gid)
    elif expected == us and found.st_mode & 0o022:
        os.fchmod(folder, found.st_mode & 0o755)
    return folder


def make_private(folder: str, user: User | None) -> None:
    """Make a folder that is its user's alone, in one where only we make any."""
    os.mkdir(folder, 0o700)
    if user is not None:
        os.chown(folder, user.uid, user.gid, follow_symlinks=False)


def finish_swap(folder: str) -> None:
    """Put back what a transfer had set aside when it was interrupted."""
    if not os.path.lexists(folder) and os.path.lexists(f"{folder}.old"):
        os.rename(f"{folder}.old", folder)


def record_of(folder: str, kind: str) -> str:
    """Return where a record about a folder that is there lies."""
    return f"{folder}.{kind}.{os.lstat(folder).st_ino}"
