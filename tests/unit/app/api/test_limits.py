"""What one user may take of a daemon: rates, turns, followers, and readers who take nothing."""

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest

from shunter.api import CUT, RateLimit, Stream, TimelyResponse, UserTurns, event_stream as streams
from shunter.daemon import Site
from shunter.errors import RateLimitedError, UnreachableError


def test_so_many_at_once_and_then_a_steady_rate() -> None:
    limit = RateLimit(2.0)
    limit.take("ana", 0.0)
    limit.take("ana", 0.0)
    with pytest.raises(RateLimitedError, match="ana proposes too often: 2 times a second") as told:
        limit.take("ana", 0.0)
    assert told.value.retry_after_s == 0.5
    limit.take("ana", 0.5)
    with pytest.raises(RateLimitedError):
        limit.take("ana", 0.6)


def test_a_rest_saves_up_one_second_at_most() -> None:
    limit = RateLimit(3.0)
    for _ in range(3):
        limit.take("ana", 1000.0)
    with pytest.raises(RateLimitedError):
        limit.take("ana", 1000.0)


def test_users_have_limits_of_their_own() -> None:
    limit = RateLimit(1.0)
    limit.take("ana", 0.0)
    limit.take("bo", 0.0)
    with pytest.raises(RateLimitedError):
        limit.take("ana", 0.0)


def test_less_than_one_a_second_is_one_after_a_while() -> None:
    limit = RateLimit(0.5)
    limit.take("ana", 0.0)
    with pytest.raises(RateLimitedError) as told:
        limit.take("ana", 1.0)
    assert told.value.retry_after_s == 1.0
    limit.take("ana", 2.0)


async def asked(turns: UserTurns, users: list[str]) -> tuple[list[str], int, int]:
    """Let users ask at the same time; return who was refused.

    And the most who were at work, of one user and in all.
    """
    refused: list[str] = []
    at_work: list[str] = []
    of_one = in_all = 0

    async def ask(user: str) -> None:
        nonlocal of_one, in_all
        try:
            async with turns.turn(user):
                at_work.append(user)
                of_one = max(of_one, at_work.count(user))
                in_all = max(in_all, len(at_work))
                for _ in range(5):
                    await anyio.lowlevel.checkpoint()
                at_work.remove(user)
        except RateLimitedError as error:
            refused.append(f"{user} for {error.retry_after_s:g} s")

    async with anyio.create_task_group() as tasks:
        for user in users:
            tasks.start_soon(ask, user)
    return refused, of_one, in_all


def test_of_one_user_one_is_at_work_some_wait_and_others_are_refused() -> None:
    turns = UserTurns("answers", waiting_most=2, at_once=9, retry_after_s=7.0)

    assert anyio.run(asked, turns, ["ana"] * 5 + ["bo"]) == (["ana for 7 s"] * 2, 1, 2)


def test_who_was_refused_may_ask_again_once_others_have_gone() -> None:
    async def twice() -> None:
        turns = UserTurns("answers", waiting_most=0, at_once=9, retry_after_s=7.0)
        assert await asked(turns, ["ana"] * 2) == (["ana for 7 s"], 1, 1)
        assert await asked(turns, ["ana"]) == ([], 1, 1)

    anyio.run(twice)


def test_of_all_users_only_so_many_are_at_work() -> None:
    turns = UserTurns("answers", waiting_most=0, at_once=2, retry_after_s=7.0)

    assert anyio.run(asked, turns, ["ana", "bo", "chen", "dan"]) == ([], 1, 2)


def test_turn_is_given_back_where_the_work_fails() -> None:
    turns = UserTurns("answers", waiting_most=0, at_once=1, retry_after_s=7.0)

    async def fails() -> None:
        async with turns.turn("ana"):
            raise ValueError("no")

    async def twice() -> None:
        for _ in range(2):
            with pytest.raises(ValueError, match="no"):
                await fails()

    anyio.run(twice)


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


@pytest.mark.asyncio
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


@pytest.mark.asyncio
async def test_reader_who_takes_all_is_not() -> None:
    closed: list[str] = []
    connection = Connection(takes=1000)
    response = TimelyResponse(pieces(closed, 5), "text/plain", slow_s=5)
    with anyio.fail_after(5):
        await response(connection.scope, connection.receive, connection.send)
    assert not connection.was_cut.is_set()
    assert closed == ["closed"]


@pytest.mark.asyncio
async def test_generator_is_closed_when_the_reader_leaves_in_mid_piece() -> None:
    closed: list[str] = []
    connection = Connection(takes=1)
    response = TimelyResponse(pieces(closed, 5), "text/plain", slow_s=60)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(response, connection.scope, connection.receive, connection.send)
        await anyio.sleep(0.05)
        connection.was_cut.set()
    assert closed == ["closed"]


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


@pytest.mark.asyncio
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


@pytest.mark.asyncio
async def test_all_together_may_follow_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "FOLLOWERS_MOST", 1)
    shared = stream()
    async with aclosing(await followed(shared, "ana")):
        with pytest.raises(UnreachableError, match="1 clients follow already: try again later"):
            shared.answer("ben", 0, lambda _: True)
    shared.answer("ben", 0, lambda _: True)


@pytest.mark.asyncio
async def test_limits_are_generous_and_one_user_cannot_take_all() -> None:
    assert 100 < streams.FOLLOWERS_MOST_OF_ONE <= streams.FOLLOWERS_MOST / 2


@pytest.mark.asyncio
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
