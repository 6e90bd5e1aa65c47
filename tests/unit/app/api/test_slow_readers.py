"""Readers who take nothing: cut off in time, with their generator closed and the cut counted."""

from collections.abc import AsyncGenerator
from typing import Any

import anyio
import pytest

from shunter.api import CUT, TimelyResponse

pytestmark = pytest.mark.asyncio


class Connection:
    """The other side: it takes so many messages, then nothing until it is cut."""

    def __init__(self, takes: int) -> None:
        self.takes = takes
        self.was_cut = anyio.Event()
        self.scope: dict[str, Any] = {"type": "http", "extensions": {CUT: self.was_cut.set}}

    async def receive(self) -> dict[str, Any]:
        await self.was_cut.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.takes -= 1
        if self.takes < 0:
            await anyio.sleep_forever()


async def pieces(closed: list[str], most: int) -> AsyncGenerator[bytes, None]:
    try:
        for _ in range(most):
            yield b"x"
    finally:
        closed.append("closed")


async def test_reader_who_takes_nothing_is_cut() -> None:
    closed: list[str] = []
    slow: list[int] = []
    connection = Connection(takes=2)
    response = TimelyResponse(
        pieces(closed, 1000), "text/plain", slow_s=0.05, was_slow=lambda: slow.append(1)
    )
    with anyio.fail_after(5):
        await response(connection.scope, connection.receive, connection.send)
    assert connection.was_cut.is_set()
    assert (closed, slow[:1]) == (["closed"], [1])


async def test_reader_who_takes_all_is_not() -> None:
    closed: list[str] = []
    connection = Connection(takes=1000)
    response = TimelyResponse(pieces(closed, 5), "text/plain", slow_s=5)
    with anyio.fail_after(5):
        await response(connection.scope, connection.receive, connection.send)
    assert not connection.was_cut.is_set()
    assert closed == ["closed"]


async def test_generator_is_closed_when_the_reader_leaves_in_mid_piece() -> None:
    closed: list[str] = []
    connection = Connection(takes=1)
    response = TimelyResponse(pieces(closed, 5), "text/plain", slow_s=60)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(response, connection.scope, connection.receive, connection.send)
        await anyio.sleep(0.05)
        connection.was_cut.set()
    assert closed == ["closed"]
