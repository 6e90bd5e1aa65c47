"""The records of those that take turns on a server: see the folder's own words.

Only the standard library of Python 3.8 or later, as in supervisor.py.
"""

# Paths are strings, as in supervisor.py.
# ruff: noqa: PTH105, PTH108, PTH123, PTH208

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from shunter.backends.node.messages.attempt_records import GPU_MASK, a_job, number_of
from shunter.backends.node.messages.commands import (
    PACK_MOST,
    TIMETABLE,
    WEIGHT_LEAST,
    WEIGHT_MOST,
)
from shunter.backends.node.messages.shapes import (
    COUNT_MOST,
    a_flag,
    a_number,
    a_record,
    a_text,
    a_whole,
    checked,
    or_none,
)
from shunter.backends.node.records import create_private, get, open_regular, own_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shunter.backends.node.messages.wire import Shape, Slice, Turn

SLICE: Shape[Slice] = a_record(
    {
        "home": GPU_MASK,
        "weight": a_number(WEIGHT_LEAST, WEIGHT_MOST),
        "is_fixed": a_flag,
        "quantum_us": a_whole(1, COUNT_MOST),
        "wait_most_us": or_none(a_whole()),
        "boundary_most_us": a_whole(0, COUNT_MOST),
        "is_urgent": a_flag,
    },
    {"pack": a_text(PACK_MOST), "timetable": TIMETABLE, "joined_us": a_whole()},
)
TURN: Shape[Turn] = a_record({"number": a_whole(), "mask": GPU_MASK}, {"ends": a_whole()})


def slices_of(root: str, server: str) -> str:
    """Return where those lie that share the GPUs of a server; any name will do."""
    return f"{root}/slices/{server.encode().hex()}"


def put_member(slices: str, key: tuple[str, int], member: Slice) -> None:
    """Let an attempt take turns, or change how."""
    own_folder(slices)
    write(f"{slices}/{key[0]}.{key[1]}", dict(member))


def drop_member(slices: str, key: tuple[str, int]) -> None:
    """Let an attempt take no turns any more."""
    for path in (f"{slices}/{key[0]}.{key[1]}", _answer_of(slices, key)):
        with suppress(OSError):
            os.unlink(path)


def put_answer(slices: str, key: tuple[str, int], turn: Turn) -> None:
    """Tell who rotates how a turn stands, where its job writes nothing."""
    write(_answer_of(slices, key), dict(turn))


def answer_in(slices: str, key: tuple[str, int], folder: str) -> Turn:
    """Return the last answer; an older release writes it to its own folder."""
    return checked(get(_answer_of(slices, key)), TURN) or turn_in(folder)


def members_in(slices: str) -> dict[tuple[str, int], Slice]:
    """Return who takes turns, in order of their names; what is no record is left out."""
    found = {}
    try:
        names = sorted(os.listdir(slices))
    except OSError:
        return {}
    for name in names:
        key = _key_in(name)
        member = checked(get(f"{slices}/{name}"), SLICE) if key is not None else None
        if key is not None and member is not None and member["home"]:
            found[key] = member
    return found


def turn_in(folder: str) -> Turn:
    """Return the last order about turns that was carried out, and the GPUs."""
    return checked(get(f"{folder}/turn"), TURN) or {"number": 0, "mask": 0, "ends": 0}


def put_turn(folder: str, turn: Turn) -> None:
    """Say how the turn of an attempt stands, also to its job, whoever runs it."""
    write(f"{folder}/turn", dict(turn), mode=0o644)


def drop_turn(folder: str) -> None:
    """Take back what was said of an attempt's turn."""
    with suppress(OSError):
        os.unlink(f"{folder}/turn")


def name_rotating(lock: int, key: tuple[str, int]) -> None:
    """Write who rotates into the file that it holds locked."""
    with suppress(OSError):  # without it news is seen later
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{key[0]}.{key[1]}".encode(), 0)


def rotating_in(slices: str) -> tuple[str, int] | None:
    """Return who rotated last on a server, as far as it is known."""
    try:
        with open(open_regular(f"{slices}/lock"), "rb") as file:
            name = file.read(256).decode("utf-8", "replace")
    except OSError:
        return None
    return _key_in(name)


def used_in(slices: str) -> dict[str, float]:
    """Return the time that each had, as far as it is known."""
    found = get(f"{slices}/used") or {}
    return {
        name: float(used)
        for name, used in found.items()
        if isinstance(used, (int, float)) and abs(used) < COUNT_MOST
    }


def write(path: str, record: Mapping[str, object], mode: int = 0o600) -> None:
    """Write a record that need not outlive the machine: none of its processes does.

    Raises:
        OSError: it cannot be written; what was there before still is.
    """
    with create_private(f"{path}.new") as file:
        json.dump(record, file)
        os.fchmod(file.fileno(), mode)
    os.replace(f"{path}.new", path)


def _answer_of(slices: str, key: tuple[str, int]) -> str:
    return f"{slices}/{key[0]}.{key[1]}.answer"


def _key_in(name: str) -> tuple[str, int] | None:
    """Return the job and the number of an attempt, of a name made of both."""
    job, _, attempt = name.rpartition(".")
    number = number_of(attempt)
    return None if number is None or checked(job, a_job) is None else (job, number)
