"""What a job printed: its owner and admins may read it, as it is or as it comes.

A file is named by numbers, by one of two words that the query's model knows, and by a job that
exists: nothing of a request becomes a part of a path. Read `output_logs` first.
"""

from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf

import anyio
from starlette.responses import Response

from shunter.api.access import TimelyResponse
from shunter.api.jobs import history_in_log, known
from shunter.api.request_models import LogsQuery
from shunter.api.routing import BYTES, JOB, Call, NoBody, route
from shunter.api.services import Services
from shunter.ask import JobHistory, instant_us
from shunter.backends.node import offset_at, parsed_times
from shunter.daemon import Caller
from shunter.errors import NotFoundError, RefusedError, UsageError
from shunter.events import JobId

# Both streams in the order of time, by the times that the rank's supervisor noted
# (shunter/backends/node/output.py). Where these leave the order open, a line of its own says so.

TOLD_MS = 100
"""An order that is unsure within less is not told: no reader would notice."""

NEW_MS = 1000
"""So long ago, at most, was the last look at a file that goes on to grow."""

LINE_BYTES_MOST = 1 << 16


@dataclass(frozen=True)
class Piece:
    """A part of a stream (0: stdout, 1: stderr); how unsure its order is."""

    stream: int
    begin: int
    end: int
    unsure_ms: float = 0


@dataclass(frozen=True)
class _Timed:
    at_ms: float
    piece: Piece


def in_time_order(
    times: tuple[bytes, bytes], begins: tuple[int, int], ends: tuple[int, int]
) -> list[Piece]:
    """Return the parts of both streams between offsets, in order of time."""
    both = [_timed(stream, times[stream], begins[stream], ends[stream]) for stream in (0, 1)]
    known: list[_Timed] = []
    for stream, timed in enumerate(both):
        others = [one.at_ms for one in both[1 - stream]]
        known += [_Timed(one.at_ms, _sure(one, others)) for one in timed]
    known.sort(key=lambda one: (one.at_ms, one.piece.stream, one.piece.begin))
    return _joined(one.piece for one in known)


def unsure_line(piece: Piece) -> bytes:
    """Return what is said of a piece whose order is not known; empty where it is."""
    if piece.unsure_ms <= TOLD_MS:
        return b""
    within = "" if piece.unsure_ms == inf else f" within {piece.unsure_ms / 1000:.1f} s"
    return f"shunter: which stream was first is not known{within} from here on\n".encode()


@dataclass
class Lines:
    """Puts parts of two streams together so that no line is torn, if that can be."""

    opened: int = 0
    """Whose line was shown in part last: 1 and 2 for the streams 0 and 1, 0 for neither."""

    _rests: list[bytes] = field(default_factory=lambda: [b"", b""])

    def held(self, stream: int) -> int:
        """Return how many bytes of a stream were taken and not shown."""
        return len(self._rests[stream])

    def take(self, stream: int, data: bytes) -> bytes:
        """Return what may be shown once more was printed: whole lines."""
        data = self._rests[stream] + data
        cut = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if not cut and len(data) > LINE_BYTES_MOST:
            cut = len(data)
        self._rests[stream] = data[cut:]
        return self._shown(stream, data[:cut])

    def idle(self) -> bytes:
        """Return the line that is being printed, if only one is."""
        begun = [stream for stream in (0, 1) if self._rests[stream]]
        return self.rest() if len(begun) == 1 else b""

    def rest(self) -> bytes:
        """Return the lines that were not ended."""
        return b"".join(self.end_of(stream) for stream in (0, 1))

    def end_of(self, stream: int) -> bytes:
        """Return the line of a stream that was not ended."""
        data, self._rests[stream] = self._rests[stream], b""
        return self._shown(stream, data)

    def _shown(self, stream: int, data: bytes) -> bytes:
        if not data:
            return b""
        before = b"\n" if self.opened not in (0, stream + 1) else b""
        self.opened = 0 if data.endswith((b"\n", b"\r")) else stream + 1
        return before + data


def _timed(stream: int, times: bytes, begin: int, end: int) -> list[_Timed]:
    found: list[_Timed] = []
    looks = parsed_times(times)
    for one in looks:
        if one.size > begin < end:
            upto = min(one.size, end)
            found.append(_Timed(one.at_ms, Piece(stream, begin, upto, one.unsure_ms)))
            begin = upto
    if begin < end:
        found.append(_Timed(inf, Piece(stream, begin, end, NEW_MS if looks else inf)))
    return found


def _sure(one: _Timed, others: list[float]) -> Piece:
    """Return a piece; nothing is unsure if the other stream was silent then."""
    piece = one.piece
    from_ms = one.at_ms - piece.unsure_ms if one.at_ms < inf else inf
    is_unsure = piece.unsure_ms == inf or any(from_ms < at_ms <= one.at_ms for at_ms in others)
    if one.at_ms == inf and piece.unsure_ms < inf:
        is_unsure = inf in others
    return piece if is_unsure and others else Piece(piece.stream, piece.begin, piece.end)


def _joined(pieces: Iterable[Piece]) -> list[Piece]:
    """Return pieces with those that follow each other as one."""
    found: list[Piece] = []
    for piece in pieces:
        last = found[-1] if found else None
        if last is not None and last.stream == piece.stream and piece.unsure_ms <= TOLD_MS:
            found[-1] = Piece(last.stream, last.begin, piece.end, last.unsure_ms)
        else:
            found.append(piece)
    return found


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
            self._planned = in_time_order(times, begins, ends)
        else:
            self._planned = [Piece(stream, begins[stream], ends[stream]) for stream in grown]
        return bool(grown)


Reader = Printed | Both
"""What one rank printed, attempt after attempt, from somewhere on."""


def _numbers(position: list[int], count: int) -> list[int]:
    """Return the numbers of a position; UsageError: it is of another reader."""
    if len(position) != count:
        raise UsageError(
            f"position: expected {count} numbers, as an answer for the same stream said, not "
            f"{len(position)}"
        )
    return position


LOOK_S = 0.2
"""How often a followed file is looked at."""


@route("GET", JOB + "/logs", "What it printed", query=LogsQuery, media=BYTES)
async def output_logs(call: Call[LogsQuery, NoBody]) -> Response:
    """Answer with the output of one rank, from one attempt or as it comes."""
    job_id, services, query = JobId(call.path["job_id"]), call.services, call.query
    known(services, job_id)
    history = await history_in_log(services, job_id)
    _check_owner(history, call.caller)
    since_us = None
    if query.since is not None:
        since_us = instant_us(query.since, services.site.origin.isoformat())
    attempts = _attempts(history, query.attempt, since_us)
    since_s = None if since_us is None else services.site.wall(since_us).timestamp()
    if query.skip is not None and query.stream == BOTH:
        raise UsageError("skip counts bytes of one stream: expected stdout or stderr")
    name = "stdout" if query.stream == BOTH else query.stream
    stream = Printed(services, job_id, name, query.rank, since_s)
    reader: Reader = stream
    if query.stream == BOTH:
        reader = Both(stream, Printed(services, job_id, "stderr", query.rank, since_s))
    output = _Output(services, job_id, reader)
    offset = None
    if query.skip is not None:
        attempts, offset = await _after(stream, attempts, query.skip)
    elif since_us is None:
        attempts = attempts[-1:]
    first = attempts[0] if attempts else 0
    if first and not query.follow:
        await _check_kept(stream, history, first)
    is_fixed = query.attempt is not None
    if query.tail is not None:
        offset = await _tail(stream, first, query)
    if query.position is not None and not query.follow:
        raise UsageError("position is for output that is followed: expected follow=true as well")
    if query.position in (None, "start"):
        await reader.enter(first, offset)
    else:
        numbers = [int(number) for number in query.position.split(".")]
        first = numbers[0]
        await reader.resume(numbers)
    if query.follow:
        pieces = output.follow(first, is_fixed=is_fixed, is_marked=query.position is not None)
    else:
        pieces = output.whole(attempts, offset)
    return TimelyResponse(pieces, BYTES, headers={"X-Attempt": str(first)})


async def _check_kept(stream: Printed, history: JobHistory, attempt: int) -> None:
    """Raise NotFoundError if a rank of an attempt that has run has left no output."""
    await stream.enter(attempt, 0)
    _, size = await stream.read(0, 1)
    job_id = history.submitted.job_id
    if size is None and stream.rank:
        raise NotFoundError(f"attempt {attempt} of job {job_id} has no rank {stream.rank}")
    if size is None and _has_run(history, attempt):
        raise NotFoundError(f"the output of attempt {attempt} of job {job_id} is not kept any more")


async def _after(stream: Printed, attempts: Sequence[int], skip: int) -> tuple[list[int], int]:
    """Return the attempts that printed beyond so many bytes, and where."""
    left = list(attempts)
    while len(left) > 1:
        await stream.enter(left[0], 0)
        _, size = await stream.read(0, 1)
        if size is not None and skip < size:
            break
        skip -= size or 0
        del left[0]
    return left, max(0, skip)


async def _tail(stream: Printed, attempt: int, query: LogsQuery) -> int:
    """Return where the last bytes of one stream of an attempt begin."""
    if query.stream == BOTH or query.skip is not None or query.since is not None:
        raise UsageError(
            "tail counts bytes of one stream from its end: expected stdout or stderr, and neither "
            "skip nor since"
        )
    await stream.enter(attempt, 0)
    _, size = await stream.read(0, 1)
    return max(0, (size or 0) - (query.tail or 0))


def _check_owner(history: JobHistory, by: Caller) -> None:
    owner = history.submitted.spec.user
    if not by.is_admin and owner != by.user:
        raise RefusedError(
            f"the output of job {history.submitted.job_id} is for {owner or 'its owner'} and admins"
        )


def _has_run(history: JobHistory, number: int) -> bool:
    """Say whether an attempt has begun and is over."""
    return any(
        one.number == number and one.started_us is not None and one.released_us is not None
        for one in history.attempts
    )


def _attempts(history: JobHistory, wanted: int | None, since_us: int | None) -> list[int]:
    """Return the attempts that may be shown, oldest first; the last one always may.

    Raises:
        NotFoundError: there is no such attempt.
    """
    found = history.attempts
    if wanted is not None:
        found = [one for one in found if one.number == wanted]
        if not found:
            last = history.attempts[-1].number if history.attempts else 0
            raise NotFoundError(
                f"job {history.submitted.job_id} has no attempt {wanted}; the last is {last}"
            )
    if since_us is not None:
        found = [
            one
            for one in found
            if one is found[-1] or one.released_us is None or one.released_us >= since_us
        ]
    return [one.number for one in found]


@dataclass
class _Output:
    """One rank's output, over the attempts of a job."""

    services: Services
    job_id: JobId
    reader: Reader

    async def whole(
        self, attempts: Sequence[int], offset: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield the output of attempts, of the first one from an offset on."""
        for attempt in attempts:
            await self.reader.enter(attempt, offset)
            offset = None
            while piece := await self.reader.following():
                yield piece
            if piece := self.reader.rest():
                yield piece

    async def follow(
        self, attempt: int, *, is_fixed: bool, is_marked: bool
    ) -> AsyncGenerator[bytes, None]:
        """Yield output as it comes, attempt after attempt, until the job ends.

        The reader is in the attempt already. Where it `is_marked`, each piece says where the next
        one begins, and the end that it is one.
        """
        marked = self._marked if is_marked else bytes
        is_last_look = has_begun = False
        while True:
            if piece := await self.reader.following():
                yield marked(piece)
                continue
            if is_marked and not has_begun:
                yield marked(b"")  # a reader that was cut off learns that it is read for again
            has_begun = True
            if is_last_look:
                if piece := self.reader.rest():
                    yield marked(piece)
                following = await self._following(attempt)
                if is_fixed or following is None:
                    if is_marked:
                        yield b"end 0\n"
                    return
                attempt, is_last_look = following, False
                await self.reader.enter(attempt)
                continue
            is_last_look = self._is_over(attempt, is_fixed=is_fixed)
            if not is_last_look:
                if piece := self.reader.idle():
                    yield marked(piece)
                await anyio.sleep(LOOK_S)

    def _marked(self, piece: bytes) -> bytes:
        """Return a piece with a line before it: the position after it, its length."""
        position = ".".join(str(int(number)) for number in self.reader.position())
        return f"{position} {len(piece)}\n".encode() + piece

    def _is_over(self, attempt: int, *, is_fixed: bool) -> bool:
        """Say whether an attempt prints no more: the job has ended, or a later one began."""
        job = self.services.site.state.jobs.get(self.job_id)
        if job is None or job.attempt > attempt:
            return True
        return is_fixed and job.since_us is None

    async def _following(self, attempt: int) -> int | None:
        """Return the next attempt, None where there will be none."""
        job = self.services.site.state.jobs.get(self.job_id)
        if job is not None:
            return attempt + 1 if job.attempt > attempt else None
        history = await history_in_log(self.services, self.job_id)
        return next((one.number for one in history.attempts if one.number > attempt), None)
