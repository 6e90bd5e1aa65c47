"""A full disk costs a checkpoint, a note or a start, never a job: real disks that are full."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shunter.backends.node import processes
from shunter.train import channel
from tests.faults.supervised import (
    Machine,
    fill,
    is_alive,
    machine_at,
    top_up,
    use_up_files,
    wait_for,
)
from tests.faults.test_supervisor import SLEEPS

pytestmark = pytest.mark.live

REPOSITORY = Path(__file__).parents[2]
SAVES = """
import os, sys, time
from shunter import train
steps = os.open(sys.argv[1] + "/steps", os.O_RDWR | os.O_CREAT)
os.pwrite(steps, b"%8d on" % 0, 0)
run = train.start(save_every=5)
while os.pread(steps, 3, 8) == b" on":
    time.sleep(0.01)
    run.step()
    os.pwrite(steps, b"%8d" % run.steps_done, 0)
full_at = run.steps_done
while run.steps_done < full_at + 20:
    run.step()
"""
IS_ASKED = """
import os, sys, time
from shunter import train
def save(folder):
    os.pwrite(tried, b"tried", 0)
    (folder / "weights").write_bytes(bytes(1 << 20))
tried = os.open(sys.argv[1] + "/tried", os.O_RDWR | os.O_CREAT)
os.pwrite(tried, b"not yet", 0)
run = train.start(save=save)
while True:
    time.sleep(0.01)
    run.step()
"""
FILLS = """
import os, time
file = os.open("ballast", os.O_RDWR | os.O_CREAT)
try:
    while os.write(file, bytes(512)):
        pass
except OSError:
    time.sleep(60)
"""


@pytest.fixture
def machine(small_disk: Path) -> Iterator[Machine]:
    with machine_at(small_disk) as found:
        yield found


def training(machine: Machine, program: str, **fields: Any) -> dict[str, Any]:
    """Return an order for a training job whose output and checkpoints lie on the small disk."""
    found = machine.ordering([sys.executable, "-c", program, str(machine.root)], **fields)
    for rank in found["ranks"]:
        rank["env"] |= {
            "PYTHONPATH": str(REPOSITORY),
            "PYTHONDONTWRITEBYTECODE": "1",
            channel.CHECKPOINTS: str(machine.root / "checkpoints"),
            channel.ATTEMPT: "1",
            channel.SUSPEND_SIGNAL: "SIGUSR1",
        }
    return found


def test_job_that_saves_on_a_full_disk_goes_on_to_its_end(machine: Machine) -> None:
    machine.starts(training(machine, SAVES))
    wait_for(lambda: sorted(machine.root.glob("checkpoints/*/*/rank-0.json")), "a checkpoint")
    steps = machine.root / "steps"
    ballast = fill(machine.root)
    full_at = int(steps.read_bytes()[:8])

    def saved_twice() -> bool:
        top_up(ballast)  # a save that was under way gives back what it had taken
        return int(steps.read_bytes()[:8]) >= full_at + 15

    wait_for(saved_twice, "two tries to save")
    with steps.open("r+b") as file:
        file.seek(8)
        file.write(b"off")
    assert machine.status()["codes"] == (0,), "room was kept for this"
    assert not (machine.folder() / "reserve").exists()


def test_job_that_cannot_save_on_a_full_disk_says_so_and_trains_on(machine: Machine) -> None:
    order = training(machine, IS_ASKED)
    limits = {"cooperative_s": 600.0, "signal_s": 600.0, "restart_s": 0.5}
    machine.starts({**order, "suspend": {**order["suspend"], **limits}})
    (pid,) = wait_for(lambda: ranks_of(machine), "its rank")
    wait_for((machine.root / "tried").exists, "the training script")
    ballast = fill(machine.root)
    machine.sends("suspend", mode="cooperative")
    wait_for((machine.folder() / "suspend").exists, "the request")
    wait_for(lambda: b"tried" in ballast.with_name("tried").read_bytes(), "a try to save")
    ballast.unlink()
    assert is_alive(pid)
    machine.sends("terminate")
    assert machine.status()["codes"] == (143,), "it trained on until it was told to end"


def test_supervisor_outlives_a_disk_without_room_for_one_more_file(machine: Machine) -> None:
    machine.starts(machine.order(SLEEPS))
    machine.said("up")
    taken = use_up_files(machine.root)
    machine.sends("suspend")
    assert machine.status()["suspended"], "room was kept for this"
    assert all(path.exists() for path in taken)


def test_end_is_written_late_where_the_room_for_it_was_taken_too(machine: Machine) -> None:
    machine.starts(machine.order(SLEEPS))
    machine.said("up")
    ballast = fill(machine.root)
    (machine.folder() / "reserve").unlink()
    top_up(ballast)
    machine.sends("terminate")
    wait_for(lambda: not ranks_of(machine), "the end of its rank")
    assert machine.state() == "running", "its supervisor waits for room"
    ballast.unlink()
    assert machine.status()["codes"] == (143,)


def test_job_that_fills_the_disk_and_is_killed_is_seen_to_end(machine: Machine) -> None:
    machine.starts(machine.order(FILLS))
    wait_for(lambda: os.statvfs(machine.root).f_bavail == 0, "a full disk")
    machine.sends("fence")
    assert machine.status()["codes"] == (137,)


def test_request_that_found_no_room_is_shown_once_there_is_some(machine: Machine) -> None:
    order = machine.order(SLEEPS)
    machine.starts({**order, "suspend": {**order["suspend"], "cooperative_s": 600.0}})
    machine.said("up")
    taken = use_up_files(machine.root)
    machine.sends("suspend")
    for path in taken:
        path.unlink()
    wait_for((machine.folder() / "suspend").exists, "the request")


@pytest.mark.parametrize("files", range(2, 14))
def test_launch_with_room_for_some_files_runs_or_can_be_tried_again(
    machine: Machine, files: int
) -> None:
    """No disk makes a job fail before it has begun: a rank would end with 127."""
    taken = use_up_files(machine.root)
    for path in taken[:files]:
        path.unlink()
    answer = machine.starts(machine.order("pass"))
    for path in taken[files:]:
        path.unlink()
    assert answer["answer"] in ("started", "failed")
    if answer["answer"] == "started":
        assert machine.status()["codes"] == (0,)
    else:
        assert "No space left" in answer["cause"]


def ranks_of(machine: Machine) -> list[int]:
    """Return the processes of the attempt that carry its mark."""
    return [pid for pid in processes() if is_marked(machine, pid)]


def is_marked(machine: Machine, pid: int) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"SHUNTER_FOLDER={machine.folder()}".encode() in environment.split(b"\0")
