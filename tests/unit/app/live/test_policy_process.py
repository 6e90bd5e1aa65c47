"""The process of a live policy: its limits, its messages, and how it starts."""

import socket
import struct
import subprocess
import sys
from typing import get_args

import anyio
import pytest

from shunter.core import (
    Change,
    Judge,
    Move,
    Pack,
    Plan,
    Rehome,
    Reshape,
    Resize,
    Start,
    Suspend,
    Try,
)
from shunter.daemon import REPLY_BYTES_MOST, START, START_S, PolicyProxy, Replies
from shunter.errors import PlanError
from shunter.events import Batch, Because, ChangeKey, GpuType, JobId, TrialKind, TrialReason, facts
from shunter.policy_process import HEADER, plan_of, receive, targets_bytes, targets_of, wire_plan
from tests.factories import allocation, policy


def test_what_a_start_may_take_more_is_told_apart_from_the_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = facts.SchedulerStarted(0, 1, "0", "fifo", "1", 0, "{}")
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


def test_plan_from_the_process_of_a_policy_is_to_be_approved_whatever_it_says() -> None:
    plan = Plan((Suspend(JobId("j1"), Because("outranked")),), is_drafted=True)
    assert plan_of(wire_plan(plan)) == Plan(plan.changes)


def test_answer_from_the_process_of_a_policy_comes_as_it_was() -> None:
    solved = facts.SizesSet(7, (facts.Size(JobId("j1"), 3000, 5),), 1.5, 2.0)
    assert targets_of(targets_bytes(solved)) == solved
    assert targets_of(targets_bytes(None)) is None


def test_changes_of_every_kind_come_back_as_they_were_sent() -> None:
    because, there = Because("fifo", (1.5,), (JobId("j2"),)), allocation(n0=0b11)
    changes: dict[type, Change] = {
        Start: Start(JobId("j1"), there, because),
        Suspend: Suspend(JobId("j1"), because),
        Move: Move(JobId("j1"), there, because),
        Pack: Pack(JobId("j1"), there, because),
        Reshape: Reshape(JobId("j1"), there, because),
        Rehome: Rehome(JobId("j1"), there, because),
        Resize: Resize(JobId("j1"), there, because),
    }
    assert set(changes) == set(get_args(Change))
    key = ChangeKey("pack", ("x", "y"), GpuType("v100"))
    batches = (Batch(JobId("j1"), 5), Batch(JobId("j2"), 6))
    tried = Try(JobId("j1"), TrialKind.pack, (JobId("j2"),), key, 1_000_000, batches)
    judged = Judge(JobId("j3"), TrialReason.room, 0, ())
    plan = Plan(tuple(changes.values()), trials=(tried, judged))
    assert plan_of(wire_plan(plan)) == plan


def test_daemon_that_goes_in_mid_message_is_gone() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        theirs.sendall(HEADER.pack(100) + b"half of it")
        theirs.close()
        assert receive(ours) is None


def test_daemon_that_was_killed_before_it_had_read_all_is_gone() -> None:
    """Its end of the connection is reset then, which is no less of an end."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    with ours:
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        theirs.close()
        assert receive(ours) is None


NOT_NEEDED = (
    "asyncio",
    "sqlalchemy",
    "sqlite3",
    "shunter.daemon",
    "shunter.run",
    "shunter.backends.live.backend",
    "shunter.backends.live.ssh",
    "shunter.backends.slurm",
    "shunter.events.log",
)


def test_policys_process_imports_nothing_of_the_daemon() -> None:
    code = (
        "import sys\n"
        "import shunter.policy_process.child\n"
        f"print([name for name in {NOT_NEEDED!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_process_that_was_forked_ahead_is_the_first_policys_only() -> None:
    """Goal: a start imports what policies need once; the next policy has its own process.

    Method: a program forks ahead, makes two of them, kills both, and ends both once more.
    """
    code = (
        "import shunter.policy_process.child as ahead\n"
        "ahead.fork_ahead()\n"
        "from shunter.daemon.policy import PolicyProcess\n"
        "both = [PolicyProcess(), PolicyProcess()]\n"
        "print([type(each._process).__name__ for each in both])\n"
        "for each in both:\n"
        "    each._process.kill()\n"
        "print([each._process.wait() for each in both])\n"
        "for each in both:\n"
        "    each.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.splitlines() == ["['ForkedChild', 'Popen']", "[-9, -9]"]


def test_process_that_was_forked_ahead_ends_with_a_daemon_that_did_not_take_it() -> None:
    code = (
        "import os\n"
        "import shunter.policy_process.child as ahead\n"
        "ahead.fork_ahead()\n"
        "print(ahead.taken()[1]._pid, flush=True)\n"
        "os._exit(3)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60
    )
    # The pipes of both are at their ends: the copy, which has them too, is gone.
    assert (done.returncode, done.stdout.strip().isdigit(), done.stderr) == (3, True, "")
