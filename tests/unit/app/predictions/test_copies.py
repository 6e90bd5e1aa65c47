"""Copies of a process: their work reaches who asked, nothing of it stays, and they end in time."""

import os
import socket
import time

import pytest

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
