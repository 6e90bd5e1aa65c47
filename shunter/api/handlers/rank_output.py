"""Reads what one rank printed, a piece at a time: one stream byte by byte, or both by time."""

from dataclasses import dataclass, field

from shunter.api.merged_output import Lines, Piece, in_order, unsure_line
from shunter.api.services import Services
from shunter.backends.node.output import offset_at
from shunter.errors import UsageError
from shunter.events.values import JobId

BOTH = "both"
PIECE_BYTES = 1 << 18
LINE_BYTES = 1 << 12
"""How far back the beginning of a line is looked for."""


@dataclass
class Printed:
    """One stream of a rank, from a wall-clock instant on."""

    services: Services
    job_id: JobId
    stream: str
    rank: int
    since_s: float | None = None
    attempt: int = 0
    offset: int = 0

    async def enter(self, attempt: int, offset: int | None = None) -> None:
        """Begin with an attempt: at the line being printed at the instant asked for."""
        self.attempt = attempt
        if offset is None:
            offset = 0 if self.since_s is None else await self._line_at(self.since_s)
        self.offset = offset

    def position(self) -> list[int]:
        """Return what `resume` needs to go on after what has been shown."""
        return [self.attempt, self.offset]

    async def resume(self, position: list[int]) -> None:
        """Go on where a reader of the same stream was."""
        self.attempt, self.offset = _numbers(position, 2)

    async def following(self) -> bytes:
        """Return the next bytes."""
        piece, size = await self.read(self.offset)
        if size is not None and size < self.offset:
            self.offset = size  # its middle was dropped, as it had grown too long
            piece, _ = await self.read(self.offset)
        self.offset += len(piece)
        return piece

    def idle(self) -> bytes:
        """Return nothing: all that was printed has been shown."""
        return b""

    rest = idle

    async def read(self, offset: int, most: int = PIECE_BYTES) -> tuple[bytes, int | None]:
        """Return a piece of the file, and how long that is; None: none."""
        if not self.attempt:
            return b"", None
        name = f"{self.stream}.{self.rank}"
        return await self.services.site.read_output(self.job_id, self.attempt, name, offset, most)

    async def times(self) -> bytes:
        """Return when it was printed, as its supervisor noted it."""
        name = f"{self.stream}-times.{self.rank}"
        found, _ = await self.services.site.read_output(
            self.job_id, self.attempt, name, 0, PIECE_BYTES
        )
        return found

    async def _line_at(self, since_s: float) -> int:
        offset = offset_at(await self.times(), since_s) if self.attempt else 0
        from_byte = max(0, offset - LINE_BYTES)
        before, _ = await self.read(from_byte, offset - from_byte)
        return from_byte + before.rfind(b"\n") + 1 if b"\n" in before else offset


@dataclass
class Both:
    """Both streams of a rank, line by line in the order of time."""

    out: Printed
    err: Printed
    _lines: Lines = field(default_factory=Lines)
    _planned: list[Piece] = field(default_factory=list)
    _is_unsure: bool = False

    async def enter(self, attempt: int, offset: int | None = None) -> None:
        """Begin with an attempt; an offset would be of one stream."""
        assert offset is None, "queries that skip bytes name a stream"
        self._lines, self._planned, self._is_unsure = Lines(), [], False
        for one in (self.out, self.err):
            await one.enter(attempt)

    def position(self) -> list[int]:
        """Return what `resume` needs to go on after what has been shown."""
        out, err = self.out.offset, self.err.offset
        out, err = out - self._lines.held(0), err - self._lines.held(1)
        return [self.out.attempt, max(0, out), max(0, err), self._lines.opened, self._is_unsure]

    async def resume(self, position: list[int]) -> None:
        """Go on where a reader of both streams was."""
        attempt, out, err, opened, is_unsure = _numbers(position, 5)
        await self.out.resume([attempt, out])
        await self.err.resume([attempt, err])
        self._lines, self._planned, self._is_unsure = Lines(opened), [], bool(is_unsure)

    async def following(self) -> bytes:
        """Return the next lines; empty too while one is being printed."""
        while self._planned or await self._plan():
            piece = self._planned.pop(0)
            one = (self.out, self.err)[piece.stream]
            data, _ = await one.read(one.offset, min(PIECE_BYTES, piece.end - one.offset))
            if not data:
                self._planned = []
                return b""
            one.offset += len(data)
            if one.offset < piece.end:
                self._planned.insert(0, Piece(piece.stream, one.offset, piece.end))
            told = b"" if self._is_unsure else unsure_line(piece)
            self._is_unsure = self._is_unsure or bool(told)  # once an attempt is enough
            if shown := told + self._lines.take(piece.stream, data):
                return shown
        return b""

    def idle(self) -> bytes:
        """Return the line that is being printed, while nothing else is."""
        return self._lines.idle()

    def rest(self) -> bytes:
        """Return the lines that were not ended."""
        return self._lines.rest()

    async def _plan(self) -> bool:
        """Put in order what was printed since; say whether there is anything."""
        sizes = []
        for one in (self.out, self.err):
            _, size = await one.read(one.offset, 1)
            if size is not None and size < one.offset:
                one.offset = size  # its middle was dropped
            sizes.append(max(one.offset, size or 0))
        begins, ends = (self.out.offset, self.err.offset), (sizes[0], sizes[1])
        grown = [stream for stream in (0, 1) if ends[stream] > begins[stream]]
        if len(grown) > 1:
            times = (await self.out.times(), await self.err.times())
            self._planned = in_order(times, begins, ends)
        else:
            self._planned = [Piece(stream, begins[stream], ends[stream]) for stream in grown]
        return bool(grown)


Reader = Printed | Both
"""What one rank printed, attempt after attempt, from somewhere on."""


def _numbers(position: list[int], count: int) -> list[int]:
    """Return the numbers of a position.

    Raises:
        UsageError: it is one of another kind of reader.
    """
    if len(position) != count:
        raise UsageError(
            f"position: expected {count} numbers, as an answer for the same stream said, not "
            f"{len(position)}"
        )
    return position
