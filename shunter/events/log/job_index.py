"""The index of jobs: which kinds of events, about which jobs, lie in a span of some frames.

It is derived, and only makes the stories of single jobs quick: a reader makes the spans that are
missing from frames it has checked, hands them to the source to keep, and looks through what no span
covers. A span that does not match its digest is made anew.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import orjson

from shunter.errors import LogDamagedError
from shunter.events.log.frames import Frame

SPAN_EVENTS = 5_000
"""About how many events a span covers; a story is read span by span."""


@dataclass(frozen=True, slots=True)
class Span:
    """Some frames in order; `names` is JSON of the kinds and jobs in them."""

    first_seq: int
    last_seq: int
    names: bytes
    digest: str

    @classmethod
    def of(cls, first_seq: int, last_seq: int, names: bytes) -> "Span":
        """Return the span with its digest."""
        return cls(first_seq, last_seq, names, _digest(first_seq, last_seq, names))

    @property
    def is_sound(self) -> bool:
        """Whether it is what was written."""
        return _digest(self.first_seq, self.last_seq, self.names) == self.digest

    @property
    def jobs(self) -> Sequence[str]:
        """The jobs that events in it are about."""
        found: list[str] = orjson.loads(self.names)[1]
        return found

    def has_job(self, job_id: str) -> bool:
        """Say whether an event in it is about a job."""
        return job_id in self.jobs

    def has_kind(self, kinds: frozenset[str]) -> bool:
        """Say whether an event in it is of one of these kinds."""
        return not kinds.isdisjoint(orjson.loads(self.names)[0])


class SpanMaker:
    """Collects what is in frames, until there is enough for a span."""

    def __init__(self) -> None:
        self._first_seq = 0
        self._kinds: set[str] = set()
        self._jobs: set[str | None] = set()

    def take(self, frame: Frame) -> Span | None:
        """Add a frame; return the span that it completes, if it does.

        Raises:
            LogDamagedError: the frame does not hold events.
        """
        rows = frame.rows()
        self._first_seq = self._first_seq or frame.first_seq
        try:
            self._kinds.update(row[0] for row in rows)
            self._jobs.update(row[2] for row in rows)
            if frame.last_seq - self._first_seq + 1 < SPAN_EVENTS:
                return None
            names = orjson.dumps([sorted(self._kinds), sorted(self._jobs - {None})])
        except TypeError as error:  # an id that is none
            raise LogDamagedError(f"{frame.named} is damaged: {error}", frame.first_seq) from error
        span = Span.of(self._first_seq, frame.last_seq, names)
        self._first_seq = 0
        self._kinds.clear()
        self._jobs.clear()
        return span


def sound_spans(spans: Iterable[Span], head_seq: int) -> tuple[list[Span], int | None]:
    """Return the spans before the first wrong one, and its number or None."""
    found: list[Span] = []
    expected = 1
    for span in spans:
        if span.first_seq != expected or not expected <= span.last_seq <= head_seq:
            return found, expected
        if not span.is_sound:
            return found, expected
        found.append(span)
        expected = span.last_seq + 1
    return found, None


def runs(spans: Sequence[Span]) -> list[tuple[int, int]]:
    """Return first and last number of spans that follow each other, run by run."""
    found: list[tuple[int, int]] = []
    for span in spans:
        if found and found[-1][1] + 1 == span.first_seq:
            found[-1] = (found[-1][0], span.last_seq)
        else:
            found.append((span.first_seq, span.last_seq))
    return found


def _digest(first_seq: int, last_seq: int, names: bytes) -> str:
    place = orjson.dumps([first_seq, last_seq])
    return blake2b(place + names, digest_size=32).hexdigest()
