"""What a job's checkpoint folder costs the daemon when the job goes to another server over SSH.

    python -m benchmarks.live.checkpoint_folders [--case deep|flat|many|long|ordinary] [--jobs 4]

`shunter serve` runs two servers, both real sshds on loopback. Jobs save on the first, are
suspended, the server is drained, and they are resumed: their checkpoints go to the second, or are
refused.

    deep      180 nested folders with names of 250 bytes, 780 empty files in them: refused
    flat      500,000 empty files in one folder: refused
    many      80,000 files of 100 bytes: copied
    long      65,000 files whose names have 250 bytes, none a letter: copied, the longest list
    ordinary  100 files of 1 MB

`peak_mb` is how far the daemon's memory rises above what it had before the jobs were resumed,
`answer_s` how long `/healthz` took at worst from then on, `moved_s` how long it took until all jobs
ran or were refused. Prints JSON.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from benchmarks.commands import ROOT
from tests.live.ssh.farm import Farm, farm_at

BUDGET_PEAK_MB = 64.0
BUDGET_ANSWER_S = 0.3
PATIENCE_S = 500.0
CASES = ("deep", "flat", "many", "long", "ordinary")
PROGRAM = """
import os, sys, time
case, place = sys.argv[1], os.environ["SHUNTER_CHECKPOINT_DIR"]
if os.environ.get("SHUNTER_RESUME"):
    time.sleep(1000)
def deep():
    folder = os.open(place, os.O_RDONLY)
    for level in range(180):
        os.mkdir(b"\\xff" * 250, dir_fd=folder)
        folder, above = os.open(b"\\xff" * 250, os.O_RDONLY, dir_fd=folder), folder
        os.close(above)
    for number in range(780):
        os.close(os.open(str(number), os.O_CREAT | os.O_WRONLY, dir_fd=folder))
def many(count, content, name="%d"):
    for number in range(count):
        with open(place + "/" + name % number, "wb") as file:
            file.write(content)
{"deep": deep, "flat": lambda: many(500000, b""), "many": lambda: many(80000, b"x" * 100),
 "long": lambda: many(65000, b"", "\\udcff" * 245 + "%05d"),
 "ordinary": lambda: many(100, os.urandom(1000000))}[case]()
open(place + "/saved", "w").close()
while not os.path.exists(os.environ["SHUNTER_SUSPEND"]):
    time.sleep(0.01)
sys.exit(75)
"""
CONFIG = """
[cluster]
nodes = [{{ name = "n0", gpus = {jobs} }}, {{ name = "n1", gpus = {jobs} }}]
[policy]
trigger = "event"
[server]
listen = "unix:{root}/s"
[log]
url = "{root}/log.db"
[backend]
kind = "ssh"
[backend.ssh]
root = "{root}/daemon"
known_hosts = "{farm.known_hosts}"
keys = ["{farm.key}"]
python = "{python}"
[backend.ssh.hosts]
{hosts}
"""


class Cluster:
    """A daemon as a process, and the commands that are given to it."""

    def __init__(self, root: Path, farm: Farm, jobs: int) -> None:
        hosts = "\n".join(
            f'{host.name} = {{ address = "{host.address}", port = {host.port},'
            f' base = "{root / host.name}" }}'
            for host in farm.hosts.values()
        )
        config = root / "cluster.toml"
        config.write_text(
            CONFIG.format(jobs=jobs, root=root, farm=farm, python=sys.executable, hosts=hosts)
        )
        self._environment = {**os.environ, "SHUNTER_URL": f"unix:{root}/s"}
        self.daemon = subprocess.Popen(
            [sys.executable, "-m", "shunter", "serve", str(config)],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.client = httpx.Client(
            transport=httpx.HTTPTransport(uds=f"{root}/s"),
            base_url="http://localhost",
            timeout=60.0,
        )

    def tell(self, *words: str) -> str:
        """Give a command; return what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "shunter", *words],
            cwd=ROOT,
            env=self._environment,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout

    def memory_mb(self, what: str) -> float:
        """Return a figure of the daemon's memory from its status, in MB."""
        status = Path(f"/proc/{self.daemon.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith(f"{what}:"))
        return int(line.split()[1]) / 1000

    def forget_peak(self) -> None:
        """Let the peak of the daemon's memory begin from what it has now."""
        Path(f"/proc/{self.daemon.pid}/clear_refs").write_text("5")

    def shown(self, job: str) -> Any:
        """Return what is known of a job."""
        return self.client.get(f"/api/v1/jobs/{job}").raise_for_status().json()


def until(holds: Callable[[], bool], what: str) -> float:
    """Wait until something holds; return how long that took."""
    begun_s = time.monotonic()
    while not holds():
        if time.monotonic() - begun_s > PATIENCE_S:
            sys.exit(f"waited {PATIENCE_S:g} s for {what}")
        time.sleep(0.05)
    return time.monotonic() - begun_s


def measure(root: Path, case: str, jobs: int) -> dict[str, object]:
    """Return the figures of a case."""
    with farm_at(root / "farm", "n0", "n1") as farm:
        cluster = Cluster(root, farm, jobs)
        try:
            return moved(cluster, root, case, jobs)
        finally:
            for job in range(1, jobs + 1):
                cluster.tell("cancel", f"j{job}")
            cluster.daemon.terminate()
            cluster.daemon.wait()


def moved(cluster: Cluster, root: Path, case: str, jobs: int) -> dict[str, object]:
    """Have jobs save, go to the other server, and be watched on the way."""
    until(lambda: Path(root, "s").exists(), "the daemon")
    program = root / "program.py"
    program.write_text(PROGRAM)
    names = []
    for _ in range(jobs):
        command = (sys.executable, "-I", "-S", str(program), case)
        names.append(cluster.tell("submit", "--parsable", "--", *command).strip())
    saved = [f"n0/clusters/*/jobs/{name}/checkpoints/saved" for name in names]
    until(lambda: all(sorted(root.glob(pattern)) for pattern in saved), "what they save")
    cluster.tell("suspend", *names)
    until(lambda: all(_state(cluster, name) == "held" for name in names), "the suspension")
    cluster.tell("nodes", "drain", "n0")
    cluster.forget_peak()
    before_mb = cluster.memory_mb("VmRSS")
    slowest, over = [0.0], threading.Event()
    watching = threading.Thread(target=_ask_often, args=(cluster, slowest, over))
    watching.start()
    cluster.tell("resume", *names)
    outcomes: dict[str, str] = {}
    moved_s = until(lambda: _all_came(cluster, names, outcomes), "the checkpoints")
    over.set()
    watching.join()
    return {
        "case": case,
        "peak_mb": round(cluster.memory_mb("VmHWM") - before_mb, 1),
        "answer_s": round(slowest[0], 3),
        "moved_s": round(moved_s, 2),
        "outcomes": sorted(set(outcomes.values())),
        "budget_peak_mb": BUDGET_PEAK_MB,
        "budget_answer_s": BUDGET_ANSWER_S,
    }


def _state(cluster: Cluster, name: str) -> str:
    return str(cluster.shown(name)["state"])


def _all_came(cluster: Cluster, names: list[str], outcomes: dict[str, str]) -> bool:
    for name in names:
        if name not in outcomes:
            shown = cluster.shown(name)
            if shown["state"] == "running":
                outcomes[name] = "runs"
            elif "cannot be copied" in (said := json.dumps(shown)):
                outcomes[name] = "refused: " + said.partition("cannot be copied")[2][:90]
    return len(outcomes) == len(names)


def _ask_often(cluster: Cluster, slowest: list[float], over: threading.Event) -> None:
    while not over.wait(0.02):
        begun_s = time.monotonic()
        cluster.client.get("/healthz").raise_for_status()
        slowest[0] = max(slowest[0], time.monotonic() - begun_s)


def main() -> None:
    """Measure and print the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=CASES, action="append")
    parser.add_argument("--jobs", type=int, default=4)
    wanted = parser.parse_args()
    for case in wanted.case or CASES:
        with tempfile.TemporaryDirectory(prefix="shunter-") as folder:
            print(json.dumps(measure(Path(folder), case, wanted.jobs)), flush=True)


if __name__ == "__main__":
    main()
