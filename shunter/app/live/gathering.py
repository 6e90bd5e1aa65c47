"""Calls that are made together, and what comes of them."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import anyio

from shunter.app.live.unwrapping import the_one
from shunter.errors import ShunterError

__all__ = ["gathered"]

T = TypeVar("T")


async def gathered(calls: Iterable[Callable[[], Awaitable[T]]]) -> list[T]:
    """Return what calls return that are made together; the first error ends it.

    Raises:
        ShunterError: what one of them raised.
    """
    found: dict[int, T] = {}

    async def one(number: int, call: Callable[[], Awaitable[T]]) -> None:
        found[number] = await call()

    try:
        async with anyio.create_task_group() as group:
            for number, call in enumerate(calls):
                group.start_soon(one, number, call)
    except* ShunterError as errors:
        raise the_one(errors) from None
    return [found[number] for number in sorted(found)]
