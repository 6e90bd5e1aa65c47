"""Stores without a file: one keeps frames for its process's life, one keeps only the chain."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from shunter.errors import LogError, NotFoundError
from shunter.events.log.frames import GENESIS, Frame, Head, Outcomes, Snapshot
from shunter.events.log.job_index import Span
from shunter.events.log.stores import Batch, Segment, Source
from shunter.events.past_jobs import PastRows


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
