"""What is kept of a log that lives for years, and of the files of its jobs."""

from collections.abc import Callable, Sequence
from contextlib import suppress

import anyio
import anyio.lowlevel

from shunter.backends.node import failpoint
from shunter.config import LogSection
from shunter.core import Scheduler, State
from shunter.daemon.backends import LiveBackend
from shunter.daemon.feed import Feed
from shunter.daemon.policy import PolicyProxy
from shunter.errors import BackendError, UnreachableError
from shunter.events import JOB_ENDS, PastJobs, SegmentSealed
from shunter.events.log import LogWriter, Segment, Snapshot
from shunter.run import snapshot_of

# A start reads the newest snapshot and what follows it. Old events become sealed segments, a tenth
# of their size; of old snapshots one in a while is kept, to reach any moment of the past.

SNAPSHOT_EVENTS = 5_000
"""Events between snapshots where the config does not say; to read them takes 0.1 s."""

FILES_LOOK_S = 1.0
"""Between two looks at the files of the log."""

NEWEST_KEPT = 2
SPAN_EVENTS = 250_000
"""Of older snapshots, one in so many events is kept: folding so many takes a second."""


class LogMaintenance:
    """Takes snapshots between steps; writes, seals and tidies beside the loop."""

    def __init__(
        self,
        core: Scheduler,
        asked: PolicyProxy,
        log: LogWriter,
        backend: LiveBackend,
        section: LogSection,
    ) -> None:
        self._core = core
        self._asked = asked
        self._log = log
        self._backend = backend
        self._every = section.snapshot_every or SNAPSHOT_EVENTS
        self._seal_after = section.seal_after
        self._due_seq = log.seq + self._every
        self._taken: Snapshot | None = None
        self._came = anyio.Event()

    async def look(self) -> None:
        """Take a snapshot if one is due; call it between two steps, once all is durable."""
        if self._log.seq >= self._due_seq and not self._asked.is_busy:
            self._due_seq = self._log.seq + self._every
            memory = await self._asked.memory(self._core.state.seq)
            self._taken = snapshot_of(self._core, memory)
            self._came.set()

    async def run(self) -> None:
        """Write what was taken, seal what is old, for ever.

        Raises:
            LogError: the log cannot be written.
        """
        while True:
            await self._came.wait()
            self._came = anyio.Event()
            taken, self._taken = self._taken, None
            if taken is not None:
                await self._keep(taken)

    async def _keep(self, taken: Snapshot) -> None:
        failpoint("snapshot taken")
        await self._log.save_snapshot(taken)
        failpoint("snapshot kept")
        await self._log.thin_snapshots(superseded)
        while segment := await self._log.seal(max(0, taken.seq - self._seal_after)):
            failpoint("segment sealed")
            self._tell(segment)
            await anyio.lowlevel.checkpoint()  # commits that wait go first

    def _tell(self, segment: Segment) -> None:
        self._backend.post(
            lambda at_us: SegmentSealed(at_us, segment.first_seq, segment.last_seq, segment.digest)
        )


async def watch_files(log: LogWriter, look_s: float = FILES_LOOK_S) -> None:
    """See that the files of the log are those that are written, for ever.

    A scheduler that has nothing to write would not notice: what it acknowledged last may be in a
    removed file alone, which is gone if it is killed.

    Raises:
        LogError: one was removed or replaced.
    """
    while True:
        await anyio.sleep(look_s)
        await log.refuse_replaced()


def superseded(seqs: Sequence[int]) -> list[int]:
    """Return the snapshots, of all in order, that need not be kept any longer."""
    old = seqs[: len(seqs) - NEWEST_KEPT]
    spans: set[int] = set()
    found = []
    for seq in old:
        if seq // SPAN_EVENTS in spans:
            found.append(seq)
        spans.add(seq // SPAN_EVENTS)
    return found


# What jobs have left. It is removed only once their end is durable, and not while a server does not
# answer: what that has of a job may be younger.

RETENTION_LOOK_S = 3600.0
"""How often it is looked what has become old."""


async def keep_for(
    keep_s: float,
    backend: LiveBackend,
    state: State,
    past: PastJobs,
    feed: Feed,
    tell: Callable[[str], None],
) -> None:
    """Remove what is older than so long, for ever.

    Args:
        keep_s: seconds since anything of a job changed.
        backend: where attempts lie.
        state: what is true; read on the thread of the loop only, as `past` is.
        past: which jobs have ended.
        feed: says what of it is durable.
        tell: told what could not be removed, once for each time that it changes.
    """
    told = ""
    while True:
        try:
            await _remove(keep_s, backend, state, past, feed)
            said = ""
        except BackendError as error:  # the next look tries again; nobody waits for it
            said = f"old output and records cannot be removed: {error}"
        if said and said != told:
            tell(said)
        told = said
        await anyio.sleep(min(RETENTION_LOOK_S, keep_s))


async def _remove(
    keep_s: float, backend: LiveBackend, state: State, past: PastJobs, feed: Feed
) -> None:
    """Remove what is old now; BackendError: something cannot be removed."""
    old = await backend.old_jobs(keep_s)
    ended, seq = [job for job in old if past.outcome(job) is not None], state.seq
    if ended:
        with suppress(UnreachableError):  # the log closes
            await feed.reached(seq)
            await backend.remove_attempts(ended)


async def forget_environments(feed: Feed, backend: LiveBackend) -> None:
    """Remove the environment of each job whose end is durable, until the log closes.

    Raises:
        BackendError: it cannot be removed.
    """
    async for _, event in feed.follow(feed.committed):
        if isinstance(event, JOB_ENDS):
            await backend.store_environments({event.job_id: {}})
