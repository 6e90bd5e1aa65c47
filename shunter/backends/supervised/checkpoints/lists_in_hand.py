"""How much memory the lists of large checkpoints take, of all that are copied at once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

__all__ = ["ListsInHand"]


class ListsInHand:
    """Lets lists be held together up to a weight; first come, first served.

    Args:
        most: how much they may weigh together; one that weighs more is held alone.
    """

    def __init__(self, most: int) -> None:
        self._most = self._left = most
        self._turn = anyio.Lock()
        self._given_back = anyio.Event()

    @asynccontextmanager
    async def held(self, weight: int) -> AsyncIterator[None]:
        """Wait until lists of this weight may be held, and hold them for a while."""
        taken = min(weight, self._most)
        async with self._turn:
            while self._left < taken:
                self._given_back = anyio.Event()
                await self._given_back.wait()
            self._left -= taken
        try:
            yield
        finally:
            self._left += taken
            self._given_back.set()
