"""How many may follow: all together and each user; who takes nothing is dropped with a word."""

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest

from shunter.api import Stream, event_stream as streams
from shunter.daemon import Site
from shunter.errors import UnreachableError
from tests.unit.app.api.test_slow_readers import Connection

pytestmark = pytest.mark.asyncio


def stream(slow_s: float = 60) -> Stream:
    """Return a stream with no event in it; it needs no more of a site than this."""
    feed = SimpleNamespace(recent=lambda after, most: [])
    site = SimpleNamespace(committed=0, read_log=None, feed=feed, dated=str)
    return Stream(cast("Site", site), slow_s=slow_s)


async def followed(all_of_them: Stream, user: str) -> AsyncGenerator[bytes, None]:
    """Begin to follow: the first piece has been taken."""
    following = all_of_them.follow(user, 0, lambda _: True)
    assert await anext(following) == b"retry: 1000\n\n"
    return following


async def test_one_user_may_follow_so_often_and_others_still_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "FOLLOWERS_MOST_OF_ONE", 2)
    shared = stream()
    first, second = await followed(shared, "ana"), await followed(shared, "ana")
    async with aclosing(first), aclosing(second):
        with pytest.raises(UnreachableError, match="2 clients of ana follow already: end some"):
            shared.answer("ana", 0, lambda _: True)
        shared.answer("ben", 0, lambda _: True)
        await first.aclose()
        shared.answer("ana", 0, lambda _: True)


async def test_all_together_may_follow_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "FOLLOWERS_MOST", 1)
    shared = stream()
    async with aclosing(await followed(shared, "ana")):
        with pytest.raises(UnreachableError, match="1 clients follow already: try again later"):
            shared.answer("ben", 0, lambda _: True)
    shared.answer("ben", 0, lambda _: True)


async def test_limits_are_generous_and_one_user_cannot_take_all() -> None:
    assert 100 < streams.FOLLOWERS_MOST_OF_ONE <= streams.FOLLOWERS_MOST / 2


async def test_follower_who_takes_nothing_is_dropped_with_a_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shared, connection = stream(slow_s=0.05), Connection(takes=1)
    scope: dict[str, Any] = connection.scope
    with caplog.at_level(logging.WARNING), anyio.fail_after(5):
        answer = shared.answer("ana", 0, lambda _: True)
        await answer(scope, connection.receive, connection.send)
    assert connection.was_cut.is_set()
    assert (shared.dropped >= 1, shared.followers) == (True, 0)
    assert "a follower took nothing for 0.05 s and was cut off" in caplog.text
