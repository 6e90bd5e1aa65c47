"""What a killed supervisor leaves: its reaper kills all of it, and needs no scheduler for that."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from shunter.backends.node import alive_below, attempts
from tests.faults.supervised import Machine, is_alive, machine_at, wait_for
from tests.faults.test_supervisor import FAMILY, FORKS_AWAY, SLEEPS, standing
from tests.live.ssh.farm import parent_of

pytestmark = pytest.mark.live

NOBODYS = {"uid": 65534, "gid": 65534, "groups": []}
HIDES = "env -i setsid sleep 60 & echo up $!; exec sleep 60"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with machine_at(tmp_path) as found:
        yield found


def test_what_forked_away_dies_with_a_killed_supervisor(machine: Machine) -> None:
    machine.starts(machine.order(FORKS_AWAY + "\ntime.sleep(60)"))
    stray, reaper = int(machine.said("up").split()[0]), parent_of(machine.supervisor())
    machine.kill_supervisor()
    wait_for(lambda: not is_alive(reaper), "the end of the reaper")
    assert not is_alive(stray)
    assert machine.state() == "lost"
    assert attempts.sweep(str(machine.folder())) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to start a job as somebody else")
def test_what_cleared_its_environment_dies_too_whoever_it_is(machine: Machine) -> None:
    order = machine.ordering(["/bin/sh", "-c", HIDES], user=NOBODYS)
    order["ranks"][0]["directory"] = "/"
    machine.starts(order)
    hidden, reaper = int(machine.said("\n").split()[1]), parent_of(machine.supervisor())
    wait_for(lambda: b"sleep" in Path(f"/proc/{hidden}/cmdline").read_bytes(), "the hidden one")
    machine.kill_supervisor()
    wait_for(lambda: not is_alive(reaper), "the end of the reaper")
    assert not is_alive(hidden)
    assert attempts.holders(str(machine.folder())) == []


def test_what_stands_still_dies_with_a_killed_supervisor(machine: Machine) -> None:
    """As an attempt of mode `stop` that was suspended in its place."""
    machine.starts(machine.order(FAMILY))
    machine.said("up")
    family = alive_below(str(machine.root))[("j0", 1)].marked
    assert len(family) == 2
    machine.sends("stop")
    wait_for(lambda: standing(machine) == {"T"}, "standing still")
    reaper = parent_of(machine.supervisor())
    machine.kill_supervisor()
    wait_for(lambda: not is_alive(reaper), "the end of the reaper")
    assert [pid for pid in family if is_alive(pid)] == []
    assert attempts.running(str(machine.root), []) == []


def test_reaper_ends_with_its_attempt(machine: Machine) -> None:
    machine.starts(machine.order(SLEEPS))
    reaper = parent_of(machine.supervisor())
    machine.sends("terminate")
    assert machine.status()["why"] == "terminate"
    wait_for(lambda: not is_alive(reaper), "the end of the reaper")


def test_reaper_that_is_killed_ends_nothing(machine: Machine) -> None:
    machine.starts(machine.order("import sys, time; print('up', flush=True); time.sleep(1)"))
    machine.said("up")
    os.kill(parent_of(machine.supervisor()), signal.SIGKILL)
    assert machine.status()["codes"] == (0,)


def test_reaper_stays_when_others_are_told_to_leave(machine: Machine) -> None:
    """A signal to its session does not reach the supervisor, and ends neither of them."""
    machine.starts(machine.order(SLEEPS))
    machine.said("up")
    supervisor = machine.supervisor()
    reaper = parent_of(supervisor)
    assert os.getsid(reaper) == reaper != os.getsid(supervisor)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        os.killpg(reaper, number)
    assert is_alive(reaper)
    assert machine.state() == "running"


def test_reaper_holds_nothing_that_others_wait_for(machine: Machine) -> None:
    machine.starts(machine.order(SLEEPS))
    machine.said("up")
    reaper = parent_of(machine.supervisor())
    opened = sorted(Path(f"/proc/{reaper}/fd").iterdir())
    assert [path.name for path in opened] == ["0", "1", "2"]
    assert {path.readlink() for path in opened} == {Path("/dev/null")}
    assert Path(f"/proc/{reaper}/cwd").readlink() == Path("/")
