"""The one log reader: whatever it returns has been checked against its neighbours and the head."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

import orjson

from shunter.errors import IllegalEventError, LogDamagedError
from shunter.events.codec import decode_event
from shunter.events.kinds import Event
from shunter.events.log.frames import GENESIS, Frame, Head, Snapshot, next_chain
from shunter.events.log.stores import Segment, Source

NEAR_EVENTS = 20_000
"""Frames that are nearer to each other are read in one go, with what lies between: a source reads
about so many events at a time anyway."""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What a log was found to hold, all of it sound."""

    frames: int
    events: int
    digest: str
    snapshots: int
    segments: int
    term: int


class LogReader:
    """Reads one log, checking as it goes; made by `read_log`."""

    def __init__(self, source: Source) -> None:
        self._source = source

    @property
    def url(self) -> str:
        """The address of the log."""
        return self._source.url

    async def head(self) -> Head:
        """Return where the log ends now."""
        head = await self._source.head()
        if head.seq < 0 or (head.seq == 0) != (head.chain == GENESIS):
            raise LogDamagedError(f"the head of {self.url} does not fit itself: {head}", head.seq)
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
                before = _checked(frame, seq, before, head)
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

    async def segments(self) -> Sequence[Segment]:
        """Return the sealed segments, oldest first; they are checked when read."""
        return await self._source.segments()

    async def job_events(self, job_id: str) -> Sequence[tuple[int, Event]]:
        """Return the events about one job with their sequence numbers, in order."""
        firsts = await self._source.frames_of_job(job_id)
        found: list[tuple[int, Event]] = []
        if firsts is None:
            async for frame in self.frames():
                found += _about(frame, job_id)
        else:
            wanted = frozenset(firsts)
            for first, last in _runs(firsts):
                async for frame in self.frames(first - 1, last):
                    if frame.first_seq in wanted:
                        found += _about(frame, job_id)
        return found

    async def first_about(self, job_id: str) -> int | None:
        """Return the number of the first event about a job; None where no index tells it."""
        firsts = await self._source.frames_of_job(job_id)
        for first in (firsts or ())[:1]:
            async for frame in self.frames(first - 1, first):
                return next((seq for seq, _ in _about(frame, job_id)), None)
        return None

    async def frame_with(self, seq: int) -> Frame:
        """Return the frame that holds an event."""
        return await anext(aiter(self.frames(seq - 1, seq)))

    async def check_tail(self) -> Head:
        """Prove what a start relies on, and return the head.

        That is the newest snapshot, the frames after it, and that none is missing before; the
        rest is for `verify`, which takes longer.

        Raises:
            LogDamagedError: something is not what was written; names its sequence number.
        """
        head = await self.head()
        await self._refuse_gaps()
        snapshot = await self.snapshot_at(head.seq)
        after = min(snapshot.seq if snapshot else 0, head.seq - 1)
        async for frame in self.frames(max(0, after), head.seq):
            frame.events()
        return head

    async def verify(self, schema: bool = False) -> VerifyReport:
        """Read and decode everything; `schema` holds events to the published one too.

        Raises:
            LogDamagedError: something is not what was written; names its sequence number.
        """
        check = _checker(schema=schema)
        head = await self.head()
        frames = events = 0
        chain = None
        async for frame in self.frames(0, head.seq):
            check(frame)
            frames += 1
            events += frame.count
            chain = frame.chain
        assert events == head.seq, "the reader has seen every event up to the head"
        await self._refuse_gaps()
        snapshots = await self.snapshots()
        if snapshots and snapshots[-1].seq > (await self.head()).seq:
            raise LogDamagedError(
                f"the snapshot at sequence number {snapshots[-1].seq} lies after the head",
                snapshots[-1].seq,
            )
        segments = await self.segments()
        digest = (chain or head.chain).hex()
        return VerifyReport(frames, events, digest, len(snapshots), len(segments), head.term)

    async def _refuse_gaps(self) -> None:
        seq = await self._source.gap()
        if seq is not None:
            raise LogDamagedError(
                f"the frames of {self.url} are not whole at sequence number {seq}", seq
            )

    async def _frame_before(self, frame: Frame) -> Frame:
        """Return a stand-in for the frame before, with what checking needs of it."""
        chain = await self._source.chain_before(frame.first_seq)
        return Frame(frame.first_seq - 1, 1, 0, 0, chain, b"")


def _checked(frame: Frame, seq: int, before: Frame | None, head: Head) -> Frame:
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


def _runs(firsts: Sequence[int]) -> list[tuple[int, int]]:
    """Return first and last of the frames that lie near each other, run by run."""
    found: list[tuple[int, int]] = []
    for first in firsts:
        if found and first - found[-1][1] < NEAR_EVENTS:
            found[-1] = (found[-1][0], first)
        else:
            found.append((first, first))
    return found


def _about(frame: Frame, job_id: str) -> list[tuple[int, Event]]:
    """Return the frame's events about a job; only those are decoded whole."""
    rows = orjson.loads(frame.payload)
    return [
        (seq, decode_event(row))
        for seq, row in enumerate(rows, frame.first_seq)
        if row[2] == job_id
    ]


def _checker(*, schema: bool) -> Callable[[Frame], object]:
    """Return what proves a payload: decoding it, or the published schema too."""
    if not schema:
        return Frame.events
    from shunter.events.schema import check_event

    def check(frame: Frame) -> None:
        for seq, event in enumerate(frame.events(), frame.first_seq):
            try:
                check_event(event)
            except IllegalEventError as error:
                raise LogDamagedError(f"the event {seq}: {error}", seq) from error

    return check
