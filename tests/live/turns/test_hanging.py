"""Supervisors that are stopped: real ones, and who ends their attempts."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from shunter.backends.node import (
    LOOK_S,
    LOOKS,
    READ_MOST_S,
    Command,
    Unanswered,
    attempts,
    folder_of,
    processes,
    session,
)
from tests.faults.supervised import machine_at, wait_for
from tests.live.turns.turning import Turning, turning_at

pytestmark = pytest.mark.live
FENCE = Command(do="fence", term=1)


class Clock:
    now_s = 0.0


@pytest.fixture
def turning(tmp_path: Path) -> Iterator[Turning]:
    with machine_at(tmp_path) as machine, turning_at(machine) as made:
        yield made


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(session, "time", SimpleNamespace(monotonic=lambda: clock.now_s))
    return clock


def looks(told: Unanswered, clock: Clock) -> None:
    for _ in range(LOOKS + 1):
        told.look()
        clock.now_s += LOOK_S


@pytest.mark.parametrize("do", ["fence", "terminate"])
def test_an_attempt_whose_supervisor_is_stopped_is_ended_without_it(
    turning: Turning, clock: Clock, do: str
) -> None:
    job = turning.starts(1)
    turning.waits_for_its_turn(job)
    folder, told = folder_of(turning.root, job, 1), Unanswered()
    ranks = attempts.pids_of(turning.root, (job, 1), processes())
    os.kill(turning.supervisor(job), signal.SIGSTOP)
    told.send(folder, Command(do=do, term=1))
    looks(told, clock)
    assert attempts.probe(folder)["state"] == "running", "it may yet read the order"
    clock.now_s = READ_MOST_S
    looks(told, clock)
    wait_for(lambda: not attempts.sweep(folder), "the end of all that it had")
    assert attempts.probe(folder)["state"] == "lost"
    assert ranks
    assert not set(ranks) & processes().keys()


def test_a_supervisor_that_reads_ends_its_job_itself(turning: Turning, clock: Clock) -> None:
    job = turning.starts(1)
    folder, told = folder_of(turning.root, job, 1), Unanswered()
    told.send(folder, FENCE.replaced(term=0))  # of a scheduler that was replaced
    turning.waits_for_its_turn(job)
    clock.now_s = READ_MOST_S
    looks(told, clock)
    assert attempts.probe(folder)["state"] == "running"
