"""The one log writer: it fixes the order, cuts frames, chains them, and commits in groups.

    append ──▶ pending events ──cut──▶ frames, chained ──one transaction──▶ store

A simulation cuts a frame at exactly every `frame_events` events and writes several frames a
transaction, so its chain does not depend on how appends and commits fell. A live writer
(`frame_events` None) cuts at each commit, and callers that commit at the same time share one
transaction.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

import anyio
import orjson

from shunter.errors import LogError
from shunter.events.codec import encode_payload
from shunter.events.facts import Event
from shunter.events.log.frames import Frame, Head, Snapshot, next_chain
from shunter.events.log.stores import Batch, Segment, Source, Store
from shunter.events.past_jobs import PAST_KINDS, PastRows

_OF_PAST = frozenset(PAST_KINDS)


class LogWriter:
    """Appends events to one log; made by `open_log`, used by one task group.

    `warning` is what whoever writes the log should know of it; empty: nothing. `lost` are the first
    and the last sequence number of events whose loss was accepted when it was opened.
    """

    __slots__ = (
        "_chain",
        "_cut_at",
        "_frame_events",
        "_frames",
        "_frames_per_transaction",
        "_live",
        "_lock",
        "_past",
        "_pending",
        "_seq",
        "_snapshots",
        "_stopped",
        "_store",
        "_url",
        "_written",
        "lost",
        "warning",
    )

    def __init__(
        self,
        url: str,
        store: Store,
        head: Head,
        *,
        frame_events: int | None,
        frames_per_transaction: int,
        warning: str = "",
        lost: tuple[int, int] | None = None,
    ) -> None:
        assert frame_events is None or frame_events > 0
        assert frames_per_transaction > 0
        self._url = url
        self._store = store
        self._written = head
        self._chain = head.chain
        self._seq = head.seq
        self._live = frame_events is None
        self._frame_events = frame_events or sys.maxsize
        # Appending compares with this alone; -1 sends it to where a closed writer is refused.
        self._cut_at = self._frame_events
        self._frames_per_transaction = frames_per_transaction
        self._pending: list[Event] = []
        self._frames: list[Frame] = []
        self._snapshots: list[Snapshot] = []
        self._past = PastRows()
        self.warning = warning
        self.lost = lost
        self._lock = anyio.Lock(fast_acquire=True)
        self._stopped: LogError | None = None

    @property
    def url(self) -> str:
        """The address it was opened with."""
        return self._url

    @property
    def seq(self) -> int:
        """The sequence number of the last event appended; 0 before the first."""
        return self._seq

    @property
    def events(self) -> int:
        """How many events the log has, with those of earlier terms."""
        return self._seq

    @property
    def term(self) -> int:
        """The writer's term; every start takes a higher one."""
        return self._written.term

    @property
    def digest(self) -> str:
        """The chain value as hex over all frames cut so far; over everything once closed."""
        return self._chain.hex()

    def append(self, events: Sequence[Event]) -> int:
        """Fix the place of these events, without I/O; return the last one's number.

        Raises:
            LogError: the writer is closed, or an earlier commit failed.
        """
        pending = self._pending
        pending += events
        self._seq += len(events)
        if len(pending) >= self._cut_at:
            self._cut_full_frames()
        return self._seq

    async def commit(self) -> None:
        """Make what was appended durable (live), or write full transactions (simulation).

        Raises:
            StaleTermError: another writer took over; nothing was written.
            LogError: it cannot be written, now or at an earlier commit.
        """
        if self._live:
            await self._flush_up_to(self._seq)
        elif len(self._frames) >= self._frames_per_transaction:
            await self._write_full_transactions()
        elif self._stopped is not None:
            raise self._stopped

    async def flush(self) -> None:
        """Write every frame that is cut; live, cut what was appended first."""
        if self._live:
            await self._flush_up_to(self._seq)
            return
        async with self._lock:
            await self._write(len(self._frames))

    async def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot, in one transaction with the frame that holds its last event."""
        assert 0 < snapshot.seq <= self._seq, "a snapshot lies within the log"
        snapshot.check()
        self._snapshots.append(snapshot)
        if self._live:
            async with self._lock:
                self._cut_rest()
                await self._write(len(self._frames))

    async def note_sources(self, sources: Mapping[str, str]) -> None:
        """Note from which sources this term decides: digests by package.

        They lie beside the events, and the log's digest does not cover them: equal runs have equal
        digests, whatever else was changed in the code.
        """
        async with self._lock:
            self._refuse_if_stopped()
            with anyio.CancelScope(shield=True):
                await self._store.note_sources(self._written, sources)

    async def seal(self, upto_seq: int) -> Segment | None:
        """Move the oldest frames up to `upto_seq` into one segment; None if none is left."""
        sealed = None
        async with self._lock:
            self._refuse_if_stopped()
            with anyio.CancelScope(shield=True):
                sealed = await self._store.seal(self._written, upto_seq)
        return sealed

    async def thin_snapshots(self, superseded: Callable[[Sequence[int]], Sequence[int]]) -> None:
        """Forget the snapshots that `superseded` picks from the numbers of all, in order."""
        async with self._lock:
            self._refuse_if_stopped()
            with anyio.CancelScope(shield=True):
                await self._store.thin_snapshots(self._written, superseded)

    async def refuse_replaced(self) -> None:
        """Raise LogError if the files that are written were removed or replaced."""
        async with self._lock:
            self._refuse_if_stopped()
            try:
                self._store.refuse_replaced()
            except LogError as error:
                self._stop(error)
                raise

    def source(self) -> AbstractAsyncContextManager[Source]:
        """Open what this writer has written for reading, as `read_log` does."""
        return self._store.source()

    async def close(self) -> None:
        """Cut and write what is left, then let go of the store; closing twice is allowed."""
        try:
            if self._stopped is None:
                async with self._lock:
                    self._cut_rest()
                    await self._write(len(self._frames))
        finally:
            await self.abandon()

    async def abandon(self) -> None:
        """Let go of the store without writing the rest, as a crash would."""
        if self._stopped is None:
            self._stop(LogError(f"the log {self._url} is closed"))
        with anyio.CancelScope(shield=True):
            await self._store.close()

    async def _flush_up_to(self, seq: int) -> None:
        """Return once `seq` is durable, by this call or by one before it."""
        while self._written.seq < seq:
            async with self._lock:
                if self._written.seq < seq:
                    self._cut_rest()
                    await self._write(len(self._frames))
        if self._stopped is not None:
            raise self._stopped

    async def _write_full_transactions(self) -> None:
        async with self._lock:
            while len(self._frames) >= self._frames_per_transaction:
                await self._write(self._frames_per_transaction)

    async def _write(self, frames: int) -> None:
        """Write the first so many frames and the snapshots they complete."""
        self._refuse_if_stopped()
        old = self._written
        cut = self._frames[:frames]
        new = Head(cut[-1].last_seq, cut[-1].chain, old.term) if cut else old
        complete = [snapshot for snapshot in self._snapshots if snapshot.seq <= new.seq]
        if not cut and not complete:
            return
        past, self._past = self._past, PastRows()
        try:
            # A transaction that was begun is ended, also when its caller is cancelled.
            with anyio.CancelScope(shield=True):
                await self._store.write(Batch(cut, complete, past), old, new)
        except LogError as error:
            self._stop(error)
            raise
        self._written = new
        del self._frames[:frames]
        # Only what was in this transaction: another one may have been handed in meanwhile.
        self._snapshots = [
            waiting
            for waiting in self._snapshots
            if not any(waiting is written for written in complete)
        ]

    def _cut_full_frames(self) -> None:
        self._refuse_if_stopped()
        size, pending = self._frame_events, self._pending
        full = len(pending) - len(pending) % size
        for start in range(0, full, size):
            self._cut(pending[start : start + size])
        del pending[:full]

    def _cut_rest(self) -> None:
        if self._pending:
            self._cut(self._pending)
            self._pending = []

    def _cut(self, events: list[Event]) -> None:
        last = self._frames[-1].last_seq if self._frames else self._written.seq
        try:
            payload = encode_payload(events)
        except (orjson.JSONEncodeError, TypeError, KeyError, AttributeError) as error:
            stopped = LogError(f"an event after {last} cannot be encoded: {error}", last + 1)
            self._stop(stopped)
            raise stopped from error
        self._chain = next_chain(self._chain, payload)
        frame = Frame(
            last + 1, len(events), events[0].at_us, self._written.term, self._chain, payload
        )
        self._frames.append(frame)
        if self._live:
            for seq, event in enumerate(events, frame.first_seq):
                if type(event) in _OF_PAST:
                    self._past.add(seq, event)

    def _stop(self, error: LogError) -> None:
        """Refuse everything from here on: what was appended may be lost."""
        self._stopped = error
        self._cut_at = -1

    def _refuse_if_stopped(self) -> None:
        if self._stopped is not None:
            raise self._stopped
