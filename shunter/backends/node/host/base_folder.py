"""The folder of a scheduler on a node: nobody else may put anything there, or swap it.

What lies in it is run with the rights of who logs in, root as often as not. So it and every folder
above it must be root's or our own, and no one else's to write: in a folder where all may make files
(one with the sticky bit) only one that is ours already counts. This is looked at before the first
byte is written, by a program that comes over stdin and is itself no file there:

    python3 -I -S -c 'exec SIZE BYTES OF STDIN' SIZE install BASE DIGEST NONCE < PROGRAM CONTENT

`install` answers {"path"}, {"unsafe": why}, {"cut": bytes that came} or {"error": why}. A content
of another digest is written nowhere: who sent it was killed halfway, or a shell read of it, and
what lies there may be whole. The source here is that program (see backends/live/ssh.py), so it
imports nothing of ours. Only the standard library of Python 3.8 or later.
"""

from __future__ import annotations

import grp
import json
import os
import pwd
import stat
import sys
import time
from hashlib import sha256

LINKS_MAX = 40


def install(base: str, digest: str, nonce: str) -> None:
    """Have the rest of stdin as a file in the folder, and say where, or why not."""
    content = sys.stdin.buffer.read()
    base = os.path.abspath(os.path.expanduser(base))
    try:
        cause = unsafe(base) or _made(base)
        found: dict[str, str | int]
        if cause:
            found = {"unsafe": cause}
        elif not sha256(content).hexdigest().startswith(digest):
            found = {"cut": len(content)}
        else:
            path = f"{base}/shunter-{digest}.pyz"
            if not _is_ours(path, content):
                _write_whole(path, content)
            found = {"path": path}
    except OSError as error:
        found = {"error": f"{base}: {error.strerror or error}"}
    sys.stdout.write(f"\n{nonce} {json.dumps(found)}\n")


def unsafe(path: str) -> str:
    """Return why others could decide what lies at a path; nothing if they cannot."""
    todo, here, links = _names_in(path), "/", 0
    cause = _open_to_others("/", is_last=not todo)
    while todo and not cause:
        name = todo.pop(0)
        if name == "..":
            here = os.path.dirname(here)
            continue
        inner = os.path.join(here, name)
        try:
            found = os.lstat(inner)
        except FileNotFoundError:
            return ""
        if not stat.S_ISLNK(found.st_mode):
            here, cause = inner, _open_to_others(inner, is_last=not todo)
            continue
        links += 1
        if found.st_uid not in (0, os.geteuid()) or links > LINKS_MAX:
            return f"{inner} is a link of {_name_of(found.st_uid)}'s"
        to = os.readlink(inner)
        here, todo = "/" if to.startswith("/") else here, [*_names_in(to), *todo]
    return cause


def _made(base: str) -> str:
    """Make a folder and what lacks above it; return how others could write to it.

    Users of jobs pass through these folders, and neither list them nor write to them.
    """
    os.umask(0o066)
    os.makedirs(base, exist_ok=True)
    return unsafe(base)  # a default ACL counts, and the umask then does not


def _names_in(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _open_to_others(path: str, *, is_last: bool) -> str:
    """Return how others could change what lies in a folder."""
    found = os.lstat(path)
    mode = stat.S_IMODE(found.st_mode)
    if not stat.S_ISDIR(found.st_mode):
        return f"{path} is no folder"
    if found.st_uid not in (0, os.geteuid()):
        return f"{path} belongs to {_name_of(found.st_uid)}"
    if mode & stat.S_ISVTX and not is_last:
        return ""  # what is in it can be replaced by its owner only
    if mode & stat.S_IWOTH:
        return f"everybody may write to {path} (mode {mode:04o})"
    if mode & stat.S_IWGRP and not _is_of_one(found.st_gid, found.st_uid):
        return f"the group {_group_of(found.st_gid)} may write to {path} (mode {mode:04o})"
    return ""


def _is_of_one(gid: int, uid: int) -> bool:
    """Say whether a group is that of one user, as many systems give to each."""
    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(uid)
    except KeyError:
        return False
    return group.gr_name == user.pw_name and not set(group.gr_mem) - {user.pw_name}


def _name_of(uid: int) -> str:
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"


def _group_of(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _is_ours(path: str, content: bytes) -> bool:
    """Say whether a file has this content, and nobody else may change it."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    with open(file, "rb") as opened_file:
        found = os.fstat(file)
        is_safe = found.st_uid in (0, os.geteuid()) and not found.st_mode & 0o022
        return stat.S_ISREG(found.st_mode) and is_safe and opened_file.read() == content


def _write_whole(path: str, content: bytes) -> None:
    """Write a file under a name of its own, sync it, and rename it."""
    temporary = f"{path}.{os.getpid()}.{time.monotonic_ns()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with open(os.open(temporary, flags, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        raise
