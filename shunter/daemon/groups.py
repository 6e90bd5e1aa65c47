"""Multi-jobs of a live cluster: the jobs of one search, by their user and the name of their group.

Members that have ended are no part of the state, so who was ever submitted to a group is read from
the log: all of it with the first question, what came since with each later one. So are the tasks of
arrays.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from shunter.errors import NotFoundError
from shunter.events.facts import Event, JobSubmitted
from shunter.events.log import LogReader
from shunter.events.values import JobId

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
