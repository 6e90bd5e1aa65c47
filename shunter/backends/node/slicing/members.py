"""The records of those that take turns on a server: see the folder's own words.

Only the standard library of Python 3.8 or later, as in supervisor.py.
"""

# Paths are strings, as in supervisor.py.
# ruff: noqa: PTH105, PTH108, PTH208

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from shunter.backends.node.messages.attempt_records import GPU_MASK, a_job, number_of
from shunter.backends.node.messages.shapes import (
    COUNT_MOST,
    a_flag,
    a_number,
    a_record,
    a_whole,
    checked,
    or_none,
)
from shunter.backends.node.records import create_private, get, own_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shunter.backends.node.messages.wire import Shape, Slice, Turn

WEIGHT_LEAST, WEIGHT_MOST = 1e-6, 1e6
SLICE: Shape[Slice] = a_record(
    {
        "home": GPU_MASK,
        "weight": a_number(WEIGHT_LEAST, WEIGHT_MOST),
        "is_fixed": a_flag,
        "quantum_us": a_whole(1, COUNT_MOST),
        "wait_most_us": or_none(a_whole()),
        "is_urgent": a_flag,
    }
)
TURN: Shape[Turn] = a_record({"number": a_whole(), "mask": GPU_MASK})


def slices_of(root: str, server: str) -> str:
    """Return where those lie that share the GPUs of a server; any name will do."""
    return f"{root}/slices/{server.encode().hex()}"


def put_member(slices: str, key: tuple[str, int], member: Slice) -> None:
    """Let an attempt take turns, or change how."""
    own_folder(slices)
    write(f"{slices}/{key[0]}.{key[1]}", dict(member))


def drop_member(slices: str, key: tuple[str, int]) -> None:
    """Let an attempt take no turns any more."""
    with suppress(OSError):
        os.unlink(f"{slices}/{key[0]}.{key[1]}")


def members_in(slices: str) -> dict[tuple[str, int], Slice]:
    """Return who takes turns, in order of their names; what is no record is left out."""
    found = {}
    try:
        names = sorted(os.listdir(slices))
    except OSError:
        return {}
    for name in names:
        job, _, attempt = name.rpartition(".")
        number = number_of(attempt)
        if number is None or checked(job, a_job) is None:
            continue
        member = checked(get(f"{slices}/{name}"), SLICE)
        if member is not None and member["home"]:
            found[job, number] = member
    return found


def turn_in(folder: str) -> Turn:
    """Return the last order about turns that an attempt has carried out."""
    return checked(get(f"{folder}/turn"), TURN) or {"number": 0, "mask": 0}


def used_in(slices: str) -> dict[str, float]:
    """Return the time that each had, as far as it is known."""
    found = get(f"{slices}/used") or {}
    return {
        name: float(used)
        for name, used in found.items()
        if isinstance(used, (int, float)) and abs(used) < COUNT_MOST
    }


def write(path: str, record: Mapping[str, object]) -> None:
    """Write a record that need not outlive the machine: none of its processes does."""
    with create_private(f"{path}.new") as file:
        json.dump(record, file)
    os.replace(f"{path}.new", path)
