"""Groups of tasks: calls that are made together, and what the errors of a group are about."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import anyio

from shunter.errors import ShunterError

__all__ = ["first_error", "gathered"]


def first_error(errors: BaseException) -> BaseException:
    """Return the first error of ours in a group, else its first; any other as it is."""
    while isinstance(errors, BaseExceptionGroup):
        ours = errors.subgroup(ShunterError)
        errors = (ours or errors).exceptions[0]
    return errors


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
        raise first_error(errors) from None
    return [found[number] for number in sorted(found)]
