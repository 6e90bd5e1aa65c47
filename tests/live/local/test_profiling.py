"""`shunter admin profile` runs a job on this machine, held to its CPUs and memory by the kernel.

The job does no work: it sleeps as long as a cache like MinIO would make it wait with the CPUs and
memory that its own control groups have, so that what else runs here takes nothing of it.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shunter.backends.node import LIMIT, QUOTA, divisible_v1
from shunter.cli import app
from shunter.ops import remove_abandoned
from tests.live.api.serving import in_the_foreground

pytestmark = pytest.mark.live

PROJECT = Path(__file__).parents[3]
LOADER = """
import sys, time
sys.path.insert(0, sys.argv[1])
from shunter import train
def of_group(controller, parent, file):
    for line in open("/proc/self/cgroup"):
        _, has, path = line.strip().split(":", 2)
        if controller in has.split(","):
            return int(open(parent + "/" + path.rpartition("/")[2] + "/" + file).read())
cpus = of_group("cpu", sys.argv[2], "cpu.cfs_quota_us") / 100000
limit_gb = of_group("memory", sys.argv[3], "memory.limit_in_bytes") / 2**20 / 1000
missing_gb = max(0, 0.1 - (limit_gb - 0.1))
epoch_s = max(4 / cpus, 1024 * missing_gb / 25)
run = train.start()
while True:
    time.sleep(epoch_s / 100)
    run.step()
"""
JOB = """
model = "loader"
command = COMMAND
samples = 1000
batch_size = 10
dataset_gb = 0.1
own_memory_gb = 0.1
disk_mb_s = 25
memory_gb_s = {1 = 10.0}
[server]
gpus = 1
cpus = 2
memory_gb = 1
[measuring]
warm_up = 0
time = 1
give_up = 60
dataset = ["loader.py"]
"""


def test_job_is_measured_at_each_number_of_cpus_and_with_less_memory(tmp_path: Path) -> None:
    parents = divisible_v1("cpu", QUOTA), divisible_v1("memory", LIMIT)
    if not all(parents) or len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two CPUs, and control groups of version 1 below which to make others")
    command = [sys.executable, "-I", "-S", "loader.py", str(PROJECT), *parents]
    (tmp_path / "loader.py").write_text(LOADER, encoding="utf-8")
    text = JOB.replace("COMMAND", json.dumps(command))
    (tmp_path / "job.toml").write_text(text, encoding="utf-8")
    out = tmp_path / "table.json"
    words = ["profile", str(tmp_path / "job.toml"), "--json", "-o", str(out)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["evidence"] == "live"
    measured = {cell["cpus"]: cell["measured_s"] for cell in told["cells"] if cell["is_input"]}
    assert list(measured) == [2, 1]
    assert measured[1] > 1.5 * measured[2]  # it sleeps twice as long, and a little for each batch
    less = [cell for cell in told["cells"] if not cell["is_input"]]
    assert [cell["memory_gb"] for cell in less] == [0.15, 0.12]
    assert less[1]["measured_s"] > 1.2 * less[0]["measured_s"]
    print("errors of modelled cells:", [f"{cell['error']:+.1%}" for cell in less])
    assert told["notes"][0].startswith("shares of jobs on local: CPUs by quotas of control groups")
    assert json.loads(out.read_text())["models"].keys() == {"loader"}


STEPPER = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from shunter import train
run = train.start()
open("pid.new", "w").write(str(os.getpid()))
os.rename("pid.new", "pid")
while True:
    time.sleep(0.05)
    run.step()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_whoever_ends_the_measuring_ends_the_job(number: signal.Signals, tmp_path: Path) -> None:
    """A job left behind would hold a GPU of which no scheduler knows."""
    with _measuring(tmp_path) as measuring:
        measuring.send_signal(number)
        _, said = measuring.communicate(timeout=60)
    assert measuring.returncode == 128 + signal.SIGINT, said
    assert "Traceback" not in said
    assert not (tmp_path / "table.json").exists()
    _wait_until(lambda: not _runs(tmp_path))


def test_job_ends_with_a_profile_that_is_killed_and_the_next_one_removes_what_it_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    with _measuring(tmp_path) as measuring:
        (left,) = sorted(temporary.glob("shunter-profile-*"))
        monkeypatch.setattr(tempfile, "tempdir", str(temporary))
        assert remove_abandoned() == []  # it is in use
        measuring.kill()
        measuring.communicate(timeout=60)
    _wait_until(lambda: not _runs(tmp_path))
    with _measuring(tmp_path) as again:
        again.send_signal(signal.SIGINT)
        _, said = again.communicate(timeout=60)
    assert f"removed {left}, which a `shunter admin profile` that was killed has left" in said
    assert sorted(temporary.glob("shunter-profile-*")) == []


def test_output_of_a_job_that_fails_is_told_in_plain_letters(tmp_path: Path) -> None:
    said = r"\033]0;title\007 \377"
    text = JOB.replace("COMMAND", json.dumps(["sh", "-c", f"printf '{said}' >&2; exit 3"]))
    text = text.replace("cpus = 2", "cpus = 1").replace('dataset = ["loader.py"]', "")
    (tmp_path / "job.toml").write_text(text, encoding="utf-8")
    result = CliRunner().invoke(app, ["profile", str(tmp_path / "job.toml")])
    assert result.exit_code == 1
    assert r"exit code 3; it printed at the end: \x1b]0;title\x07 \xff" in result.stderr


@contextmanager
def _measuring(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """Begin to profile a job that never ends by itself, and wait until it runs."""
    (folder / "loader.py").write_text(STEPPER, encoding="utf-8")
    command = [sys.executable, "-I", "-S", "loader.py", str(PROJECT)]
    text = JOB.replace("COMMAND", json.dumps(command)).replace("cpus = 2", "cpus = 1")
    text = text.replace("time = 1", "time = 600").replace("give_up = 60", "give_up = 600")
    (folder / "job.toml").write_text(text, encoding="utf-8")
    words = [sys.executable, "-m", "shunter", "profile", "job.toml", "-o", "table.json"]
    (folder / "pid").unlink(missing_ok=True)
    with in_the_foreground():
        measuring = subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE, text=True)
    with measuring:
        try:
            pid = folder / "pid"
            _wait_until(lambda: pid.exists() or measuring.poll() is not None)
            assert pid.exists(), measuring.communicate()
            yield measuring
        finally:
            if measuring.poll() is None:  # a test that failed, which would wait for it for ever
                measuring.terminate()


def _runs(folder: Path) -> bool:
    return Path(f"/proc/{(folder / 'pid').read_text()}").exists()


def _wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < until, "it did not become so in a minute"
        time.sleep(0.05)
