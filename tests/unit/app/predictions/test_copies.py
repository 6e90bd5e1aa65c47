"""Processes of forecasts: copies whose work reaches who asked, and that end in time."""

import gc
import os
import socket
import time
import warnings

import anyio
import anyio.lowlevel
import pytest

from shunter.api import services as forecasts
from shunter.ask.forks import Question
from shunter.errors import PlanError
from shunter.policy_process import HEADER, REPLY, Copies, DryRan, Failed, Reply

RAN = DryRan(5, "n0[0]", starts=True)


def reply_to(copies: Copies, work: object, limit_s: float = 30.0) -> Reply | None:
    """Return what a copy sends; None: it ended without a word."""
    ours, theirs = socket.socketpair()
    with ours:
        copies.make(work, limit_s, theirs.detach())  # type: ignore[arg-type]  # any callable
        ours.settimeout(60)
        found = b""
        while part := ours.recv(4096):
            found += part
    return REPLY.decode(found[HEADER.size :]) if found else None


def test_work_is_done_in_a_copy_and_changes_nothing_here() -> None:
    state = ["as it was"]

    def work() -> DryRan:
        state.append("changed")
        return DryRan(os.getpid(), " ".join(state), starts=False)

    found = reply_to(Copies(), work)

    assert isinstance(found, DryRan)
    assert found.where == "as it was changed"
    assert found.at_us != os.getpid()
    assert state == ["as it was"]


def test_policy_that_fails_in_a_copy_is_told() -> None:
    def work() -> DryRan:
        raise PlanError("no plan")

    assert reply_to(Copies(), work) == Failed("no plan")


@pytest.mark.parametrize("fault", [SystemExit, ZeroDivisionError])
def test_copy_that_ends_in_another_way_says_nothing(fault: type[BaseException]) -> None:
    def work() -> DryRan:
        raise fault

    assert reply_to(Copies(), work) is None


def test_copy_that_takes_too_long_is_ended_by_its_own_clock() -> None:
    def work() -> DryRan:
        while True:
            time.time()

    assert reply_to(Copies(), work, limit_s=0.2) is None


def test_no_copy_stays_behind() -> None:
    copies = Copies()
    for _ in range(5):
        assert reply_to(copies, lambda: RAN) == RAN
    end_s = time.monotonic() + 30
    while (left := len(copies._alive)) and time.monotonic() < end_s:
        copies._reap()
    assert left == 0


STEPS = 12
"""Of the loop, while a process is started: cancelled in some of these it was left behind."""


async def _cancelled_after(steps: int) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(forecasts._made, Question("sqlite:///none.db"))
        for _ in range(steps):
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("steps", range(STEPS))
def test_forecast_cancelled_while_its_process_starts_leaves_none_behind(
    monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """Method: what is left running warns once it is collected; the process only sleeps."""
    monkeypatch.setattr(forecasts, "BOOT", "import time; time.sleep(60)")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        anyio.run(_cancelled_after, steps)
        gc.collect()
    assert [str(each.message) for each in seen] == []
