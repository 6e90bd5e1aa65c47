"""A job's checkpoints as they leave one node and arrive on another.

    python3 -I -S FILE manifest FOLDER NONCE            every file, with size and digest
    python3 -I -S FILE clear FOLDER NONCE               drop what earlier parcels left unfinished
    python3 -I -S FILE receive FOLDER NONCE < PARCEL    put what came in the place of what was there

One that asked may be gone while what it asked for still works. So both hold a lock, and a parcel of
which the pieces have been cleared away is none any more: it must not replace what came after it.

A parcel is {"incoming", "user", "files": [{"path", "size", "digest", "mode", "link", "number"}]}: a
file with a number lies under it in the folder `incoming`, one without is there already. All is
checked before anything is replaced; the folder changes as a whole. Only the standard library of
Python 3.8 or later.
"""

# Paths are strings, as in supervisor.py.
# ruff: noqa: PTH101, PTH103, PTH104, PTH110, PTH112, PTH114, PTH115, PTH116, PTH118
# ruff: noqa: PTH120, PTH123, PTH208, PTH211

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pwd
import shutil
import stat
import sys
from typing import Any

from shunter.backends.node.records import hold

PIECE_BYTES = 1 << 20


def manifest(folder: str, nonce: str) -> dict[str, Any]:
    """Return every file and link below a folder, by path; none if there is no folder."""
    files = []
    for where, names, others in os.walk(folder):
        names.sort()
        for name in sorted(others) + [one for one in names if os.path.islink(f"{where}/{one}")]:
            path = f"{where}/{name}"
            found = _described(path)
            if found is not None:
                files.append({"path": os.path.relpath(path, folder), **found})
    return _marked(nonce, {"files": files})


def receive(folder: str, nonce: str) -> dict[str, Any]:
    """Make a folder hold what a parcel on stdin says, or change nothing and say why."""
    parcel = json.load(sys.stdin)
    new, old = f"{folder}.new", f"{folder}.old"
    _hold_alone(folder)
    if not os.path.isdir(parcel["incoming"]):
        return _marked(nonce, {"error": "the pieces have been cleared away: it came too late"})
    _undo_unfinished(folder)
    os.makedirs(new, 0o700)
    for file in parcel["files"]:
        cause = _placed(folder, new, parcel["incoming"], file)
        if cause:
            _drop_pieces(folder)
            return _marked(nonce, {"error": f"{file['path']}: {cause}"})
    _give(new, parcel["user"])
    if os.path.exists(folder):
        os.rename(folder, old)
    os.rename(new, folder)
    _drop_pieces(folder)
    return _marked(nonce, {"files": len(parcel["files"])})


def clear(folder: str, nonce: str) -> dict[str, Any]:
    """Drop what parcels left that were cut off, once none is taken in."""
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    _hold_alone(folder)
    _undo_unfinished(folder)
    _drop_pieces(folder)
    return _marked(nonce, {"cleared": True})


def _hold_alone(folder: str) -> None:
    """Wait until nobody else changes a folder; keep others out from then on."""
    held = hold(f"{folder}.lock", fcntl.LOCK_EX)
    assert held is not None, "a lock that waits was refused"


def _undo_unfinished(folder: str) -> None:
    new, old = f"{folder}.new", f"{folder}.old"
    if os.path.isdir(old) and not os.path.exists(folder):
        os.rename(old, folder)  # the last one was interrupted between its two renames
    for left in (new, old):
        shutil.rmtree(left, ignore_errors=True)


def _drop_pieces(folder: str) -> None:
    for left in (f"{folder}.new", f"{folder}.old"):
        shutil.rmtree(left, ignore_errors=True)
    where, _, name = folder.rpartition("/")
    for left in sorted(os.listdir(where)):
        if left.startswith(f"{name}.incoming."):
            shutil.rmtree(f"{where}/{left}", ignore_errors=True)


def _described(path: str) -> dict[str, Any] | None:
    """Return what a file is; None if it is none that a checkpoint has."""
    found = os.lstat(path)
    if stat.S_ISLNK(found.st_mode):
        return {"size": 0, "digest": "", "mode": 0, "link": os.readlink(path)}
    if not stat.S_ISREG(found.st_mode):
        return None
    mode = stat.S_IMODE(found.st_mode)
    return {"size": found.st_size, "digest": digest_of(path), "mode": mode, "link": ""}


def digest_of(path: str) -> str:
    """Return the SHA-256 of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(PIECE_BYTES), b""):
            digest.update(piece)
    return digest.hexdigest()


def _placed(folder: str, new: str, incoming: str, file: dict[str, Any]) -> str:
    """Put one file into its place; return why it cannot be, or nothing."""
    target = os.path.join(new, file["path"])
    if not os.path.abspath(target).startswith(f"{new}/"):  # noqa: PTH100 nothing is resolved here
        return "its path leads out of the folder"
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if file["link"]:
        os.symlink(file["link"], target)
        return ""
    source = f"{folder}/{file['path']}"
    if file["number"] is not None:
        source = f"{incoming}/{file['number']}"
        if os.stat(source).st_size != file["size"]:
            return f"expected {file['size']} bytes, and {os.stat(source).st_size} came"
        if digest_of(source) != file["digest"]:
            return "other bytes came than were sent"
        os.chmod(source, file["mode"])
    os.link(source, target)
    return ""


def _give(folder: str, user: str) -> None:
    if not user or os.geteuid() != 0:
        return
    who = pwd.getpwnam(user)
    for where, _, names in os.walk(folder):
        for path in [where, *(f"{where}/{name}" for name in names)]:
            os.lchown(path, who.pw_uid, who.pw_gid)


def _marked(nonce: str, found: dict[str, Any]) -> dict[str, Any]:
    """Set the answer apart from what a shell has printed before it."""
    sys.stdout.write(f"\n{nonce} ")
    return found
