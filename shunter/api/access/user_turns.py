"""Costly answers: one at a time for each user, a few who wait, and so many at work in all."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from shunter.errors import RateLimitedError

__all__ = ["UserTurns"]


class UserTurns:
    """Gives users their turns; who has too many that wait is refused."""

    def __init__(self, what: str, *, waiting_most: int, at_once: int, retry_after_s: float) -> None:
        """Name what is asked for in one word, and how many of a user and in all may ask.

        Args:
            what: for the message of who is refused.
            waiting_most: of one user, beside the one that is at work.
            at_once: of all users, at work.
            retry_after_s: when who is refused may ask again.
        """
        self._what = what
        self._most = 1 + waiting_most
        self._retry_after_s = retry_after_s
        self._all = anyio.CapacityLimiter(at_once)
        self._of_users: dict[str, tuple[anyio.Lock, int]] = {}

    @asynccontextmanager
    async def turn(self, user: str) -> AsyncIterator[None]:
        """Wait for a turn of a user, and hold it.

        Raises:
            RateLimitedError: as many of his as may wait do.
        """
        lock, count = self._of_users.get(user, (None, 0))
        if count >= self._most:
            raise RateLimitedError(
                f"{user} has {count} {self._what} at work or waiting, and no more may be: wait for "
                "their answers",
                self._retry_after_s,
            )
        lock = lock or anyio.Lock()
        self._of_users[user] = lock, count + 1
        try:
            async with lock, self._all:
                yield
        finally:
            _, count = self._of_users[user]
            if count == 1:
                del self._of_users[user]
            else:
                self._of_users[user] = lock, count - 1
