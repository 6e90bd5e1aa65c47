"""The one log reader: whatever it returns has been checked against its neighbours and the head.

After it come the proofs of `log verify` and of a start, each as much as it relies on.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass

from shunter.errors import IllegalEventError, LogDamagedError, LogSchemaError
from shunter.events.codec import fault_in
from shunter.events.facts import Event
from shunter.events.log.frames import (
    GENESIS,
    REINDEX,
    SPAN_EVENTS,
    Frame,
    Head,
    Outcomes,
    Snapshot,
    Span,
    SpanMaker,
    checked_frame,
    refuse_lost,
    refuse_other_chain,
    refuse_other_term,
    runs,
    sound_spans,
    without_anchor,
)
from shunter.events.log.stores import Segment, Source
from shunter.events.past_jobs import PastRows

PAST_EVENTS = 20_000
"""What so many events say of past jobs is compared at once."""

MANY = 1 << 62
"""More jobs than ever end."""

SPANS_AT_ONCE = 20
STEP_BACK, LONGEST_STEP = 1_000, 20_000


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


class LogReader:
    """Reads one log, checking as it goes; made by `read_log`."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._spans: list[Span] | None = None

    @property
    def url(self) -> str:
        """The address of the log."""
        return self._source.url

    @property
    def warning(self) -> str:
        """What whoever reads the log should know of it; empty: nothing."""
        return without_anchor(self.url) if self._source.lacks_anchor else ""

    async def head(self) -> Head:
        """Return where the log ends now.

        Raises:
            LogDamagedError: the head does not fit itself, or what was synced beyond it is lost.
        """
        anchor = await self._source.anchor()  # first: whoever writes moves the head first
        head = await self._source.head()
        if head.seq < 0 or (head.seq == 0) != (head.chain == GENESIS):
            raise LogDamagedError(f"the head of {self.url} does not fit itself: {head}", head.seq)
        if anchor is not None:
            refuse_lost(self.url, anchor, head)
        return head

    async def frames(self, after: int = 0, to: int | None = None) -> AsyncIterator[Frame]:
        """Read the frames with events after `after`, up to `to` or the head as of now.

        The first and the last frame may hold events beyond these bounds: `Frame.events` cuts.

        Raises:
            LogDamagedError: a frame is missing, or is not what was written; names where.
        """
        head = await self.head()
        last = head.seq if to is None else min(to, head.seq)
        seq, before = after + 1, None
        while seq <= last:
            chunk = await self._source.chunk(seq)
            if before is None and chunk:
                before = await self._frame_before(chunk[0])
            for frame in chunk:
                before = checked_frame(frame, seq, before, head)
                yield frame
                seq = before.last_seq + 1
                if seq > last:
                    break
            if not chunk:
                raise LogDamagedError(
                    f"the frame with sequence number {seq} is missing from {self.url}; "
                    f"its head is at {head.seq}",
                    seq,
                )

    async def events(self, after: int = 0, to: int | None = None) -> AsyncIterator[Event]:
        """Read the events after `after`, up to `to` or the head as it is now, one by one."""
        async for frame in self.frames(after, to):
            for event in frame.events(after, to):
                yield event

    async def frames_before(self, seq: int) -> AsyncIterator[Frame]:
        """Read the frames that hold `seq` and what is before it, the newest first.

        Raises:
            LogDamagedError: a frame is missing, or is not what was written; names where.
        """
        step = STEP_BACK
        while seq > 0:
            run = [frame async for frame in self.frames(max(0, seq - step), seq)]
            for frame in reversed(run):
                yield frame
            seq = run[0].first_seq - 1
            step = min(4 * step, LONGEST_STEP)

    async def snapshots(self) -> Sequence[Snapshot]:
        """Return all snapshots, oldest first, with their digests checked."""
        snapshots = await self._source.snapshots()
        for snapshot in snapshots:
            snapshot.check()
        return snapshots

    async def snapshot_at(self, seq: int) -> Snapshot | None:
        """Return the newest snapshot not after `seq`, checked; None if there is none."""
        snapshot = await self._source.snapshot_at(seq)
        if snapshot is not None:
            snapshot.check()
        return snapshot

    async def outcomes(self, count: int) -> Sequence[Outcomes]:
        """Return how the first so many jobs ended, in order of their ends.

        Raises:
            LogDamagedError: some are missing; that each is what was written, it checks itself.
        """
        found = await self._source.outcomes(count)
        expected = 0
        for each in found:
            expected = expected + each.count if each.first == expected else -1
        if expected != count:
            raise LogDamagedError(
                f"the outcomes of jobs in {self.url} are not whole: those of {count} jobs, one "
                "after the other, are expected"
            )
        return found

    async def segments(self) -> Sequence[Segment]:
        """Return the sealed segments, oldest first; they are checked when read."""
        return await self._source.segments()

    async def sources(self) -> Mapping[int, Mapping[str, str]]:
        """Return from which sources each term decided: digests by package, by term."""
        return await self._source.sources()

    async def job_events(self, job_id: str, to: int | None = None) -> Sequence[tuple[int, Event]]:
        """Return the events about one job, up to `to`, with their numbers in order."""
        found: list[tuple[int, Event]] = []
        async for frame in self._indexed(lambda span: span.has_job(job_id), to):
            found += [(seq, event) for seq, event in frame.about(job_id) if to is None or seq <= to]
        return found

    async def first_about(self, job_id: str) -> tuple[int, Event] | None:
        """Return the first event about a job with its number; None: there is none."""
        async for frame in self._indexed(lambda span: span.has_job(job_id)):
            for found in frame.about(job_id):
                return found
        return None

    async def job_ids(self) -> Sequence[str]:
        """Return the ids of all jobs that events are about, in alphabetical order."""
        spans = await self._index()
        found = {name for span in spans for name in span.jobs}
        async for frame in self.frames(spans[-1].last_seq if spans else 0):
            found.update(row[2] for row in frame.rows() if row[2] is not None)
        return sorted(found)

    async def events_of(self, kinds: frozenset[str], to: int) -> Sequence[tuple[int, Event]]:
        """Return the events of some kinds up to `to` with their numbers."""
        found: list[tuple[int, Event]] = []
        async for frame in self._indexed(lambda span: span.has_kind(kinds), to):
            found += [(seq, event) for seq, event in frame.of_kinds(kinds) if seq <= to]
        return found

    async def frame_with(self, seq: int) -> Frame:
        """Return the frame that holds an event."""
        return await anext(aiter(self.frames(seq - 1, seq)))

    async def check_tail(self) -> Head:
        """Prove what a start relies on, and return the head.

        That is the newest snapshot, the frames after it, that none is missing before, and that
        nothing is missing after; the rest is for `verify`, which takes longer.

        Raises:
            LogDamagedError: something is not what was written; names its sequence number.
        """
        return await _check_tail(self, self._source)

    async def verify(self, schema: bool = False) -> VerifyReport:
        """Read and decode everything; `schema` holds events to the published one too.

        Raises:
            LogDamagedError: something is not what was written; names its sequence number.
        """
        return await _verify(self, self._source, schema=schema)

    async def _indexed(
        self, has: Callable[[Span], bool], to: int | None = None
    ) -> AsyncIterator[Frame]:
        """Read the frames of some spans, and those that no span covers."""
        spans = await self._index()
        covered = spans[-1].last_seq if spans else 0
        for first, last in runs([span for span in spans if has(span)]):
            if to is None or first <= to:
                async for frame in self.frames(first - 1, last if to is None else min(last, to)):
                    yield frame
        async for frame in self.frames(covered, to):
            yield frame

    async def _index(self) -> Sequence[Span]:
        """Return the index of jobs, which is brought up to the head where it can be kept."""
        if self._spans is None:
            head = await self.head()
            self._spans, wrong = sound_spans(await self._source.spans(), head.seq)
            if wrong is not None:
                await self._source.keep_spans(wrong - 1, ())
            await self._extend(self._spans, head.seq)
        return self._spans

    async def _extend(self, spans: list[Span], head_seq: int) -> None:
        """Make the spans that are missing, as long as they can be kept."""
        after = spans[-1].last_seq if spans else 0
        if head_seq - after < SPAN_EVENTS:
            return
        maker, made, at_once = SpanMaker(), list[Span](), 1
        async for frame in self.frames(after, head_seq):
            span = maker.take(frame)
            if span is None:
                continue
            made.append(span)
            spans.append(span)
            if len(made) == at_once:
                if not await self._source.keep_spans(made[0].first_seq - 1, made):
                    return
                made, at_once = [], SPANS_AT_ONCE
        if made:
            await self._source.keep_spans(made[0].first_seq - 1, made)

    async def _frame_before(self, frame: Frame) -> Frame:
        """Return a stand-in for the frame before, with what checking needs of it."""
        chain = await self._source.chain_before(frame.first_seq)
        return Frame(frame.first_seq - 1, 1, 0, 0, chain, b"")


async def _check_tail(reader: LogReader, source: Source) -> Head:
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


async def _verify(reader: LogReader, source: Source, *, schema: bool) -> VerifyReport:
    """Read and decode everything; `schema` holds events to the published one too."""
    check = _checker(schema=schema)
    anchor = await source.anchor()
    head = await reader.head()
    terms = await source.terms()
    past = _PastCheck(source, await source.past_upto())
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


async def _refuse_gaps(reader: LogReader, source: Source) -> None:
    seq = await source.gap()
    if seq is not None:
        raise LogDamagedError(
            f"the frames of {reader.url} are not whole at sequence number {seq}", seq
        )


async def _check_snapshots(reader: LogReader, source: Source) -> int:
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


async def _check_index(reader: LogReader, source: Source) -> None:
    _, wrong = sound_spans(await source.spans(), (await reader.head()).seq)
    if wrong is not None:
        raise LogDamagedError(
            f"the index of jobs of {reader.url} is damaged at sequence number {wrong}; it is made "
            "anew when a job's events are asked for",
            wrong,
        )


class _PastCheck:
    """Compares the tables of past jobs with the events that they are made of."""

    def __init__(self, source: Source, upto: int | None) -> None:
        self._source = source
        self._upto = upto or 0
        self._done = 0
        self._expected = PastRows()

    async def take(self, first_seq: int, events: Sequence[Event]) -> None:
        """Go through the next events."""
        last_seq = min(self._upto, first_seq + len(events) - 1)
        for seq, event in enumerate(events[: max(0, last_seq + 1 - first_seq)], first_seq):
            self._expected.add(seq, event)
        if last_seq - self._done >= PAST_EVENTS:
            await self._compare(last_seq)

    async def end(self) -> None:
        """Compare what is left."""
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
