"""The last place of a row at which something holds, found by halving it, and how sure that is.

Halving finds the last place only where all that hold come before all that do not. Nothing says so
of decisions, so what was tried is told as well, and later places are looked at once more.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

TRIED_MOST = 24
"""So many places are tried at most."""

SPOTS = 3
"""So many places after the one that is found are looked at once more."""

_FIRST_PARTS = 4
_KEPT = SPOTS + 2
"""Tries that halving leaves for the neighbours and the spot checks."""


@dataclass(frozen=True)
class Search:
    """What was found.

    `found` is the last place known to hold, None: none. `tried` says of each place that was tried
    whether it holds. `spots` are the places that were looked at once more. `is_next` says that the
    place right after the one found does not hold, or that there is none.
    """

    found: int | None
    tried: dict[int, bool]
    spots: tuple[int, ...] = ()
    is_next: bool = True

    @property
    def disagreeing(self) -> tuple[int, ...]:
        """The places after the one found that hold as well."""
        if self.found is None:
            return ()
        return tuple(place for place in sorted(self.tried) if place > self.found and self[place])

    def __getitem__(self, place: int) -> bool:
        """Say whether a place that was tried holds."""
        return self.tried[place]


async def find_last(
    count: int, holds: Callable[[int], Awaitable[bool]], most: int = TRIED_MOST
) -> Search:
    """Return the last place found at which something holds.

    Args:
        count: how many places there are.
        holds: says of a place whether it holds there; asked once of each.
        most: how many places may be tried, at least 10.
    """
    tried: dict[int, bool] = {}

    async def ask(place: int) -> bool:
        if place not in tried:
            tried[place] = await holds(place)
        return tried[place]

    if not count:
        return Search(None, tried)
    last = count - 1
    if await ask(last):
        if last:
            await ask(last - 1)
        return Search(last, tried)
    low = None
    for part in range(_FIRST_PARTS):
        if await ask(last * part // _FIRST_PARTS):
            low = last * part // _FIRST_PARTS
            break
    if low is None:
        return Search(None, tried)
    high = last
    while high - low > 1 and len(tried) < most - _KEPT:
        middle = (low + high) // 2
        if await ask(middle):
            low = middle
        else:
            high = middle
    for place in (low - 1, low + 1):
        if place >= 0:
            await ask(place)
    low += tried[low + 1]  # it holds where the row is too long to be halved to its end
    spots = _spots(low + 1, last, tried)
    for place in spots:
        await ask(place)
    return Search(low, tried, spots, tried.get(low + 1) is False)


def _spots(after: int, last: int, tried: dict[int, bool]) -> tuple[int, ...]:
    """Return places between two that were not tried, evenly spaced."""
    room = [place for place in range(after + 1, last) if place not in tried]
    if len(room) <= SPOTS:
        return tuple(room)
    return tuple(room[len(room) * part // (SPOTS + 1)] for part in range(1, SPOTS + 1))
