"""The limits of a policy's process: of time, told by the key that sets it, and of what it says."""

import socket

import anyio
import pytest

from shunter.daemon import REPLY_BYTES_MOST, START, START_S, PolicyProxy, Replies
from shunter.errors import PlanError
from shunter.events import SchedulerStarted
from shunter.policy_process import HEADER
from tests.factories import policy


def test_what_a_start_may_take_more_is_told_apart_from_the_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = SchedulerStarted(0, 1, "0", "fifo", "1", 0, "{}")
    asked = PolicyProxy(policy("fifo"), started, b"", 90_000_000)
    try:
        monkeypatch.setattr(asked, "_hook", "plan")
        assert (asked.limit_s, asked.limit_in_words) == (90, "policy.time_limit, 90 s")
        monkeypatch.setattr(asked, "_hook", START)
        assert asked.limit_s == 90 + START_S
        assert asked.limit_in_words == "policy.time_limit, 90 s, and 60 s more to start"
    finally:
        asked.close()


@pytest.mark.asyncio
async def test_reply_beyond_all_measure_is_refused_before_it_is_received() -> None:
    ours, theirs = socket.socketpair()
    replies = Replies(ours)
    with theirs:
        theirs.sendall(HEADER.pack(REPLY_BYTES_MOST))
        with pytest.raises(PlanError, match="and 64 MiB at most are taken"):
            await replies.reply()
    replies.close()


@pytest.mark.asyncio
async def test_who_waits_for_a_reply_learns_at_once_that_there_will_be_none() -> None:
    """Else the number of the closed socket may be another connection's by the time he looks."""
    ours, theirs = socket.socketpair()
    replies, said = Replies(ours), list[str]()

    async def waits() -> None:
        try:
            await replies.reply()
        except PlanError as error:
            said.append(str(error))

    with theirs, anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(waits)
            await anyio.wait_all_tasks_blocked()
            replies.close()
    assert said == ["its process closed its connection"]
