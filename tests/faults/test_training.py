"""Training jobs with the SDK under the real supervisor: real processes that leave and resume."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shunter.backends.node import read_journal
from shunter.train import channel
from tests.faults.supervised import Machine, machine_at

pytestmark = pytest.mark.live

REPOSITORY = Path(__file__).parents[2]
TRAINS = """
import os, sys, time
from shunter import train
run = train.start()
print("from", run.steps_done, flush=True)
while run.steps_done < int(sys.argv[1]):
    time.sleep(0.002 * (1 + run.steps_done % 3))
    run.step()
    if run.steps_done == 5: print("five", flush=True)
print("done", run.steps_done, flush=True)
"""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with machine_at(tmp_path) as found:
        yield found


def order(machine: Machine, steps: int, *, attempt: int, ranks: int) -> dict[str, Any]:
    """Return an order for a training job whose checkpoints all attempts share."""
    program = [sys.executable, "-c", TRAINS, str(steps)]
    found = machine.ordering(program, attempt, ranks)
    environment = {
        "PYTHONPATH": str(REPOSITORY),
        channel.CHECKPOINTS: str(machine.root / "checkpoints"),
    }
    for rank in found["ranks"]:
        rank["env"] = {**rank["env"], channel.ATTEMPT: str(attempt), **environment}
    found["suspend"] = {**found["suspend"], "cooperative_s": 60.0}
    return found


@pytest.mark.parametrize("ranks", [1, 3])
def test_job_leaves_when_asked_and_goes_on_where_it_was(machine: Machine, ranks: int) -> None:
    machine.starts(order(machine, 10**6, attempt=1, ranks=ranks))
    for rank in range(ranks):
        machine.said("five", rank=rank)
    machine.sends("suspend", mode="cooperative")
    status = machine.status()
    assert (status["codes"], status["suspended"]) == ((channel.EXIT_SUSPENDED,) * ranks, True)
    noted = read_journal(str(machine.folder()))["notes"]
    assert [note["what"] for note in noted] == ["training", "requested", "acknowledged", "saved"]
    step = noted[-1]["step"]
    assert step is not None
    assert step > 5
    machine.starts(order(machine, step + 3, attempt=2, ranks=ranks))
    assert machine.status(2)["codes"] == (0,) * ranks
    for rank in range(ranks):
        assert machine.said("done", 2, rank).split() == ["from", str(step), "done", str(step + 3)]


def test_job_that_cannot_save_is_asked_in_stronger_modes(machine: Machine) -> None:
    (machine.root / "checkpoints" / "attempt-000001").mkdir(parents=True)
    blocked = order(machine, 10**6, attempt=1, ranks=1)
    blocked["suspend"] = {**blocked["suspend"], "cooperative_s": 0.3}
    machine.starts(blocked)
    machine.said("five")
    # From here on no checkpoint can be written: a file stands where a folder must be.
    folder = machine.root / "checkpoints" / "attempt-000001"
    folder.rename(machine.root / "checkpoints" / "moved")
    folder.write_text("in the way")
    machine.sends("suspend", mode="cooperative")
    status = machine.status()
    assert status["codes"] != (channel.EXIT_SUSPENDED,)
    noted = [note["what"] for note in read_journal(str(machine.folder()))["notes"]]
    assert "saved" not in noted
    assert "escalated" in noted
