"""What ranks print: a bound on how much of it is kept, and when it was printed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from io import FileIO
from typing import NamedTuple

from shunter.backends.node.records import libc, open_regular

STREAMS = ("stdout", "stderr")
_PIECE_BYTES = 1 << 20
_LINE_BYTES = 1 << 16
"""How far the beginning of a line is looked for; bars of progress are drawn without one."""
LINES_MOST = 4096
STRETCH_MS = 1000
PAUSE_S = 0.05
_IN_MODIFY = 0x2
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
_READ_BYTES = 1 << 16


def piece_of(path: str, offset: int, size: int) -> tuple[bytes, int | None]:
    """Return a piece of a file, and how long that is; None: there is none."""
    try:
        with open(open_regular(path), "rb") as file:
            file.seek(offset)
            return file.read(size), os.fstat(file.fileno()).st_size
    except OSError:
        return b"", None


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


def _head(most: int) -> int:
    """Return how much of the beginning is kept."""
    return most // 4


def _mark(dropped: int, most: int) -> bytes:
    line = f"\nshunter: {dropped} bytes of output dropped here, a file may hold {most}\n"
    return line.encode()


# When output was printed: `stdout-times.0` has lines `SECONDS BYTES` for `stdout.0`, by the host's
# wall clock. A file is measured after each write (inotify) and once a second.
#
# A line is written when the other stream of the rank grew since the last line, or after a second.
# A third number is the seconds within which it is not known which stream was first.


class FileLength(NamedTuple):
    """How long a file was at an instant; within `unsure_ms` its order is not known."""

    at_ms: int
    size: int
    unsure_ms: int = 0


def times_of(folder: str, stream: str, rank: int) -> str:
    """Return where the times of a stream stand."""
    return f"{folder}/{stream}-times.{rank}"


def parsed_times(times: bytes) -> list[FileLength]:
    """Return what the lines of such a file say; those that are none are passed over."""
    found = []
    for line in times.splitlines():
        words = line.split()
        # Whole seconds, as written before: it was looked at somewhere within that one.
        digits = [word.replace(b".", b"", 1) for word in words]
        if len(words) not in (2, 3) or not all(map(bytes.isdigit, digits)):
            continue
        is_whole = b"." not in words[0]
        at_ms = round(float(words[0]) * 1000) + (999 if is_whole else 0)
        unsure_ms = round(float(words[2]) * 1000) if len(words) == 3 else 1000 * is_whole
        found.append(FileLength(at_ms, int(float(words[1])), unsure_ms))
    return found


def offset_at(times: bytes, since_s: float) -> int:
    """Return how long a file was at an instant, as its times say."""
    before = [one.size for one in parsed_times(times) if one.at_ms < since_s * 1000]
    return before[-1] if before else 0


class Times:
    """Keeps the times of all files of an attempt."""

    def __init__(self, folder: str, ranks: int) -> None:
        self._ranks = [
            (_Written(folder, "stdout", number), _Written(folder, "stderr", number))
            for number in range(ranks)
        ]
        self._looked_ms = 0

    def look(self, wall_s: float, last: bool = False) -> None:
        """Note how long each file is now; `last`: nothing more will come."""
        now_ms = max(int(wall_s * 1000), self._looked_ms)  # a clock may be set back
        unsure_ms = min(now_ms - self._looked_ms, STRETCH_MS)
        self._looked_ms = now_ms
        for out, err in self._ranks:
            grown = [one for one in (out, err) if one.grows()]
            for one, other in ((out, err), (err, out)):
                one.settle(now_ms, is_over=last or other in grown)
            for one, other in ((out, err), (err, out)):
                if one not in grown:
                    continue
                is_alone = other not in grown
                found = FileLength(now_ms, one.size, 0 if is_alone else unsure_ms)
                goes_on = is_alone and not last and other.grew_ms < one.grew_ms
                one.grew(found, goes_on=goes_on)

    def drop(self, path: str, dropped: int, most: int) -> None:
        """Move what came after the middle of a file, which was dropped."""
        for both in self._ranks:
            for one in both:
                if one.path == path:
                    one.move(dropped, most)


class _Written:
    """One file of output, and what was noted of it."""

    def __init__(self, folder: str, stream: str, rank: int) -> None:
        self.path, self._times = f"{folder}/{stream}.{rank}", times_of(folder, stream, rank)
        self.size = 0
        self.grew_ms = -1
        self.pending: FileLength | None = None
        self._lines: list[FileLength] = []

    def grows(self) -> bool:
        """Look how long it is; say whether that is another length than before."""
        try:
            size = os.stat(self.path).st_size
        except OSError:
            return False
        before, self.size = self.size, size
        return size != before

    def settle(self, now_ms: int, *, is_over: bool) -> None:
        """Write the line that was put off, once its stretch of output is over."""
        if self.pending is not None and (is_over or now_ms - self.pending.at_ms >= STRETCH_MS):
            self.note(self.pending)

    def grew(self, found: FileLength, *, goes_on: bool) -> None:
        """Note how long it is; where that goes on with a stretch of output, later."""
        self.grew_ms = found.at_ms
        if goes_on and found.at_ms - self._lines[-1].at_ms < STRETCH_MS:
            self.pending = found
        else:
            self.note(found)

    def note(self, found: FileLength) -> None:
        """Write a line."""
        self.pending = None
        self._lines.append(found)
        try:
            if len(self._lines) > LINES_MOST:
                self._lines[: LINES_MOST // 2] = _downsampled(self._lines[: LINES_MOST // 2])
                _put_times(self._times, self._lines)
            else:
                _write_times(self._times, [found], os.O_APPEND)
        except OSError:
            return  # a full disk: it is known here, and written with the next lines put anew

    def move(self, dropped: int, most: int) -> None:
        """Note where everything stands after a drop."""
        lines = [*self._lines, *([] if self.pending is None else [self.pending])]
        self.pending = None
        self._lines = [
            one._replace(size=place_after_drop(one.size, dropped, most)) for one in lines
        ]
        self.size = place_after_drop(self.size, dropped, most)
        try:
            _put_times(self._times, self._lines)
        except OSError:
            return


def _downsampled(lines: list[FileLength]) -> list[FileLength]:
    """Return every second line; each says how long it now stands for."""
    kept = lines[:1]
    for one in lines[2::2]:
        kept.append(one._replace(unsure_ms=one.at_ms - kept[-1].at_ms))
    return kept


def _put_times(path: str, lines: list[FileLength]) -> None:
    _write_times(f"{path}.new", lines, os.O_TRUNC)
    os.replace(f"{path}.new", path)


def _write_times(path: str, lines: list[FileLength], how: int) -> None:
    text = "".join(map(_line_of, lines)).encode()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | how, 0o600)
    try:
        os.write(file, text)
    finally:
        os.close(file)


def _line_of(one: FileLength) -> str:
    unsure = f" {one.unsure_ms / 1000:.3f}" if one.unsure_ms else ""
    return f"{one.at_ms / 1000:.3f} {one.size}{unsure}\n"


class Writes:
    """Watches files by inotify; `fd` (None: it cannot) is readable after a write.

    The kernel wakes the supervisor at the first write, and after that once in `PAUSE_S` at most
    while output goes on: a job that prints all the time costs twenty looks a second, a silent one
    nothing.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self.fd: int | None = None
        self._quiet_until_s = 0.0
        try:
            fd = libc().inotify_init1(_FLAGS)
        except (OSError, AttributeError):
            return
        if fd < 0:
            return
        self.fd = fd
        for path in paths:
            libc().inotify_add_watch(fd, os.fsencode(path), _IN_MODIFY)

    def wait_s(self, now_s: float) -> float | None:
        """Return how long not to listen for writes; None: there is nothing to listen to."""
        return None if self.fd is None else max(0.0, self._quiet_until_s - now_s)

    def take(self, now_s: float) -> None:
        """Take in what was told; from now on there is a pause."""
        self._quiet_until_s = now_s + PAUSE_S
        if self.fd is None:
            return
        try:
            while len(os.read(self.fd, _READ_BYTES)) > _READ_BYTES // 2:
                pass
        except OSError:  # all is read
            return
