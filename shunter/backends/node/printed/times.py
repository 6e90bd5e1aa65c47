"""When output was printed: beside each file of it another one that says how long it was when.

`stdout-times.0` belongs to `stdout.0`; its lines are `SECONDS BYTES`, by this host's wall clock: so
long was the file when it was looked at. There is a line for each look that found more, about one a
second at most, and of older ones ever fewer, so that there are never many. Only the standard
library of Python 3.8 or later, as in supervisor.py.
"""

# Paths are strings, as in supervisor.py.
# ruff: noqa: PTH105, PTH116

from __future__ import annotations

import os

from shunter.backends.node.printed.output import place_after_drop

LINES_MOST = 4096
STREAMS = ("stdout", "stderr")


class Times:
    """Keeps the times of all files of an attempt."""

    def __init__(self, folder: str, ranks: int) -> None:
        names = [(stream, number) for number in range(ranks) for stream in STREAMS]
        self._files = [
            (f"{folder}/{stream}.{number}", f"{folder}/{stream}-times.{number}")
            for stream, number in names
        ]
        self._lines: dict[str, list[tuple[int, int]]] = {path: [] for path, _ in self._files}

    def look(self, wall_s: float) -> None:
        """Note how long each file is now, if that has changed."""
        for path, times in self._files:
            lines = self._lines[path]
            try:
                size = os.stat(path).st_size
                if size == (lines[-1][1] if lines else 0):
                    continue
                lines.append((int(wall_s), size))
                if len(lines) > LINES_MOST:
                    lines[: LINES_MOST // 2] = lines[: LINES_MOST // 2 : 2]
                    _put_times(times, lines)
                else:
                    _add_time(times, lines[-1])
            except OSError:
                continue  # a full disk: the next look notes it

    def drop(self, path: str, dropped: int, most: int) -> None:
        """Hear that the middle of a file was dropped: what came after it has moved."""
        times = dict(self._files)[path]
        moved = [(at_s, place_after_drop(size, dropped, most)) for at_s, size in self._lines[path]]
        self._lines[path] = moved
        try:
            _put_times(times, moved)
        except OSError:
            return


def offset_at(times: bytes, since_s: float) -> int:
    """Return how long a file was at an instant, as its times say."""
    offset = 0
    for line in times.splitlines():
        at_s, _, size = line.partition(b" ")
        if not (at_s.isdigit() and size.isdigit()):
            continue  # the last one may be half written
        if int(at_s) + 1 <= since_s:  # whole seconds: it was looked at somewhere within that one
            offset = int(size)
    return offset


def _add_time(path: str, line: tuple[int, int]) -> None:
    _write_times(path, [line], os.O_APPEND)


def _put_times(path: str, lines: list[tuple[int, int]]) -> None:
    _write_times(f"{path}.new", lines, os.O_TRUNC)
    os.replace(f"{path}.new", path)


def _write_times(path: str, lines: list[tuple[int, int]], how: int) -> None:
    text = "".join(f"{at_s} {size}\n" for at_s, size in lines).encode()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | how, 0o600)
    try:
        os.write(file, text)
    finally:
        os.close(file)
