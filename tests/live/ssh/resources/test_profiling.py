"""A profile measures a job on a server of a cluster, over a real sshd, with its shares.

The data loader needs CPU: its processes decompress batches. How fast that is here says nothing of
the code, so what is held to is which shares the job ran with, and that it was measured with them.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shunter.backends.node import QUOTA, divisible_v1
from shunter.config import load_config
from shunter.ops import LiveMachine, Point, read_job_file, ssh_server
from tests.live.ssh.bench import Bench
from tests.live.ssh.farm import LACKING, Farm, farm_at

pytestmark = [pytest.mark.live, pytest.mark.ssh]

LOADER = """
import multiprocessing, os, sys, time, zlib
DATA = zlib.compress(bytes(range(256)) * 2000)
def decode(batches):
    while True:
        batches.put(sum(len(zlib.decompress(DATA)) for _ in range(8)))
def quota():
    for line in open("/proc/self/cgroup"):
        _, has, path = line.strip().split(":", 2)
        if "cpu" in has.split(","):
            path = sys.argv[1] + "/" + path.rpartition("/")[2] + "/cpu.cfs_quota_us"
            return int(open(path).read()) / 100000
with open("held", "a") as held:
    cpus = quota() if sys.argv[1] else len(os.sched_getaffinity(0))
    print(cpus, os.environ["SHUNTER_NODE"], file=held)
batches = multiprocessing.Queue(4)
for _ in range(2):
    multiprocessing.Process(target=decode, args=(batches,), daemon=True).start()
began_s, step = time.monotonic(), 0
while True:
    batches.get()
    step += 1
    print("%d/100000 [%.3fit/s]" % (step, step / (time.monotonic() - began_s)), flush=True)
"""
JOB = """
model = "decoder"
command = COMMAND
samples = 1000
batch_size = 10
dataset_gb = 0.1
disk_mb_s = 100
memory_gb_s = {1 = 10.0}
[server]
gpus = 1
cpus = 2
memory_gb = 1
[measuring]
warm_up = 0
time = 0.2
give_up = 60
"""
CLUSTER = """
[cluster]
nodes = [{name = "n0", gpus = 1, cpus = 2}]
[backend]
kind = "ssh"
[backend.ssh]
root = ROOT
known_hosts = KNOWN
keys = [KEY]
python = PYTHON
[backend.ssh.hosts.n0]
address = ADDRESS
port = PORT
user = USER
base = BASE
[log]
url = "log.db"
"""


STEPPER = """
import os, time
open("pid.new", "w").write(str(os.getpid()))
os.rename("pid.new", "pid")
while True:
    time.sleep(1)
"""


def test_job_is_measured_on_a_server_over_ssh_with_the_cpus_of_the_point(folder: Path) -> None:
    """One point of the two, since each takes the seconds in which a supervisor samples twice."""
    if LACKING:
        pytest.skip(LACKING)
    parent = divisible_v1("cpu", QUOTA) or ""
    with farm_at(folder / "farm", "n0") as farm:
        write_files(folder, farm, LOADER, parent)
        file = read_job_file(folder / "job.toml")
        machine = LiveMachine(file, ssh_server(file, load_config(folder / "cluster.toml"), None))
        (epoch_s,) = machine.epochs_s([Point(1)])
        Bench(farm, folder).clean()
    assert epoch_s is not None
    print(f"an epoch takes {epoch_s:.3g} s")
    cpus, node = (folder / "held").read_text().split()
    assert (float(cpus), node) == (1.0, "n0")
    assert machine.notes[0].startswith("shares of jobs on n0: CPUs by ")
    assert jobs_below(folder) == [], "its records are removed"


def test_job_on_a_server_ends_with_a_profile_that_is_killed(folder: Path) -> None:
    """The next profile there removes its records."""
    if LACKING:
        pytest.skip(LACKING)
    with farm_at(folder / "farm", "n0") as farm:
        write_files(folder, farm, STEPPER)
        words = [sys.executable, "-m", "shunter", "profile", "job.toml", "--on", "cluster.toml"]
        with subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE, text=True) as measuring:
            pid = folder / "pid"
            wait_until(lambda: pid.exists() or measuring.poll() is not None)
            assert pid.exists(), measuring.communicate()
            measuring.kill()
            measuring.communicate(timeout=60)
        wait_until(lambda: not Path(f"/proc/{pid.read_text()}").exists())
        (left,) = jobs_below(folder)
        assert left.name.startswith("profile-")
        write_files(folder, farm, LOADER, "")
        file = read_job_file(folder / "job.toml")
        server = ssh_server(file, load_config(folder / "cluster.toml"), None)
        LiveMachine(file, server).epochs_s([Point(1)])
        assert jobs_below(folder) == []
        Bench(farm, folder).clean()


def jobs_below(folder: Path) -> list[Path]:
    return sorted((folder / "base-profile" / "clusters" / "profile" / "jobs").iterdir())


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < until, "it did not become so in a minute"
        time.sleep(0.05)


def write_files(folder: Path, farm: Farm, program: str, *words: str) -> None:
    """Write the config of a cluster of one server, a job that runs a program, and that."""
    host = farm["n0"]
    values = {
        "ROOT": str(folder / "daemon"),
        "KNOWN": str(farm.known_hosts),
        "KEY": str(farm.key),
        "PYTHON": sys.executable,
        "ADDRESS": host.address,
        "PORT": host.port,
        "USER": farm.user,
        "BASE": str(folder / "base"),
    }
    text = CLUSTER
    for name, value in values.items():
        text = text.replace(name, json.dumps(value), 1)
    (folder / "cluster.toml").write_text(text, encoding="utf-8")
    command = [sys.executable, "-I", "-S", "loader.py", *words]
    (folder / "loader.py").write_text(program, encoding="utf-8")
    job = JOB.replace("COMMAND", json.dumps(command))
    (folder / "job.toml").write_text(job, encoding="utf-8")
