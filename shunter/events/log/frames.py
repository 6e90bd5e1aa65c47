"""What a log consists of, whatever keeps it: frames in a chain, their head, snapshots, outcomes.

    frame 1..1000 ──chain──▶ frame 1001..2000 ──chain──▶ … ──▶ head(seq, chain, term)

A frame is a run of events encoded once. Its chain value is a hash over the value before it and
its own payload, so the last value stands for every byte of the log, in order.
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from operator import itemgetter

import msgspec
import orjson

from shunter.errors import IllegalEventError, LogDamagedError
from shunter.events.codec import decode_event, decode_payload, row_fields
from shunter.events.facts import JOB_ENDS, Event, EventsLost, JobSubmitted
from shunter.events.past_jobs import PastRows, key_of
from shunter.events.records import Row, stored_fields
from shunter.events.values import JobSpec, UserName

CHAIN_BYTES = 32
GENESIS = bytes(CHAIN_BYTES)

_OTHERS = frozenset(kind.__name__ for kind in (*JOB_ENDS, EventsLost))
_SUBMITTED = JobSubmitted.__name__
_OF_PAST_JOBS = frozenset(name.encode() for name in (_SUBMITTED, *_OTHERS))


@dataclass(frozen=True, slots=True)
class WithoutLost:
    """To go on with a log that has lost its events from a number on."""

    first_seq: int


_SPLIT = msgspec.json.Decoder(list[msgspec.Raw])
_SPEC, _KEY = map(row_fields(JobSubmitted).index, ("spec", "dedupe_key"))
_USER = [field.name for field in stored_fields(JobSpec)].index("user")


@dataclass(frozen=True, slots=True)
class Frame:
    """A run of events as it is stored; `at_us` is the instant of its first event."""

    first_seq: int
    count: int
    at_us: int
    term: int
    chain: bytes
    payload: bytes

    @property
    def last_seq(self) -> int:
        """The sequence number of its last event."""
        return self.first_seq + self.count - 1

    def events(self, after: int = 0, to: int | None = None) -> Sequence[Event]:
        """Return its events, decoded; only those after `after` and up to `to`, if given.

        Raises:
            LogDamagedError: the payload does not hold what the frame says it does.
        """
        try:
            events = decode_payload(self.payload)
        except IllegalEventError as error:
            raise LogDamagedError(f"{self.named}: {error}", self.first_seq) from error
        if len(events) != self.count:
            raise LogDamagedError(
                f"{self.named} holds {len(events)} events where its row says {self.count}",
                self.first_seq,
            )
        if events[0].at_us != self.at_us:
            raise LogDamagedError(
                f"{self.named} begins at {events[0].at_us} us, its row says {self.at_us}",
                self.first_seq,
            )
        start = max(0, after + 1 - self.first_seq)
        end = self.count if to is None else min(self.count, to + 1 - self.first_seq)
        return events if end - start == self.count else events[start:end]

    def rows(self) -> list[Row]:
        """Return the rows of its events, not decoded.

        Raises:
            LogDamagedError: the payload holds no rows, or another number of them.
        """
        try:
            rows: list[Row] = orjson.loads(self.payload)
            sound = len(rows) == self.count and all(map(_is_row, rows))
        except (ValueError, TypeError) as error:
            raise LogDamagedError(f"{self.named} is not JSON: {error}", self.first_seq) from error
        if not sound:
            raise LogDamagedError(f"{self.named} does not hold {self.count} events", self.first_seq)
        return rows

    def rows_with(
        self, kinds: Collection[bytes] = (), words: Collection[bytes] = (), mark: bytes = b""
    ) -> Iterator[tuple[int, Row]]:
        """Yield the rows of some kinds, and those with a word, with their numbers.

        Only these are parsed: to split a frame into rows takes a tenth of what parsing it takes.

        Args:
            kinds: their names. What is added while rows are yielded counts for those that follow.
            words: pieces of JSON, such as an id in its quotes; as kinds.
            mark: a piece of JSON that all rows of these kinds have, and few others: to look for it
                is quicker than to read the kind of each row.
        Raises:
            LogDamagedError: the payload holds no rows, or another number of them.
        """
        if not any(word in self.payload for word in (*kinds, *words)):
            return
        for seq, part in enumerate(self._parts(), self.first_seq):
            # As orjson writes it, a row begins with ["
            if mark in part and part[2 : part.find(b'"', 2)] in kinds:
                yield seq, self._row(part)
                continue
            for word in words:
                if word in part:
                    yield seq, self._row(part)
                    break

    def _parts(self) -> list[bytes]:
        """Return the JSON of each row."""
        try:
            parts = _SPLIT.decode(self.payload)
        except (msgspec.DecodeError, RecursionError) as error:
            raise LogDamagedError(f"{self.named} is not JSON: {error}", self.first_seq) from error
        if len(parts) != self.count:
            raise LogDamagedError(f"{self.named} does not hold {self.count} events", self.first_seq)
        return [bytes(part) for part in parts]

    def _row(self, part: bytes) -> Row:
        try:
            row: Row = orjson.loads(part)
        except ValueError as error:
            raise LogDamagedError(f"{self.named} is not JSON: {error}", self.first_seq) from error
        if not _is_row(row):
            raise LogDamagedError(f"{self.named} does not hold {self.count} events", self.first_seq)
        return row

    def about(self, job_id: str) -> list[tuple[int, Event]]:
        """Return the events about a job with their numbers; only those are decoded.

        Raises:
            LogDamagedError: the payload does not hold what the frame says it does.
        """
        found = self.rows_with(words=[orjson.dumps(job_id)])
        return self._decoded([(seq, row) for seq, row in found if row[2] == job_id])

    def of_kinds(self, kinds: frozenset[str]) -> list[tuple[int, Event]]:
        """Return the events of some kinds with their numbers; only those are decoded.

        Raises:
            LogDamagedError: the payload does not hold what the frame says it does.
        """
        return self._decoded([*self.rows_with({kind.encode() for kind in kinds})])

    def _decoded(self, rows: Sequence[tuple[int, Row]]) -> list[tuple[int, Event]]:
        try:
            return [(seq, decode_event(row)) for seq, row in rows]
        except IllegalEventError as error:
            raise LogDamagedError(f"{self.named}: {error}", self.first_seq) from error

    def past(self, after: int = 0) -> PastRows:
        """Return what its events after a number say of past jobs; only those are decoded.

        Raises:
            LogDamagedError: the payload does not hold what the frame says it does.
        """
        rows, others = PastRows(), list[tuple[int, Row]]()
        for seq, row in self.rows_with(_OF_PAST_JOBS):
            if seq <= after:
                continue
            if row[0] in _OTHERS:
                others.append((seq, row))
            elif len(row) > _KEY and row[_KEY]:
                spec = row[_SPEC]  # a million of them are read at once: only its user is
                user = UserName(spec[_USER] if len(spec) > _USER else "")
                rows.keys.append((seq, key_of(user, row[_KEY]), row[2]))
        for seq, event in self._decoded(others):
            rows.add(seq, event)
        return rows

    @property
    def named(self) -> str:
        """The frame in words, for messages."""
        return f"the frame at sequence number {self.first_seq}"


def _is_row(row: object) -> bool:
    """Say whether a value is a row: a kind, an instant, a job or null, and more."""
    return type(row) is list and len(row) >= 3 and type(row[0]) is str


@dataclass(frozen=True, slots=True)
class Head:
    """Where a log ends: its last sequence number, chain value and writer's term."""

    seq: int
    chain: bytes
    term: int


@dataclass(frozen=True, slots=True)
class Outcomes:
    """How jobs ended, in the order of their ends, from number `first` on.

    Logs of older versions keep them beside their snapshots; nobody writes them any more.
    `pairs` is a JSON array of ids and outcomes, `seq` the snapshot with which they were kept.
    """

    seq: int
    first: int
    count: int
    pairs: bytes
    digest: str

    def items(self) -> list[tuple[str, str]]:
        """Return ids and outcomes.

        Raises:
            LogDamagedError: they are not what was written.
        """
        if _outcomes_digest(self.seq, self.first, self.count, self.pairs) != self.digest:
            raise LogDamagedError(
                f"the outcomes of jobs at sequence number {self.seq} do not match their digest",
                self.seq,
            )
        pairs: list[tuple[str, str]] = orjson.loads(self.pairs)
        return pairs


@dataclass(frozen=True, slots=True)
class Snapshot:
    """State and policy memory right after the event `seq`, encoded, under one digest.

    Those of older versions also say how jobs had ended: the state names the jobs, or `ended` is how
    many had, whose outcomes are kept apart. Which of both is said by the form of the digest.
    """

    seq: int
    at_us: int
    state: bytes
    memory: bytes
    digest: str
    ended: int | None = None

    @classmethod
    def of(cls, seq: int, at_us: int, state: bytes, memory: bytes) -> "Snapshot":
        """Return the snapshot of these bytes, with its digest."""
        return cls(
            seq, at_us, state, memory, _snapshot_digest(_FORM, seq, at_us, state, memory, None)
        )

    @property
    def has_past(self) -> bool:
        """Whether an older version wrote it, with how jobs had ended and their keys."""
        return not self.digest.startswith(_FORM)

    def check(self) -> None:
        """Raise LogDamagedError unless the digest is that of the snapshot."""
        form = self.digest[: len(_FORM)]
        if form in (_FORM, _FORM_WITH_PAST):
            expected = _snapshot_digest(
                form, self.seq, self.at_us, self.state, self.memory, self.ended
            )
            is_sound = expected == self.digest
        else:
            is_sound = self._is_at_its_place and self.digest == _old_snapshot_digest(
                self.state, self.memory
            )
        if not is_sound:
            raise LogDamagedError(
                f"the snapshot at sequence number {self.seq} does not match its digest", self.seq
            )

    @property
    def _is_at_its_place(self) -> bool:
        """Whether the state says it is of this event; an old digest does not."""
        begins = _STATE_BEGINS.match(self.state)
        return begins is None or tuple(map(int, begins.groups())) == (self.seq, self.at_us)


def next_chain(previous: bytes, payload: bytes) -> bytes:
    """Return the chain value after a frame with this payload."""
    return blake2b(previous + payload, digest_size=CHAIN_BYTES).digest()


_FORM, _FORM_WITH_PAST = "3:", "2:"
_STATE_BEGINS = re.compile(rb"\[(\d+),(\d+),")


def _snapshot_digest(
    form: str, seq: int, at_us: int, state: bytes, memory: bytes, ended: int | None
) -> str:
    """Return the digest over all parts; the length keeps the two that are long apart.

    Since form 3 the form is one of them, so that none is taken for another.
    """
    place = [seq, at_us, ended, len(state)]
    named = orjson.dumps(place if form == _FORM_WITH_PAST else [form, *place])
    return form + blake2b(named + state + memory, digest_size=CHAIN_BYTES).hexdigest()


def _old_snapshot_digest(state: bytes, memory: bytes) -> str:
    """Return the digest as it was before it covered sequence number and instant."""
    together = blake2b(len(state).to_bytes(8, "big"), digest_size=CHAIN_BYTES)
    together.update(state)
    together.update(memory)
    return together.hexdigest()


def _outcomes_digest(seq: int, first: int, count: int, pairs: bytes) -> str:
    place = orjson.dumps([seq, first, count])
    return blake2b(place + pairs, digest_size=CHAIN_BYTES).hexdigest()


# What must hold between frames, head and anchor.

REINDEX = "`shunter admin reindex` makes it anew, while nothing writes the log"


def checked_frame(frame: Frame, seq: int, before: Frame | None, head: Head) -> Frame:
    """Return the frame if it holds `seq` and fits the one before and the head."""
    assert before is not None, "the chain value before the first frame is fetched with it"
    if frame.first_seq != before.last_seq + 1 or not frame.first_seq <= seq <= frame.last_seq:
        raise LogDamagedError(
            f"sequence number {seq} is missing: {frame.named} has {frame.count} events", seq
        )
    if next_chain(before.chain, frame.payload) != frame.chain:
        raise LogDamagedError(
            f"{frame.named} does not match its chain value: its bytes, or those before it, "
            "are not what was written",
            frame.first_seq,
        )
    if not before.term <= frame.term <= head.term:
        raise LogDamagedError(
            f"{frame.named} has term {frame.term}, between {before.term} and {head.term} expected",
            frame.first_seq,
        )
    if frame.last_seq >= head.seq and (frame.last_seq, frame.chain) != (head.seq, head.chain):
        raise LogDamagedError(
            f"{frame.named} and the head disagree: the head is at {head.seq}, the frame ends at "
            f"{frame.last_seq}",
            frame.first_seq,
        )
    return frame


def refuse_other_term(frame: Frame, terms: Sequence[tuple[int, int]]) -> None:
    """Raise LogDamagedError unless a frame is of the term that had begun."""
    place = bisect_right(terms, frame.first_seq, key=itemgetter(0))
    if place and terms[place - 1][1] != frame.term:
        raise LogDamagedError(
            f"{frame.named} has term {frame.term}, and term {terms[place - 1][1]} is expected",
            frame.first_seq,
        )


def refuse_lost(log: str, anchor: Head, head: Head) -> None:
    """Raise LogDamagedError if a log ends before what its anchor says was synced."""
    remedy = "put the log, its -wal and its anchor back from one copy"
    remedy += (
        f", or go on without them, which is recorded: `shunter serve CONFIG --accept-loss "
        f"{head.seq + 1}`, once"
        if head.seq
        else f", or move the anchor {log}.anchor away, and the folder of attempts too, to begin "
        "again"
    )
    if anchor.seq > head.seq:
        raise LogDamagedError(
            f"the log {log} has lost the {anchor.seq - head.seq} events with sequence numbers "
            f"{head.seq + 1} to {anchor.seq}: its anchor says that they were on the disk, and the "
            f"log ends before them; {remedy}",
            head.seq + 1,
        )
    if anchor.term > head.term:
        raise LogDamagedError(
            f"the log {log} has lost the start of term {anchor.term} after sequence number "
            f"{head.seq}: its anchor says that it was on the disk, and the log is of term "
            f"{head.term}; {remedy}",
            head.seq,
        )
    if anchor.seq == head.seq:
        refuse_other_chain(log, anchor, head.chain)


def refuse_other_chain(log: str, anchor: Head, chain: bytes | None) -> None:
    """Raise LogDamagedError unless a chain value is that of the anchor."""
    if chain != anchor.chain:
        raise LogDamagedError(
            f"the log {log} and its anchor disagree at sequence number {anchor.seq}: one of the "
            "two was changed, or is another log's",
            anchor.seq,
        )


def without_anchor(log: str) -> str:
    """Return what to tell of a log that was kept with an anchor and has none now."""
    return (
        f"the log {log} was kept with an anchor, {log}.anchor, which is not there: whether events "
        "after its last one are lost is not known; who copies or moves the log of a daemon takes "
        "its anchor along"
    )


# The index of jobs: which kinds of events about which jobs are in a span of frames. It is derived:
# a reader makes missing spans from checked frames, and replaces one whose digest is wrong.

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
        return cls(first_seq, last_seq, names, _span_digest(first_seq, last_seq, names))

    @property
    def is_sound(self) -> bool:
        """Whether it is what was written."""
        return _span_digest(self.first_seq, self.last_seq, self.names) == self.digest

    @property
    def jobs(self) -> Sequence[str]:
        """The jobs that events in it are about."""
        found: list[str] = orjson.loads(self.names)[1]
        return found

    def has_job(self, job_id: str) -> bool:
        """Say whether an event in it is about a job."""
        return orjson.dumps(job_id) in self.names and job_id in self.jobs  # the first is quick

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


def _span_digest(first_seq: int, last_seq: int, names: bytes) -> str:
    place = orjson.dumps([first_seq, last_seq])
    return blake2b(place + names, digest_size=32).hexdigest()
