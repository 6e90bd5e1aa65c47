"""The ports between the one log writer and what keeps its frames, and the one to read them back.

`LogWriter` cuts, chains and batches; a store only keeps what it is given, all of it or nothing.
`LogReader` checks; a source only fetches. At the end are the stores without a file.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from shunter.errors import LogError, NotFoundError
from shunter.events.facts import Outcome
from shunter.events.log.frames import GENESIS, Frame, Head, Outcomes, Snapshot, Span
from shunter.events.past_jobs import EndedJob, PastRows
from shunter.events.values import JobId


@dataclass(frozen=True, slots=True)
class Batch:
    """What one transaction adds; snapshots are not beyond its frames.

    `past` is what the frames say of past jobs, where the log is a live one.
    """

    frames: Sequence[Frame]
    snapshots: Sequence[Snapshot]
    past: PastRows = field(default_factory=PastRows)


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of frames under one digest: compressed, read-only, part of the log."""

    first_seq: int
    last_seq: int
    digest: str


class Source(Protocol):
    """Where a reader fetches from; it does not check what it returns."""

    @property
    def url(self) -> str:
        """The address of the log, for messages."""
        ...

    @property
    def lacks_anchor(self) -> bool:
        """Whether the log was kept with an anchor, and has none now."""
        ...

    async def anchor(self) -> Head | None:
        """Return up to where the log was synced, as its anchor says; None: it has none.

        What is written while this is read moves the head first, so the head is asked for after it.
        """
        ...

    async def head(self) -> Head:
        """Return where the log ends now."""
        ...

    async def chunk(self, seq: int) -> Sequence[Frame]:
        """Return some frames in order, the first being the one that should hold `seq`."""
        ...

    async def chain_before(self, first_seq: int) -> bytes:
        """Return the chain value of the frame before the one that begins there."""
        ...

    async def snapshots(self) -> Sequence[Snapshot]:
        """Return all snapshots, oldest first."""
        ...

    async def snapshot_at(self, seq: int) -> Snapshot | None:
        """Return the newest snapshot not after `seq`; None if there is none."""
        ...

    async def outcomes(self, count: int) -> Sequence[Outcomes]:
        """Return how the first so many jobs ended, in order of their ends."""
        ...

    async def past_upto(self) -> int | None:
        """Return up to which event the tables of past jobs go; None: there are none.

        Raises:
            LogDamagedError: what says so is not what was written.
        """
        ...

    async def past(self, after: int, to: int) -> PastRows:
        """Return what the tables of past jobs say of the events after one, up to another."""
        ...

    async def segments(self) -> Sequence[Segment]:
        """Return the sealed segments, oldest first; they are checked when read."""
        ...

    async def terms(self) -> Sequence[tuple[int, int]]:
        """Return the first numbers of terms with theirs, as far as known."""
        ...

    async def refuse_changed(self) -> None:
        """Raise LogDamagedError if something beside frames and snapshots was changed."""
        ...

    async def gap(self) -> int | None:
        """Return a sequence number at which frames do not follow; None: they do."""
        ...

    async def sources(self) -> Mapping[int, Mapping[str, str]]:
        """Return from which sources each term decided, where that was noted."""
        ...

    async def spans(self) -> Sequence[Span]:
        """Return what the index of jobs has, oldest first."""
        ...

    async def keep_spans(self, after: int, spans: Sequence[Span]) -> bool:
        """Have the index go on like this after an event; False: it cannot."""
        ...


class StoredPastJobs(Protocol):
    """Looks up single past jobs in a log that is written, as far as it is durable.

    To be used on the thread that opened it. A look raises LogError where the log cannot be read.
    """

    @property
    def last_number(self) -> int:
        """The highest number of an id like j12 of a job that has ended; 0: there is none."""
        ...

    def outcome(self, job_id: JobId) -> Outcome | None:
        """Return how a job ended; None: it has not, or there never was one."""
        ...

    def job_of(self, key: str) -> JobId | None:
        """Return the job that was submitted under a key; None: there is none."""
        ...

    def ended_before(self, seq: int, most: int) -> Sequence[EndedJob]:
        """Return the last jobs that ended before an event, the newest first."""
        ...

    def close(self) -> None:
        """Let go of the log."""
        ...


class Store(Protocol):
    """Where a writer keeps what it cut."""

    async def write(self, batch: Batch, old: Head, new: Head) -> None:
        """Keep the batch and move the head from `old` to `new`, all or nothing.

        Raises:
            StaleTermError: the head is not `old`: another writer took over.
            LogError: it cannot be kept; nothing was.
        """
        ...

    async def seal(self, head: Head, upto_seq: int) -> Segment | None:
        """Move the oldest frames up to `upto_seq` into one segment; None: none left."""
        ...

    async def bring_past_up_to_date(self) -> None:
        """Have the tables of past jobs say all that the log says, from here on too."""
        ...

    async def thin_snapshots(
        self, head: Head, superseded: Callable[[Sequence[int]], Sequence[int]]
    ) -> None:
        """Forget the snapshots that `superseded` picks from the numbers of all, in order."""
        ...

    def refuse_replaced(self) -> None:
        """Raise LogError if this writes files that were removed or replaced."""
        ...

    def source(self) -> AbstractAsyncContextManager[Source]:
        """Open what was written for reading."""
        ...

    async def note_sources(self, head: Head, sources: Mapping[str, str]) -> None:
        """Keep from which sources the head's term decides: digests by package."""
        ...

    async def close(self) -> None:
        """Let go of everything held; closing twice is allowed."""
        ...


class MemoryStore:
    """Keeps frames and snapshots in lists; `read_log(log)` reads them."""

    url = "memory:"
    lacks_anchor = False

    def __init__(self) -> None:
        self._frames: list[Frame] = []
        self._snapshots: list[Snapshot] = []
        self._head = Head(0, GENESIS, 1)
        self._sources: dict[int, Mapping[str, str]] = {}

    async def write(self, batch: Batch, old: Head, new: Head) -> None:
        """Keep the batch."""
        assert old == self._head, "nobody else can write to this memory"
        self._frames += batch.frames
        kept = {snapshot.seq: snapshot for snapshot in (*self._snapshots, *batch.snapshots)}
        self._snapshots = [kept[seq] for seq in sorted(kept)]
        self._head = new

    async def seal(self, head: Head, upto_seq: int) -> Segment | None:
        """Seal nothing: memory is not kept for long."""
        assert head == self._head, "nobody else can write to this memory"
        if await self.snapshot_at(head.seq) is None or self._snapshots[-1].seq < upto_seq:
            raise LogError(f"frames up to {upto_seq} cannot be sealed: no snapshot is as new")
        return None

    def refuse_replaced(self) -> None:
        """Refuse nothing: there are no files."""

    async def bring_past_up_to_date(self) -> None:
        """Do nothing: memory keeps no tables."""

    async def thin_snapshots(
        self, head: Head, superseded: Callable[[Sequence[int]], Sequence[int]]
    ) -> None:
        """Forget the snapshots that are picked."""
        assert head == self._head, "nobody else can write to this memory"
        gone = superseded([snapshot.seq for snapshot in self._snapshots])
        self._snapshots = [kept for kept in self._snapshots if kept.seq not in gone]

    async def note_sources(self, head: Head, sources: Mapping[str, str]) -> None:
        """Keep from which sources the head's term decides."""
        self._sources[head.term] = dict(sources)

    async def sources(self) -> Mapping[int, Mapping[str, str]]:
        """Return from which sources each term decided."""
        return dict(self._sources)

    @asynccontextmanager
    async def source(self) -> AsyncIterator[Source]:
        """Read what is here, now or after the writer has closed."""
        yield self

    async def close(self) -> None:
        """Keep everything: a closed memory log can still be read."""

    async def anchor(self) -> Head | None:
        """Return None: memory is lost as a whole."""
        return None

    async def head(self) -> Head:
        """Return where the log ends now."""
        return self._head

    async def chunk(self, seq: int) -> Sequence[Frame]:
        """Return the frames from the one that holds `seq` on, a hundred at most."""
        first = self._index(seq)
        return self._frames[first : first + 100]

    async def chain_before(self, first_seq: int) -> bytes:
        """Return the chain value of the frame before the one that begins there."""
        first = self._index(first_seq)
        return self._frames[first - 1].chain if first else GENESIS

    async def snapshots(self) -> Sequence[Snapshot]:
        """Return all snapshots, oldest first."""
        return tuple(self._snapshots)

    async def snapshot_at(self, seq: int) -> Snapshot | None:
        """Return the newest snapshot not after `seq`; None if there is none."""
        older = [snapshot for snapshot in self._snapshots if snapshot.seq <= seq]
        return older[-1] if older else None

    async def outcomes(self, count: int) -> Sequence[Outcomes]:
        """Return how the first so many jobs ended, in order of their ends."""
        return ()

    async def past_upto(self) -> int | None:
        """Return None: memory keeps no tables."""
        return None

    async def past(self, after: int, to: int) -> PastRows:
        """Return nothing: memory keeps no tables."""
        return PastRows()

    async def segments(self) -> Sequence[Segment]:
        """Return nothing: see `seal`."""
        return ()

    async def terms(self) -> Sequence[tuple[int, int]]:
        """Return nothing: a memory log has one term."""
        return ()

    async def refuse_changed(self) -> None:
        """Do nothing: nobody else can write to this memory."""

    async def gap(self) -> int | None:
        """Return None: lists have no holes."""
        return None

    async def spans(self) -> Sequence[Span]:
        """Return nothing: a memory log is short enough to look through."""
        return ()

    async def keep_spans(self, after: int, spans: Sequence[Span]) -> bool:
        """Keep nothing."""
        assert after == 0 or spans, "an index that is empty has nothing to lose"
        return False

    def _index(self, seq: int) -> int:
        return next(i for i, frame in enumerate(self._frames) if frame.last_seq >= seq)


class NullStore:
    """Keeps nothing: the writer's chain value is all there is."""

    url = "none:"

    async def write(self, batch: Batch, old: Head, new: Head) -> None:
        """Forget the batch."""
        assert old.seq + sum(frame.count for frame in batch.frames) == new.seq

    async def seal(self, head: Head, upto_seq: int) -> Segment | None:
        """Seal nothing."""
        assert upto_seq <= head.seq, "only what is written can be sealed"
        return None

    def refuse_replaced(self) -> None:
        """Refuse nothing: there are no files."""

    async def bring_past_up_to_date(self) -> None:
        """Do nothing: nothing is kept."""

    async def thin_snapshots(
        self, head: Head, superseded: Callable[[Sequence[int]], Sequence[int]]
    ) -> None:
        """Do nothing: there are none."""
        assert not superseded([]), "of nothing, nothing can be picked"

    async def note_sources(self, head: Head, sources: Mapping[str, str]) -> None:
        """Keep nothing of it either."""
        assert all(sources.values()), "a source has a digest"

    @asynccontextmanager
    async def source(self) -> AsyncIterator[Source]:
        """Refuse: there is nothing to read."""
        if self.url:
            raise NotFoundError("the log none: keeps no events; use memory: or a file")
        yield MemoryStore()

    async def close(self) -> None:
        """Do nothing."""
