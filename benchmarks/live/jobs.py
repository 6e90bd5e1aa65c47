"""A live scheduler and real processes: how soon they run and leave, what it costs to watch them.

    python -m benchmarks.live.jobs [--jobs 50] [--seconds 30] [--best-of 5]

The scheduler runs in this process, on a machine with as many made-up GPUs as jobs, and decides at
every event. `launch_s` is from the answer to a submission to the first line of user code, and
`release_s` from a request to suspend to the GPUs being free, less a mini-batch and the save: the
best of some. `idle_percent` is the share of one core that this process and its agent take while all
jobs run, train with the SDK and are sampled. Prints JSON.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import anyio
from anyio import to_thread

from benchmarks.commands import ROOT
from benchmarks.live.sites import SAYS_WHEN, WHOEVER, at_work, comes
from shunter.config import LoadedConfig, make_config
from shunter.daemon import Site, Submission
from shunter.events import AttemptStarted, GpusReleased, JobFinished, JobSpec

BUDGET_LAUNCH_S = 0.15
BUDGET_RELEASE_S = 0.3
BUDGET_IDLE_PERCENT = 1.0
BATCH_S = 0.2
TRAINS = f"""
import sys, time
sys.path.insert(0, {str(ROOT)!r})
from shunter import train
run = train.start()
print("up", flush=True)
while True:
    time.sleep({BATCH_S})
    run.step()
"""
LEAVES = """
import os, sys, time
print("up", flush=True)
while not os.path.exists(os.environ["SHUNTER_SUSPEND"]):
    time.sleep(0.001)
with open(os.environ["SHUNTER_CHANNEL"], "w") as channel:
    channel.write('{"what": "acknowledged"}\\n{"what": "saved", "checkpoint": "c", "step": 7}\\n')
os._exit(75)
"""


def machine(root: Path, gpus: int) -> LoadedConfig:
    """Return a cluster of one server with so many made-up GPUs, in a folder."""
    local = {"root": str(root / "attempts"), "grace": 0.5}
    return make_config(
        {
            "cluster": {"nodes": [{"name": "n0", "gpus": gpus}]},
            "policy": {"trigger": "event"},
            "backend": {"kind": "local", "local": local},
            "log": {"url": str(root / "log.db")},
        }
    )


def program(text: str) -> Submission:
    """Return a submission of a program that is quick to start."""
    return Submission(JobSpec(command=(sys.executable, "-I", "-S", "-c", text)))


async def launch_s(site: Site, root: Path) -> float:
    """Return how long after its answer a submission's code runs."""
    job_id = await site.submit(program(SAYS_WHEN), WHOEVER)
    answered_ns = time.monotonic_ns()
    await comes(site, 0, JobFinished, {job_id})
    said = (root / f"attempts/jobs/{job_id}/1/stdout.0").read_text()
    return (int(said) - answered_ns) / 1e9


async def release_s(site: Site, root: Path) -> float:
    """Return how long after a request the GPUs of a job that saves at once are free."""
    job_id = await site.submit(program(LEAVES), WHOEVER)
    await to_thread.run_sync(await_text, root / f"attempts/jobs/{job_id}/1/stdout.0")
    after = site.committed
    asked_s = time.monotonic()
    await site.tell(site.commands.suspend(job_id, WHOEVER))
    await comes(site, after, GpusReleased, {job_id})
    return time.monotonic() - asked_s


async def idle_percent(site: Site, jobs: int, seconds: float) -> float:
    """Return the share of one core this process and its agent take while jobs run."""
    names = {await site.submit(program(TRAINS), WHOEVER) for _ in range(jobs)}
    await comes(site, 0, AttemptStarted, names)
    await anyio.sleep(5.0)  # their first samples, which come closer together, are over
    spent_s, begun_s = scheduler_s(), time.monotonic()
    await anyio.sleep(seconds)
    return 100 * (scheduler_s() - spent_s) / (time.monotonic() - begun_s)


def scheduler_s() -> float:
    """Return the CPU seconds that this process and its children of now have taken."""
    ticks = os.sysconf("SC_CLK_TCK")
    taken = time.process_time()
    for path in sorted(Path("/proc/self/task").glob("*/children")):
        for child in path.read_text().split():
            spent = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[11:13]
            taken += sum(map(int, spent)) / ticks
    return taken


def await_text(path: Path) -> None:
    """Wait until something is printed; runs in a thread."""
    while not (path.exists() and path.read_text()):
        time.sleep(0.005)


async def measure(jobs: int, seconds: float, runs: int) -> dict[str, object]:
    """Measure each, and return the document."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        async with at_work(machine(root, jobs)) as site:
            launches = [await launch_s(site, root) for _ in range(runs)]
            releases = [await release_s(site, root) for _ in range(runs)]
            idle = await idle_percent(site, jobs - runs, seconds)
    return {
        "benchmark": "live_jobs",
        "jobs": jobs - runs,
        "launch_s": round(min(launches), 4),
        "launch_s_max": round(max(launches), 4),
        "budget_launch_s": BUDGET_LAUNCH_S,
        "release_s": round(min(releases), 4),
        "release_s_max": round(max(releases), 4),
        "budget_release_s": BUDGET_RELEASE_S,
        "idle_percent": round(idle, 3),
        "budget_idle_percent": BUDGET_IDLE_PERCENT,
    }


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=55)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--best-of", type=int, default=5)
    options = parser.parse_args()
    print(json.dumps(anyio.run(measure, options.jobs, options.seconds, options.best_of)))


if __name__ == "__main__":
    main()
