"""Whose an attempt is that a batch system starts: who makes its claim first, and nobody else.

Slurm may start a job twice, or long after everybody believed that it never took it. So the first
act of its script is to make the file `claim` in the attempt's folder, which the file system lets
one make only. A scheduler that wants an attempt never to begin makes the claim itself. The claim is
linked into its place, whole, which is atomic over NFS too.

    order       what is to be run, as a supervisor is told it; only we can read it
    claim       who has it: a batch job, or a scheduler that withdrew it
    refusal     why its supervisor did not begin
    commands    a line each: orders to its supervisor, which may be on another node
    leaving     the signal by which Slurm told it to end, if it did, and when

Only the standard library of Python 3.8 or later, as in supervisor.py.
"""

# Paths are strings, as in supervisor.py.
# ruff: noqa: PTH108, PTH110, PTH116, PTH123

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from shunter.backends.node.records import LINE_BYTES_MAX, create_private, get, put

if TYPE_CHECKING:
    from collections.abc import Mapping

WITHDRAWN = "scheduler"
BEGUN = "batch"


def take_claim(folder: str, by: str, **about: object) -> bool:
    """Take an attempt, for good; False if somebody has it.

    Raises:
        OSError: the folder is gone, or cannot be written.
    """
    fresh = f"{folder}/claim.{os.urandom(8).hex()}"
    with create_private(fresh) as file:
        json.dump({"by": by, **about}, file)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(fresh, f"{folder}/claim")
    except FileExistsError:
        return False
    except OSError:
        # A lost answer of a file server: the link may be there all the same.
        if os.stat(fresh).st_nlink != 2:
            raise
    finally:
        os.unlink(fresh)
    return True


def begun_at(folder: str) -> tuple[int, int] | None:
    """Return when a batch job has claimed an attempt, by both clocks of its node.

    That is in nanoseconds since 1970, and of the monotonic clock; None: not known.
    """
    claim = get(f"{folder}/claim") or {}
    wall_ns, at_ns = claim.get("wall_ns"), claim.get("at_ns")
    if not isinstance(wall_ns, int) or not isinstance(at_ns, int):
        return None
    return wall_ns, at_ns


def claimed_by(folder: str) -> str:
    """Return who has an attempt: `BEGUN`, `WITHDRAWN`, or nobody."""
    if not os.path.exists(f"{folder}/claim"):
        return ""
    return WITHDRAWN if (get(f"{folder}/claim") or {}).get("by") == WITHDRAWN else BEGUN


def withdraw(folder: str) -> bool:
    """Let an attempt never begin; False if it has, or may have."""
    if take_claim(folder, WITHDRAWN):
        with suppress(OSError):  # values in it are secrets, and nobody will need them
            os.unlink(f"{folder}/order")
        return True
    return claimed_by(folder) == WITHDRAWN


def add_command(folder: str, command: Mapping[str, object]) -> None:
    """Add an order for the supervisor of an attempt.

    Raises:
        OSError: it cannot be written.
    """
    line = json.dumps(command).encode() + b"\n"
    assert len(line) <= LINE_BYTES_MAX, "a supervisor reads no longer lines"
    file = os.open(f"{folder}/commands", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, line)
        os.fsync(file)
    finally:
        os.close(file)


def note_leaving(folder: str, by: str) -> None:
    """Note the signal by which the batch system told an attempt to end."""
    with suppress(OSError):  # a full disk: what it has yet to save is more urgent
        put(f"{folder}/leaving", {"signal": by, "wall_ns": time.time_ns()})


def told_to_leave_by(folder: str) -> tuple[str, float | None]:
    """Return the signal that told an attempt to end, nothing if none did, and when.

    That is in seconds since 1970; None: not known.
    """
    found = get(f"{folder}/leaving") or {}
    wall_ns = found.get("wall_ns")
    return str(found.get("signal", "")), wall_ns / 1e9 if isinstance(wall_ns, int) else None


def commands_after(folder: str, offset: int) -> list[bytes]:
    """Return the whole lines of commands from an offset on, with their ends."""
    try:
        with open(f"{folder}/commands", "rb") as file:
            file.seek(offset)
            return [line for line in file.read().splitlines(keepends=True) if line.endswith(b"\n")]
    except OSError:
        return []
