"""What a supervisor that runs is told to do, read from its FIFO and held to its shape.

Only the standard library of Python 3.8 or later, as in supervisor.py.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from shunter.backends.node.messages.attempt_records import GPU_MASK
from shunter.backends.node.messages.shapes import (
    WrongMessageError,
    a_list,
    a_number,
    a_record,
    a_text,
    a_whole,
    parsed,
)

if TYPE_CHECKING:
    from shunter.backends.node.messages.wire import Command, Shape

WEIGHT_LEAST, WEIGHT_MOST = 1e-6, 1e6
PACK_MOST = 256
SERVER_MOST = 1024
TIMETABLE = a_list(a_whole(), 3)
COMMAND: Shape[Command] = a_record(
    {"do": a_text(16)},
    {
        "term": a_whole(),
        "mode": a_text(16),
        "upto": a_whole(),
        "mask": GPU_MASK,
        "number": a_whole(),
        "weight": a_number(WEIGHT_LEAST, WEIGHT_MOST),
        "pack": a_text(PACK_MOST),
        "timetable": TIMETABLE,
        "server": a_text(SERVER_MOST),
        "until": a_whole(),
    },
)


def commands_in(fifo: int) -> list[Command]:
    """Return the orders that lie in a FIFO; what is none is dropped."""
    try:
        lines = os.read(fifo, 1 << 16).splitlines()
    except BlockingIOError:
        return []
    found = []
    for line in lines:
        with suppress(WrongMessageError, RecursionError):
            found.append(COMMAND(parsed(line)))
    return found
