"""Reading the log beside the scheduler, without keeping it waiting."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

import anyio
from anyio import to_thread

from shunter.events.log import LogReader

T = TypeVar("T")

PAST_AT_ONCE = 2
"""Readers of the past at work at the same time; others wait for their turn."""


class LogAccess:
    """Reads the log beside the scheduler, in a thread with a loop of its own.

    Folding a long log takes seconds. On the scheduler's loop, nothing would be decided meanwhile.
    """

    def __init__(self, opened: Callable[[], AbstractAsyncContextManager[LogReader]]) -> None:
        self._opened = opened
        self._turns = anyio.CapacityLimiter(PAST_AT_ONCE)

    async def read(self, work: Callable[[LogReader], Awaitable[T]]) -> T:
        """Return what some work finds in the log, as far as it is durable."""

        async def with_reader() -> T:
            async with self._opened() as reader:
                return await work(reader)

        return await to_thread.run_sync(lambda: anyio.run(with_reader), limiter=self._turns)
