"""Real launchers under the real supervisor: their ranks save when they are asked by a signal."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.supervised import Machine, machine_at
from tests.live.launchers import measured
from tests.live.launchers.measured import AS_ROOT, LAUNCHERS, MEETING, SHARED, Launcher

pytestmark = [pytest.mark.live, pytest.mark.xdist_group("launchers")]

RANK = """
import os, signal, time
given = os.environ
rank = given.get("OMPI_COMM_WORLD_RANK") or given["RANK"]
def leaves(number, _):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # of a launcher of which another rank has left
    time.sleep(0.5)
    os.write(1, f"rank {rank} saved at {number}\\n".encode())
    os._exit(75)
signal.signal(signal.SIGUSR1, leaves)
signal.signal(signal.SIGTERM, leaves)
os.write(1, f"rank {rank} up\\n".encode())
while True: time.sleep(0.01)
"""
ROOT = Path(__file__).parents[3]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with machine_at(tmp_path) as found:
        yield found


def command_of(launcher: Launcher, script: Path) -> list[str]:
    """Return the launcher as a program of its own."""
    if not launcher.entry:
        return launcher.argv(script)
    module, _, function = launcher.entry.partition(":")
    called = f"import sys, {module} as m; sys.exit(m.{function}())"
    if module == measured.__name__:  # a launcher is known by its command line
        called += "  # in the place of accelerate.commands"
    return [sys.executable, "-c", called, *launcher.argv(script)[1:]]


@pytest.mark.rotating("mode", "name")
@pytest.mark.parametrize(("mode", "number"), [("signal", 10), ("restart", 15)])
@pytest.mark.parametrize("name", [name for name in LAUNCHERS if "restarts" not in name])
def test_ranks_of_a_real_launcher_save_and_it_is_spared(
    name: str, mode: str, number: int, machine: Machine
) -> None:
    launcher = LAUNCHERS[name]
    if launcher.lacks:
        pytest.skip(launcher.lacks)
    script = machine.root / "train.py"
    script.write_text(RANK)
    order = machine.ordering(command_of(launcher, script))
    port = {"MASTER_PORT": str(20_000 + os.getpid() % 5_000)}
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    order["ranks"][0]["env"] |= {**MEETING, **SHARED, **AS_ROOT, **port, "PYTHONPATH": paths}
    order["suspend"] |= {"mode": mode, "signal_s": 60, "restart_s": 60}
    machine.starts(order)
    for rank in range(launcher.ranks):
        machine.said(f"rank {rank} up")
    machine.sends("suspend", mode=mode)
    status = machine.status()
    said = (machine.folder() / "stdout.0").read_text().splitlines()
    saved = sorted(line for line in said if "saved" in line)
    assert saved == [f"rank {rank} saved at {number}" for rank in range(launcher.ranks)]
    errors = (machine.folder() / "stderr.0").read_text()
    assert (status["suspended"], status["why"]) == (True, "suspend"), errors
    assert status["code"] == (75 if name in ("deepspeed", "mpirun") else 1), errors
    assert "SignalException" not in errors
