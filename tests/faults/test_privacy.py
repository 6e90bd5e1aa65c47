"""What others see of an attempt on its machine, and what its own processes can undo: nothing."""

import json
import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from shunter.backends.node import attempts, command
from tests.faults.supervised import PATIENCE_S, Machine, machine_at, wait_for

WORKS = """
import json, os, sys, time
say = open(os.environ["SHUNTER_CHANNEL"], "w", buffering=1)
say.write(json.dumps({"what": "progress", "step": 1, "batch_s": 0.1}) + "\\n")
say.write(json.dumps({"what": "saved", "checkpoint": "c", "step": 1}) + "\\n")
print("up", flush=True)
while not os.path.exists(os.environ["SHUNTER_SUSPEND"]):
    time.sleep(0.01)
sys.exit(75)
"""
# Leaves a process that nobody finds by its environment, and that unlocks what it has inherited.
LEAVES = """
import fcntl, os, sys, time
STAYS = '''
import fcntl, os, time
for number in os.listdir("/proc/self/fd"):
    try:
        fcntl.flock(int(number), fcntl.LOCK_UN)
    except OSError:
        continue
os.write(1, b"unlocked %d " % os.getpid())
time.sleep(600)
'''
if os.fork() == 0:
    os.setsid()
    os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", STAYS], {})
time.sleep(600)
"""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with machine_at(tmp_path) as found:
        yield found


def start_under(umask: int, machine: Machine, order: dict[str, object]) -> None:
    subprocess.run(
        command("start", str(machine.root)),
        input=json.dumps(order).encode(),
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=PATIENCE_S,
        umask=umask,
    )


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_records_are_nobody_elses_whatever_the_umask(machine: Machine, umask: int) -> None:
    """Users of jobs pass through the folders, and neither list them nor write to them."""
    start_under(umask, machine, machine.order(WORKS, sample_s=0.05))
    machine.said("up")
    wait_for((machine.folder() / "sample").exists, "a sample")
    machine.sends("suspend")
    machine.status()
    attempts.raise_fence(str(machine.root), "j1", 1)
    records = {"started", "status", "journal", "sample", "ranks.lock", "lock", "suspend"}
    assert records <= {each.name for each in sorted(machine.folder().iterdir())}
    for path in sorted((machine.root / "jobs").rglob("*")):
        mode = stat.S_IMODE(path.lstat().st_mode)
        expected = {0o711, 0o700} if path.is_dir() else {0o600}
        assert mode in expected, f"{path}: {mode:04o}"


def test_folder_of_a_job_that_others_may_write_to_is_closed(machine: Machine) -> None:
    folder = machine.folder().parent
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    machine.starts(machine.order("print('done')"))
    machine.status()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


def test_process_that_unlocks_what_it_inherited_is_still_known_to_run(machine: Machine) -> None:
    """Goal: an attempt is over only when its last process is. Method: one hides and unlocks."""
    machine.starts(machine.order(LEAVES))
    wait_for(lambda: len(machine.said("unlocked ").split()) == 2, "its number")
    hidden = int(machine.said("unlocked ").split()[1])
    folder = str(machine.folder())
    try:
        machine.kill_supervisor(with_reaper=True)
        wait_for(lambda: machine.state() == "lost", "a lost attempt")
        wait_for(lambda: attempts.sweep(folder) <= 1, "the end of the rank")
        assert Path(f"/proc/{hidden}").exists()
        assert attempts.sweep(folder) == 1
    finally:
        os.kill(hidden, signal.SIGKILL)
    wait_for(lambda: attempts.sweep(folder) == 0, "its end")


@pytest.mark.needs("root")
def test_file_that_somebody_else_has_open_holds_nothing(machine: Machine) -> None:
    """A process of another user that was handed the file does not keep the GPUs of a job."""
    machine.starts(machine.order("print('done')"))
    machine.status()
    os.chown(machine.folder() / "channel", 65_533, -1)
    with (machine.folder() / "ranks.lock").open():
        assert attempts.holders(str(machine.folder())) == []
    os.chown(machine.folder() / "channel", os.geteuid(), -1)
    with (machine.folder() / "ranks.lock").open():
        assert attempts.holders(str(machine.folder())) == [os.getpid()]
