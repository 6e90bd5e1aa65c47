"""The port between the one log writer and what keeps its frames, and the one to read them back.

`LogWriter` cuts, chains and batches; a store only keeps what it is given, all of it or nothing.
`LogReader` checks; a source only fetches. So every store obeys the same rules by construction.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from shunter.events.facts import Outcome
from shunter.events.log.frames import Frame, Head, Outcomes, Snapshot
from shunter.events.log.job_index import Span
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
