"""What a rank printed: a bound on how much of it is kept, and the speed that a progress bar tells.

Only the standard library of Python 3.8 or later, as in supervisor.py.
"""

# Paths are strings, as in supervisor.py.
# ruff: noqa: PTH116, PTH123

from __future__ import annotations

import os
import re
from io import FileIO

from shunter.backends.node.messages.channel import BATCH_S_MOST
from shunter.backends.node.records import open_regular

_PIECE_BYTES = 1 << 20
_LINE_BYTES = 1 << 16
"""How far the beginning of a line is looked for; bars of progress are drawn without one."""

LOOK_BYTES = 4096
STEP_DIGITS_MOST = 15
_BAR = re.compile(rb"(?:(\d+)/\d+ \[[^\]\r\n]*?)?\b(\d+(?:\.\d+)?)(it/s|s/it)\b")


def bound(path: str, most: int) -> int:
    """Drop the middle of what was printed beyond a bound; return how much.

    The first quarter of the bound and the last half of it stay, with a line between them that says
    what is missing: so three quarters of it are there at any time after. What is printed meanwhile
    is kept too.
    """
    try:
        if os.stat(path).st_size <= most:
            return 0
        with open(path, "r+b", buffering=0) as file:
            return _drop_middle(file, most)
    except OSError:
        return 0


def _drop_middle(file: FileIO, most: int) -> int:
    """Move the end of a file up to its beginning; return how much was between them.

    It is moved in place, in pieces: memory stays small, and whoever appends goes on. The line that
    says what is missing is written last, once that is known, into the room left for it.
    """
    head, size = _head(most), file.seek(0, os.SEEK_END)
    begins = _begin_of_line(file, size - most // 2)
    room = len(_mark(begins - head, most))
    read_at, write_at = begins, head + room
    while read_at < size + most:  # not for ever after a job that prints as fast as this reads
        piece = os.pread(file.fileno(), _PIECE_BYTES, read_at)
        if not piece:
            break
        read_at += len(piece)
        write_at += os.pwrite(file.fileno(), piece, write_at)
    os.pwrite(file.fileno(), _mark(begins - head, most), head)
    file.truncate(write_at)
    return begins - head


def _begin_of_line(file: FileIO, offset: int) -> int:
    """Return where the next line begins; where none does soon, the next letter."""
    near = os.pread(file.fileno(), _LINE_BYTES, offset)
    end = near.find(b"\n") + 1
    if end:
        return offset + end
    return offset + next((place for place, byte in enumerate(near[:4]) if byte & 0xC0 != 0x80), 0)


def place_after_drop(offset: int, dropped: int, most: int) -> int:
    """Return where in a file what was at an offset stands, or would, after a drop."""
    head = _head(most)
    if offset <= head:
        return offset
    return max(head, offset - dropped + len(_mark(dropped, most)))


def piece_of(path: str, offset: int, size: int) -> tuple[bytes, int | None]:
    """Return a piece of a file, and how long that is; None: there is none."""
    try:
        with open(open_regular(path), "rb") as file:
            file.seek(offset)
            return file.read(size), os.fstat(file.fileno()).st_size
    except OSError:
        return b"", None


def printed_speed(path: str) -> tuple[int | None, float | None]:
    """Return the last step and mini-batch seconds that a progress bar shows.

    None stands for what is absent. Read is what tqdm and its like print, such as
    `450/1000 [00:10<00:12, 43.2it/s]`, or `2.31s/it` where a step takes longer than a second. Bars
    are drawn over themselves, so the last one counts. It is a guess: a bar over files or an
    evaluation looks the same.
    """
    found = list(_BAR.finditer(_end(path)))
    if not found:
        return None, None
    step, number, unit = found[-1].groups()
    rate = float(number)
    batch_s = rate if unit == b"s/it" or not rate else 1 / rate
    if not 0 < batch_s <= BATCH_S_MOST:
        return None, None
    is_step = step is not None and len(step) <= STEP_DIGITS_MOST
    return int(step) if is_step else None, round(batch_s, 9)


def _head(most: int) -> int:
    """Return how much of the beginning is kept."""
    return most // 4


def _mark(dropped: int, most: int) -> bytes:
    line = f"\nshunter: {dropped} bytes of output dropped here, a file may hold {most}\n"
    return line.encode()


def _end(path: str) -> bytes:
    """Return the end of a file, whatever its length; empty where it cannot be read."""
    try:
        with open(open_regular(path), "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LOOK_BYTES))
            return file.read()
    except OSError:
        return b""
