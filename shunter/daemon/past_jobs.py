"""Jobs of the past of a live cluster: outcomes and keys, and the members of groups and arrays.

    event ──▶ memory ──▶ commit: frame and rows in one transaction ──▶ forgotten here

What is durable is in tables of the log's database, the rest in memory. So an answer is never behind
what the scheduler knows, and after a crash never ahead of the log.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import anyio

from shunter.errors import NotFoundError, UnavailableError
from shunter.events import EndedJob, Event, JobId, JobSubmitted, Outcome, PastRows, number_of
from shunter.events.log import LogReader, LogWriter, StoredPastJobs, open_past_jobs


@contextmanager
def past_jobs(log: LogWriter) -> Iterator["LivePastJobs"]:
    """Open what is known of past jobs of a live cluster.

    Raises:
        LogError: the log cannot be read.
    """
    past = LivePastJobs(open_past_jobs(log))
    try:
        yield past
    finally:
        past.close()


class LivePastJobs:
    """Answers for single jobs and keys; memory does not grow with history."""

    def __init__(self, stored: StoredPastJobs) -> None:
        self._opened: StoredPastJobs | None = stored
        self._ended: dict[JobId, Outcome] = {}
        self._keys: dict[str, JobId] = {}
        self._open: deque[tuple[int, PastRows]] = deque()

    @property
    def _stored(self) -> StoredPastJobs:
        """The tables; UnavailableError: they are closed, as the daemon ends."""
        if self._opened is None:
            raise UnavailableError("the scheduler has stopped; ask again once it is started")
        return self._opened

    def close(self) -> None:
        """Let go of the log."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def outcome(self, job_id: JobId) -> Outcome | None:
        """Return how a job ended; None: it has not, or there never was one.

        Raises:
            LogError: the log cannot be read.
        """
        return self._ended.get(job_id) or self._stored.outcome(job_id)

    def job_of(self, key: str) -> JobId | None:
        """Return the job that was submitted under a key; None: there is none.

        Raises:
            LogError: the log cannot be read.
        """
        return self._keys.get(key) or self._stored.job_of(key)

    def take(self, seq: int, event: Event) -> None:
        """Go through the next event, which need not be durable yet."""
        rows = PastRows()
        rows.add(seq, event)
        self._ended.update((each.job_id, each.outcome) for each in rows.ended)
        self._keys.update((key, job_id) for _, key, job_id in rows.keys)
        if rows:
            self._open.append((seq, rows))

    def durable(self, seq: int) -> None:
        """Forget what the tables say, now that the events up to this one are durable."""
        while self._open and self._open[0][0] <= seq:
            _, rows = self._open.popleft()
            for each in rows.ended:
                self._ended.pop(each.job_id, None)
            for _, key, _ in rows.keys:
                self._keys.pop(key, None)

    def ended_before(self, seq: int, most: int) -> Sequence[EndedJob]:
        """Return the last jobs that ended before an event, durably, the newest first.

        Raises:
            LogError: the log cannot be read.
        """
        return self._stored.ended_before(seq, most)

    @property
    def last_number(self) -> int:
        """The highest number of an id like j12 of a job that has ended, or is lost; or 0."""
        return max([self._stored.last_number, *map(number_of, self._ended)])


# Members that have ended are no part of the state, so who was ever in a group is read from the log:
# all of it with the first question, what came since with each later one.

Read = Callable[[Callable[[LogReader], Awaitable[Any]]], Awaitable[Any]]
"""Does some work with a reader of the log."""


class Groups:
    """Knows the members of each group, those that have ended too, by submission."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._upto = 0
        self._members: dict[tuple[str, str], list[JobId]] = {}
        self._tasks: dict[JobId, list[JobId]] = {}
        self._reading = anyio.Lock()

    async def members(self, user: str, group: str) -> list[JobId]:
        """Return the jobs of a group, as far as they are durable.

        Raises:
            NotFoundError: no job of this user was ever submitted to it.
        """
        await self._go_on()
        found = self._members.get((user, group))
        if not group or found is None:
            raise NotFoundError(
                f"there is no group {group!r} of {user}; it begins with the first job that is "
                f"submitted to it (`shunter submit --group`)"
            )
        return list(found)

    async def tasks(self, first: JobId) -> list[JobId]:
        """Return the tasks of an array, by the id of the first."""
        await self._go_on()
        return list(self._tasks.get(first, ()))

    async def _go_on(self) -> None:
        """Go through the submissions that came since."""

        async def submitted(reader: LogReader) -> tuple[int, list[Event]]:
            head = (await reader.head()).seq
            if self._upto:
                later = reader.events(self._upto, head)
                return head, [event async for event in later if isinstance(event, JobSubmitted)]
            found = await reader.events_of(frozenset((JobSubmitted.__name__,)), head)
            return head, [event for _, event in found]

        async with self._reading:
            self._upto, events = await self._read(submitted)
            for event in events:
                assert isinstance(event, JobSubmitted), "no other kind was asked for"
                if event.spec.array:
                    self._tasks.setdefault(event.spec.array, []).append(event.job_id)
                if event.spec.group:
                    key = (str(event.spec.user), event.spec.group)
                    self._members.setdefault(key, []).append(event.job_id)
