"""Folders that are removed under running attempts, and marks that are forged or inherited."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shunter.backends.node import attempts, read_journal
from tests.faults.supervised import Machine, is_alive, machine_at, wait_for
from tests.faults.test_supervisor import FORKS_AWAY, LEAVES, SLEEPS
from tests.live.ssh.farm import parent_of

pytestmark = pytest.mark.live

NOBODY, STRANGER = 65534, 1
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to act as other users")
SLEEP = ["/bin/sleep", "60"]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with machine_at(tmp_path) as found:
        yield found


def environment_of(pid: int) -> dict[str, str]:
    entries = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def rank_of(machine: Machine) -> int:
    """Return the process of the attempt's rank, which is its supervisor's child."""
    supervisor = machine.supervisor()
    (child,) = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    return int(child)


def over(machine: Machine) -> bool:
    """Say whether a look finds the attempt over, as a scheduler would look."""
    known = attempts.probe(str(machine.folder()))
    is_gone = known["state"] in attempts.NO_END and not attempts.sweep(str(machine.folder()))
    return bool(is_gone or known["state"] == "ended")


def remove(folder: Path) -> None:
    """Remove a folder in one step, while a supervisor may make it anew."""
    aside = folder.with_name("aside")
    folder.rename(aside)
    shutil.rmtree(aside)


def purge(machine: Machine, how: str) -> None:
    if how == "whole":
        remove(machine.folder())
    elif how == "moved":
        machine.folder().rename(machine.folder().with_name("elsewhere"))
    elif how == "with its job":
        remove(machine.folder().parent)
    else:
        (machine.folder() / how).unlink()


@pytest.mark.parametrize("how", ["whole", "with its job", "moved", "lock", "started", "channel"])
def test_attempt_outlives_the_removal_of_its_folder(machine: Machine, how: str) -> None:
    machine.starts(machine.order(SLEEPS))
    machine.said("up")
    rank = rank_of(machine)
    purge(machine, how)
    until_s = time.monotonic() + 3.0
    while time.monotonic() < until_s:
        assert not over(machine)
        time.sleep(0.02)
    assert machine.state() == "running"
    assert is_alive(rank)
    assert machine.starts(machine.order(SLEEPS)) == {"answer": "known"}
    machine.sends("terminate")
    assert machine.status()["codes"] == (143,)


def test_attempt_whose_folder_was_removed_still_saves_and_leaves(machine: Machine) -> None:
    order = machine.order(LEAVES)
    machine.starts({**order, "suspend": {**order["suspend"], "cooperative_s": 60.0}})
    machine.said("up")
    purge(machine, "whole")
    leave = {"do": "suspend", "term": 1}
    wait_for(lambda: attempts.send(str(machine.folder()), leave), "its return")
    status = machine.status()
    assert (status["suspended"], status["saved"]) == (True, True)
    noted = [note["what"] for note in read_journal(str(machine.folder()))["notes"]]
    assert noted == ["requested", "acknowledged", "saved"]


def test_end_after_the_removal_of_the_folder_is_told(machine: Machine) -> None:
    machine.starts(
        machine.order("import sys; print('up', flush=True); sys.stdin.read(); " + SLEEPS)
    )
    machine.said("up")
    rank = rank_of(machine)
    purge(machine, "whole")
    os.kill(rank, signal.SIGTERM)
    assert machine.status()["codes"] == (143,)


@pytest.mark.parametrize("how", ["whole", "moved"])
def test_second_start_of_a_purged_attempt_starts_nothing(machine: Machine, how: str) -> None:
    """Method: its supervisor stands still, so that it makes nothing anew."""
    machine.starts(machine.order(SLEEPS))
    machine.said("up")
    rank = rank_of(machine)
    supervisor = machine.supervisor()
    os.kill(supervisor, signal.SIGSTOP)
    try:
        purge(machine, how)
        assert machine.starts(machine.order(SLEEPS)) == {"answer": "known"}
        assert [each["state"] for each in attempts.running(str(machine.root), [])] == ["running"]
        assert is_alive(rank)
    finally:
        os.kill(supervisor, signal.SIGCONT)


def test_attempt_whose_records_are_gone_begins_once_all_the_same(machine: Machine) -> None:
    """It ends, its folder is removed, and only then its start is asked for again."""
    machine.starts(machine.order("print('up')"))
    assert machine.status()["codes"] == (0,)
    wait_for(lambda: not attempts.is_held(f"{machine.folder()}/lock"), "the end of its supervisor")
    purge(machine, "whole")
    answer = machine.starts(machine.order("print('up')"))
    assert answer["answer"] == "refused"
    assert "attempt 1 has begun or is fenced" in answer["cause"]
    assert machine.state() == "absent"
    assert machine.starts(machine.order("print('up')", attempt=2)) == {"answer": "started"}


def test_what_is_left_of_a_purged_attempt_is_swept_by_its_mark(machine: Machine) -> None:
    machine.starts(machine.order(FORKS_AWAY + "\ntime.sleep(60)"))
    stray = int(machine.said("up").split()[0])
    supervisor = machine.supervisor()
    os.kill(parent_of(supervisor), signal.SIGKILL)  # or its reaper would leave nothing
    os.kill(supervisor, signal.SIGSTOP)
    purge(machine, "whole")
    os.kill(supervisor, signal.SIGKILL)
    wait_for(lambda: not is_alive(supervisor), "the end of the supervisor")
    assert [each["state"] for each in attempts.running(str(machine.root), [])] == ["running"]
    assert not over(machine)
    wait_for(lambda: over(machine), "an empty machine")
    assert not is_alive(stray)


@NEEDS_ROOT
@pytest.mark.parametrize("forger", [STRANGER, NOBODY])
def test_forged_mark_neither_kills_nor_holds(machine: Machine, forger: int) -> None:
    """A stranger who copies the mark of a job; its own user, who wore it before the launch."""
    folder = machine.folder()
    machine.root.chmod(0o755)
    early = {"SHUNTER_FOLDER": str(folder)}
    user = {"uid": NOBODY, "gid": NOBODY, "groups": []}
    with subprocess.Popen(SLEEP, env=early, user=forger) as before:
        order = machine.ordering(["/bin/sh", "-c", "echo up; exec sleep 60"], user=user)
        order["ranks"][0]["directory"] = "/"
        machine.starts(order)
        machine.said("up")
        rank = rank_of(machine)
        copied = environment_of(rank)
        assert copied["SHUNTER_FOLDER"] == str(folder)
        with subprocess.Popen(SLEEP, env=copied, user=STRANGER) as after:
            supervisor = machine.supervisor()
            os.kill(supervisor, signal.SIGKILL)
            wait_for(lambda: over(machine), "the end of the attempt")
            assert not is_alive(rank)
            assert attempts.running(str(machine.root), []) == []
            shutil.rmtree(folder)
            assert over(machine)
            assert attempts.running(str(machine.root), []) == []
            assert is_alive(before.pid)
            assert is_alive(after.pid)
            after.kill()
        before.kill()


@NEEDS_ROOT
def test_mark_of_an_attempt_that_never_was_holds_no_machine(machine: Machine) -> None:
    for job in ("j9", "..", "../..", "j9/1/../.."):
        env = {"SHUNTER_FOLDER": f"{machine.root}/jobs/{job}/1", "SHUNTER_MARK": "1.1.x"}
        with subprocess.Popen(SLEEP, env=env, user=STRANGER) as forged:
            assert attempts.running(str(machine.root), []) == []
            forged.kill()


def test_key_of_marks_is_of_the_scheduler_alone(machine: Machine) -> None:
    machine.starts(machine.order(SLEEPS))
    machine.said("up")
    assert (machine.root / "mark.key").stat().st_mode & 0o777 == 0o600
    assert len((machine.root / "mark.key").read_bytes()) == 32
