"""Attempts that share the GPUs of a server in turns: real supervisors, without any scheduler.

What is claimed of times is counted from the journals, whose instants the supervisors noted.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shunter.backends.node import attempts, folder_of
from tests.faults.supervised import machine_at, wait_for
from tests.live.turns.turning import QUANTUM_US, Turning, turning_at

pytestmark = pytest.mark.live


@pytest.fixture
def turning(tmp_path: Path) -> Iterator[Turning]:
    with machine_at(tmp_path) as machine, turning_at(machine) as made:
        yield made


def test_six_jobs_on_four_gpus_have_equal_shares_without_a_scheduler(turning: Turning) -> None:
    """Acceptance 1 of issue 15, counted from the turns; then two end, and nobody waits."""
    for number in range(6):
        turning.starts(1 << number % 4)
    turning.waits_for_turns(1)
    since_ns = time.monotonic_ns()
    turning.waits_for_turns(8)
    until_ns = time.monotonic_ns()
    span, quantum = until_ns - since_ns, QUANTUM_US * 1000
    had = [turning.had(job, since_ns, until_ns) for job in turning.jobs]
    assert all(abs(each - span * 4 / 6) <= 1.5 * quantum for each in had), (had, span)
    print("shares", [round(each / span, 4) for each in had], "of four", sum(had) / span / 4)
    assert sum(had) >= 0.9 * 4 * span
    assert turning.is_never_shared()
    for job in turning.jobs[:2]:
        turning.ends(job)
    rest = turning.jobs[2:]
    wait_for(lambda: all(map(turning.has_turn, rest)), "turns of all")
    counts = [len(turning.turns(job)) for job in rest]
    time.sleep(3 * QUANTUM_US / 1e6)
    assert counts == [len(turning.turns(job)) for job in rest], "they have the GPUs for themselves"


def test_who_waits_for_its_first_turn_has_not_begun(turning: Turning) -> None:
    first = turning.starts(1, quantum_us=600_000_000)
    wait_for(lambda: turning.turns(first), "its turn")
    second = turning.starts(1, "print('here', flush=True)", quantum_us=600_000_000)
    time.sleep(0.3)
    output = Path(folder_of(turning.root, second, 1)) / "stdout.0"
    assert output.read_text() == ""
    turning.ends(first)
    wait_for(lambda: output.read_text() == "here\n", "its output")


def test_another_supervisor_rotates_when_the_one_that_did_is_killed(turning: Turning) -> None:
    jobs = [turning.starts(1) for _ in range(3)]
    turning.waits_for_turns(2)
    for _ in range(2):  # each of them may be the one that rotates
        killed = jobs.pop(0)
        turning.waits_for_its_turn(killed)
        os.kill(turning.supervisor(killed), signal.SIGKILL)
        turning.jobs.remove(killed)
        turning.waits_for_its_turn(jobs[-1])
    count = len(turning.turns(jobs[0]))
    time.sleep(3 * QUANTUM_US / 1e6)
    assert len(turning.turns(jobs[0])) == count, "it has the GPU for itself"
    assert turning.is_never_shared()


def test_who_is_stopped_takes_no_turns_until_it_goes_on(turning: Turning) -> None:
    stopped, other = turning.starts(1), turning.starts(1)
    turning.waits_for_turns(1)
    turning.sends(stopped, "stop")
    wait_for(lambda: turning.notes(stopped)[-1]["what"] == "stopped", "its stop")
    count = len(turning.turns(stopped))
    turning.waits_for_its_turn(other)
    time.sleep(3 * QUANTUM_US / 1e6)
    assert len(turning.turns(stopped)) == count
    turning.sends(stopped, "continue")
    turning.waits_for_turns(2)
    assert turning.is_never_shared()


@pytest.mark.parametrize("others", [0, 1])
def test_who_is_stopped_and_goes_on_at_once_has_turns_again(turning: Turning, others: int) -> None:
    """Whoever rotates may have seen nothing of it, and count it among those that have a turn."""
    job, *_ = [turning.starts(1, is_fixed=True) for _ in range(1 + others)]
    turning.waits_for_its_turn(job)
    for _ in range(20):
        stops_and_goes_on(turning, job)
    assert turning.is_never_shared()


def stops_and_goes_on(turning: Turning, job: str) -> None:
    begun = len(turning.turns(job))
    turning.sends(job, "stop")
    turning.sends(job, "continue")
    wait_for(lambda: len(turning.turns(job)) > begun, "a turn after it")


def test_who_is_to_leave_has_the_next_turn_and_keeps_it(turning: Turning) -> None:
    other = turning.starts(1, quantum_us=600_000_000)
    wait_for(lambda: turning.turns(other), "its turn")
    program = (
        "import os, sys, time\n"
        "while not os.path.exists(os.environ['SHUNTER_SUSPEND']): time.sleep(0.01)\n"
        "sys.exit(75)\n"
    )
    leaver = turning.starts(1, program, quantum_us=600_000_000)
    turning.sends(leaver, "suspend", mode="cooperative")
    folder = folder_of(turning.root, leaver, 1)
    status: Any = wait_for(lambda: attempts.probe(folder)["status"], "its end")
    assert (status["code"], status["suspended"], status["why"]) == (75, True, "suspend")
    turning.waits_for_its_turn(other)
    assert len(turning.turns(other)) == 2
