"""Launchers under the real supervisor: ranks are asked by signals, and their launcher is spared."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shunter.backends.node import read_journal
from tests.faults.supervised import Machine, machine_at, wait_for

pytestmark = pytest.mark.live

LAUNCHER = """
# It goes for torch.distributed.run, by whose name a launcher is known.
import os, signal, subprocess, sys
heard = []
for name in ("TERM", "USR1", "TSTP"):
    signal.signal(getattr(signal, "SIG" + name), lambda number, _: heard.append(number))
def begun():
    return [
        subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", sys.argv[1]],
            env={**os.environ, "LOCAL_RANK": str(rank), "GROUP_RANK": "0"},
            start_new_session=True,
        )
        for rank in range(2)
    ]
for _ in range(int(sys.argv[2])):
    codes = [each.wait() for each in begun()]
    print("launcher", codes, heard, flush=True)
sys.exit(1)
"""
RANK = """
import os, signal, sys, time
rank = os.environ["LOCAL_RANK"]
def leaves(number, _):
    time.sleep(0.3)  # it saves
    os.write(1, f"rank {rank} saved {number}\\n".encode())
    os._exit(75)
signal.signal(signal.SIGUSR1, leaves)
signal.signal(signal.SIGTERM, leaves)
signal.signal(signal.SIGTSTP, lambda *_: os.write(1, f"rank {rank} asked\\n".encode()))
os.write(1, f"rank {rank} up\\n".encode())
while True: time.sleep(0.01)
"""
SAVES_AS_IT_ENDS = """
import os, signal, time
def leaves(number, _):
    time.sleep(0.5)
    os.write(1, b"saved\\n")
    os._exit(3)
signal.signal(signal.SIGTERM, leaves)
os.write(1, b"up\\n")
while True: time.sleep(0.01)
"""


TRAINER = """
# It trains itself, and has a helper started by a launcher.
import os, signal, subprocess, sys, time
def leaves(number, _):
    time.sleep(0.3)
    os.write(1, b"trainer saved\\n")
    os._exit(75)
signal.signal(signal.SIGUSR1, leaves)
signal.signal(signal.SIGTERM, leaves)
subprocess.Popen([sys.executable, "-I", "-S", "-c", *sys.argv[1:]])
while True: time.sleep(0.01)
"""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with machine_at(tmp_path) as found:
        yield found


def launching(machine: Machine, mode: str, rank: str = RANK, starts: int = 1) -> dict[str, Any]:
    """Return an order for a launcher with two ranks, which never are in its group."""
    words = [sys.executable, "-I", "-S", "-c", LAUNCHER, rank, str(starts)]
    order = machine.ordering(["/bin/sh", "-c", '"$@" | cat; exit 1', "sh", *words])
    order["suspend"] |= {"mode": mode, "signal_s": 20, "restart_s": 20}
    order["grace_s"] = 20
    return order


def up(machine: Machine, text: str = "up") -> None:
    for rank in range(2):
        machine.said(f"rank {rank} {text}")


@pytest.mark.parametrize(
    ("mode", "number"), [("signal", signal.SIGUSR1), ("restart", signal.SIGTERM)]
)
def test_ranks_are_asked_and_their_launcher_is_spared(
    machine: Machine, mode: str, number: int
) -> None:
    machine.starts(launching(machine, mode))
    up(machine)
    machine.sends("suspend", mode=mode)
    status = machine.status()
    said = machine.said("launcher")
    assert [f"rank {rank} saved {number:d}" in said for rank in range(2)] == [True, True]
    assert "launcher [75, 75] []" in said
    assert (status["code"], status["suspended"], status["stragglers"]) == (1, True, 0)
    notes = [note["what"] for note in read_journal(str(machine.folder()))["notes"]]
    assert notes == ["requested"]


@pytest.mark.parametrize("mode", ["signal", "restart"])
def test_trainer_above_a_launcher_is_asked_as_well(machine: Machine, mode: str) -> None:
    order = launching(machine, mode)
    words = [sys.executable, "-I", "-S", "-c", TRAINER, LAUNCHER, RANK, "1"]
    order["ranks"][0]["argv"] = words
    machine.starts(order)
    up(machine)
    machine.sends("suspend", mode=mode)
    status = machine.status()
    assert "trainer saved" in machine.said("trainer")
    assert (status["code"], status["suspended"]) == (75, True)


def test_ranks_have_their_grace_when_a_job_is_cancelled(machine: Machine) -> None:
    machine.starts(launching(machine, "cooperative"))
    up(machine)
    machine.sends("terminate")
    status = machine.status()
    assert "launcher [75, 75] []" in machine.said("launcher")
    assert (status["why"], status["suspended"]) == ("terminate", False)


def test_ranks_that_are_started_again_are_asked_again(machine: Machine) -> None:
    machine.starts(launching(machine, "signal", starts=2))
    up(machine)
    machine.sends("suspend", mode="signal")
    status = machine.status()
    assert machine.said("launcher").count("launcher [75, 75] []") == 2
    assert (status["code"], status["suspended"]) == (1, True)


def test_launcher_that_stays_without_ranks_is_asked_then(machine: Machine) -> None:
    """Goal: what a script does after its ranks costs no grace. Method: it waits for ever."""
    order = launching(machine, "restart")
    order["ranks"][0]["argv"][2] = '"$@"; sleep 600'
    machine.starts(order)
    up(machine)
    machine.sends("suspend", mode="restart")
    status = machine.status()
    assert (status["code"], status["suspended"]) == (128 + signal.SIGTERM, True)
    notes = read_journal(str(machine.folder()))["notes"]
    assert [note["what"] for note in notes] == ["requested"]


def test_ranks_that_ignore_all_are_killed_with_their_launcher(machine: Machine) -> None:
    deaf = RANK.replace("os._exit(75)", "pass")
    order = launching(machine, "signal", rank=deaf)
    order["suspend"] |= {"signal_s": 0.5, "restart_s": 0.5}
    machine.starts(order)
    up(machine)
    machine.sends("suspend", mode="signal")
    status = machine.status()
    assert (status["suspended"], status["saved"]) == (True, False)
    noted = [note["mode"] for note in read_journal(str(machine.folder()))["notes"]]
    assert noted == ["signal", "restart"]


def test_rank_that_fails_while_nobody_asks_fails_the_job(machine: Machine) -> None:
    machine.starts(launching(machine, "signal", rank="raise SystemExit(4)"))
    status = machine.status()
    assert (status["code"], status["suspended"]) == (1, False)


def test_only_ranks_are_asked_to_stand_still_and_all_processes_do(machine: Machine) -> None:
    machine.starts(launching(machine, "stop"))
    up(machine)
    machine.sends("stop")
    wait_for(lambda: states(machine) == {"T"}, "standing still", machine.told)
    machine.sends("continue")
    up(machine, "asked")
    machine.sends("terminate")
    machine.status()
    assert "launcher [75, 75] []" in machine.said("launcher")


def test_program_below_a_shell_that_dies_of_sigterm_has_its_grace(machine: Machine) -> None:
    """Goal: it may save. Method: its shell, which has the same signal, is gone at once."""
    command = '"$0" -I -S -c "$1"; exit $?'
    order = machine.ordering(["/bin/sh", "-c", command, sys.executable, SAVES_AS_IT_ENDS])
    order["suspend"] |= {"mode": "restart", "restart_s": 20}
    machine.starts(order)
    machine.said("up")
    machine.sends("suspend", mode="restart")
    status = machine.status()
    assert "saved" in machine.said("up")
    assert (status["code"], status["suspended"], status["stragglers"]) == (143, True, 0)


def test_program_below_a_shell_that_outstays_its_grace_is_killed(machine: Machine) -> None:
    deaf = SAVES_AS_IT_ENDS.replace("os._exit(3)", "pass")
    command = '"$0" -I -S -c "$1"; exit $?'
    order = machine.ordering(["/bin/sh", "-c", command, sys.executable, deaf])
    machine.starts(order)
    machine.said("up")
    machine.sends("terminate")
    status = machine.status()
    assert (status["code"], status["why"]) == (143, "terminate")


def test_fork_of_a_listener_is_not_asked_with_it(machine: Machine) -> None:
    """Goal: workers of a loader, which have its handlers, save nothing. Method: such a fork."""
    program = """
import os, signal, sys, time
def leaves(*_):
    os.write(1, f"{os.getpid() == first}\\n".encode())
    time.sleep(0.3)
    os._exit(75)
first = os.getpid()
signal.signal(signal.SIGUSR1, leaves)
os.fork()
if os.getpid() == first: os.write(1, b"up\\n")
while True: time.sleep(0.01)
"""
    order = machine.order(program)
    order["suspend"] |= {"mode": "signal", "signal_s": 20}
    machine.starts(order)
    machine.said("up")
    machine.sends("suspend", mode="signal")
    assert machine.status()["saved"]
    assert machine.said("up").split() == ["up", "True"]


def states(machine: Machine) -> set[str]:
    """Return in which states the processes of the attempt are: R, S, T, ..."""
    mark = f"SHUNTER_FOLDER={machine.folder()}".encode()
    found = set()
    for path in sorted(Path("/proc").glob("[0-9]*")):
        try:
            if mark in (path / "environ").read_bytes().split(b"\0"):
                found.add((path / "stat").read_text().rpartition(")")[2].split()[0])
        except OSError:
            continue
    return found
