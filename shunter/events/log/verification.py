"""What `log verify` and a start prove of a log, each as much as it relies on."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from shunter.errors import IllegalEventError, LogDamagedError, LogSchemaError
from shunter.events.codec import fault_in
from shunter.events.facts import Event
from shunter.events.log.consistency import REINDEX, refuse_other_chain, refuse_other_term
from shunter.events.log.frames import GENESIS, Frame, Head, Outcomes, Snapshot
from shunter.events.log.job_index import sound_spans
from shunter.events.log.stores import Segment, Source
from shunter.events.past_jobs import PastRows


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What a log was found to hold, all of it sound.

    `anchor_seq` is up to where its anchor says that it was synced; None: it has no anchor, and if
    it `lacks_anchor`, whether its end is missing is not known.
    """

    frames: int
    events: int
    digest: str
    snapshots: int
    segments: int
    term: int
    anchor_seq: int | None = None
    lacks_anchor: bool = False


class Checked(Protocol):
    """The reader whose log is proven."""

    @property
    def url(self) -> str:
        """The address of the log."""
        ...

    async def head(self) -> Head:
        """Return where the log ends now."""
        ...

    def frames(self, after: int = 0, to: int | None = None) -> AsyncIterator[Frame]:
        """Read frames."""
        ...

    async def snapshots(self) -> Sequence[Snapshot]:
        """Return all snapshots, checked."""
        ...

    async def snapshot_at(self, seq: int) -> Snapshot | None:
        """Return the newest snapshot not after `seq`, checked."""
        ...

    async def outcomes(self, count: int) -> Sequence[Outcomes]:
        """Return how the first so many jobs ended."""
        ...

    async def segments(self) -> Sequence[Segment]:
        """Return the sealed segments."""
        ...


async def check_tail(reader: Checked, source: Source) -> Head:
    """Prove what a start relies on, and return the head."""
    anchor = await source.anchor()
    head = await reader.head()
    await _refuse_gaps(reader, source)
    if anchor is not None and 0 < anchor.seq < head.seq:
        refuse_other_chain(reader.url, anchor, await _chain_at(source, anchor.seq))
    snapshot = await reader.snapshot_at(head.seq)
    after = min(snapshot.seq if snapshot else 0, head.seq - 1)
    async for frame in reader.frames(max(0, after), head.seq):
        frame.events()
    return head


async def verify(reader: Checked, source: Source, *, schema: bool) -> VerifyReport:
    """Read and decode everything; `schema` holds events to the published one too."""
    check = _checker(schema=schema)
    anchor = await source.anchor()
    head = await reader.head()
    terms = await source.terms()
    past = PastCheck(source, await source.past_upto())
    frames = events = 0
    chain, at_anchor = None, GENESIS if anchor is not None and not anchor.seq else None
    async for frame in reader.frames(0, head.seq):
        await past.take(frame.first_seq, check(frame))
        refuse_other_term(frame, terms)
        frames += 1
        events += frame.count
        chain = frame.chain
        if anchor is not None and frame.last_seq == anchor.seq:
            at_anchor = frame.chain
    assert events == head.seq, "the reader has seen every event up to the head"
    if anchor is not None:
        refuse_other_chain(reader.url, anchor, at_anchor)
    await past.end()
    await _refuse_gaps(reader, source)
    snapshots = await _check_snapshots(reader, source)
    await _check_index(reader, source)
    await source.refuse_changed()
    segments = await reader.segments()
    return VerifyReport(
        frames,
        events,
        (chain or head.chain).hex(),
        snapshots,
        len(segments),
        head.term,
        None if anchor is None else anchor.seq,
        source.lacks_anchor,
    )


async def _chain_at(source: Source, seq: int) -> bytes | None:
    """Return the chain value of the frame that ends there; None: none does."""
    try:
        return await source.chain_before(seq + 1)
    except LogDamagedError:
        return None


async def _refuse_gaps(reader: Checked, source: Source) -> None:
    seq = await source.gap()
    if seq is not None:
        raise LogDamagedError(
            f"the frames of {reader.url} are not whole at sequence number {seq}", seq
        )


async def _check_snapshots(reader: Checked, source: Source) -> int:
    """Check snapshots and outcomes; return how many snapshots there are."""
    snapshots = await reader.snapshots()
    outcomes = await source.outcomes(MANY)
    last = snapshots[-1].seq if snapshots else 0
    for seq in (last, *(each.seq for each in outcomes)):
        if seq > (await reader.head()).seq:
            raise LogDamagedError(f"the snapshot at sequence number {seq} lies after the head", seq)
    for each in await reader.outcomes(sum(each.count for each in outcomes)):
        each.items()
    return len(snapshots)


async def _check_index(reader: Checked, source: Source) -> None:
    _, wrong = sound_spans(await source.spans(), (await reader.head()).seq)
    if wrong is not None:
        raise LogDamagedError(
            f"the index of jobs of {reader.url} is damaged at sequence number {wrong}; it is made "
            "anew when a job's events are asked for",
            wrong,
        )


class PastCheck:
    """Compares the tables of past jobs with the events that they are made of."""

    def __init__(self, source: Source, upto: int | None) -> None:
        self._source = source
        self._upto = upto or 0
        self._done = 0
        self._expected = PastRows()

    async def take(self, first_seq: int, events: Sequence[Event]) -> None:
        """Go through the next events.

        Raises:
            LogDamagedError: the tables say something else.
        """
        last_seq = min(self._upto, first_seq + len(events) - 1)
        for seq, event in enumerate(events[: max(0, last_seq + 1 - first_seq)], first_seq):
            self._expected.add(seq, event)
        if last_seq - self._done >= PAST_EVENTS:
            await self._compare(last_seq)

    async def end(self) -> None:
        """Compare what is left.

        Raises:
            LogDamagedError: the tables say something else.
        """
        await self._compare(self._upto)

    async def _compare(self, upto: int) -> None:
        found, expected = await self._source.past(self._done, upto), self._expected
        if found != expected:
            raise LogDamagedError(
                "the tables of past jobs do not say what the events between sequence numbers "
                f"{self._done} and {upto} do; {REINDEX}",
                self._done + 1,
            )
        self._done, self._expected = upto, PastRows()


async def wrong_types_in(frames: AsyncIterator[Frame]) -> LogSchemaError | None:
    """Return what is wrong with the first event of a wrong type, if there is one."""
    async for frame in frames:
        damage = _wrong_types(frame)
        if damage is not None:
            return damage
    return None


def _wrong_types(frame: Frame) -> LogSchemaError | None:
    fault = fault_in(frame.payload)
    if fault is None:
        return None
    seq = frame.first_seq + fault.number
    return LogSchemaError(f"the event {seq} violates its schema: {fault.what}", seq)


def _checker(*, schema: bool) -> Callable[[Frame], list[Event]]:
    """Return what proves a payload: types, decoding, or the schema too."""

    def check(frame: Frame) -> list[Event]:
        damage = _wrong_types(frame)
        if damage is not None:
            raise damage
        return [*frame.events()]

    if not schema:
        return check
    from shunter.events.schema import check_event

    def check_published(frame: Frame) -> list[Event]:
        events = check(frame)
        for seq, event in enumerate(events, frame.first_seq):
            try:
                check_event(event)
            except IllegalEventError as error:
                raise LogDamagedError(f"the event {seq}: {error}", seq) from error
        return events

    return check_published


PAST_EVENTS = 20_000
"""What so many events say of past jobs is compared at once."""

MANY = 1 << 62
"""More jobs than ever end."""
