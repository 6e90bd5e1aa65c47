"""Costly answers: one of a user at a time, a few that wait, and so many in all."""

import anyio
import anyio.lowlevel
import pytest

from shunter.api import UserTurns
from shunter.errors import RateLimitedError


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
