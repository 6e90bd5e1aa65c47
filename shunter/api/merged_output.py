"""What a rank printed on both streams, in the order of time, line by line.

The times are those that the rank's supervisor noted (shunter/backends/node/output.py). Where
they do not tell which stream was first, that is said in a line of its own.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

from shunter.backends.node.output import parsed_times

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


def in_order(
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
