"""The one log reader: whatever it returns has been checked against its neighbours and the head."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from shunter.errors import LogDamagedError
from shunter.events.facts import Event
from shunter.events.log.consistency import checked_frame, refuse_lost, without_anchor
from shunter.events.log.frames import GENESIS, Frame, Head, Outcomes, Snapshot
from shunter.events.log.job_index import SPAN_EVENTS, Span, SpanMaker, runs, sound_spans
from shunter.events.log.stores import Segment, Source
from shunter.events.log.verification import VerifyReport, check_tail, verify

SPANS_AT_ONCE = 20
STEP_BACK, LONGEST_STEP = 1_000, 20_000


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
        return await check_tail(self, self._source)

    async def verify(self, schema: bool = False) -> VerifyReport:
        """Read and decode everything; `schema` holds events to the published one too.

        Raises:
            LogDamagedError: something is not what was written; names its sequence number.
        """
        return await verify(self, self._source, schema=schema)

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
