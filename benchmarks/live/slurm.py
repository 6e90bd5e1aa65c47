"""Attempts that are Slurm jobs: how soon they run, how soon many are known, what watching costs.

    python -m benchmarks.live.slurm [--best-of 8] [--at-once 500] [--running 1000] [--seconds 20]

The cluster is a real one on this machine (tests/live/slurm/bench.py). `above_sbatch_s` is how much
longer it takes from the answer to a submission to the first line of user code than from the start
of a plain `sbatch` to that of its script: the best of some each, in turns, since Slurm looks at its
queue once a second. `known_s` is how long after the answer to one batch of jobs Slurm has all of
them, while somebody else submits every half second: `refused` of these are. `watch_percent` is the
share of one core that a session takes for attempts that run, squeue included: their records are
made by hand, and the jobs of their names wait in Slurm. Prints JSON.
"""

import argparse
import json
import os
import random
import resource
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import anyio
from anyio import to_thread

from benchmarks.live.sites import SAYS_WHEN, WHOEVER, at_work, comes
from benchmarks.loop import loop_s
from shunter.backends.live import Reading
from shunter.backends.node import BEGUN, folder_of, own_folder, put, take_claim
from shunter.backends.slurm import JobBackend, attempt_job_name
from shunter.config import LoadedConfig, make_config
from shunter.daemon import Site, Submission
from shunter.events import JobFinished, JobSpec
from tests.live.slurm.bench import BenchNode, SlurmBench, bench_at
from tests.live.slurm.jobs import JobBench

BUDGET_ABOVE_SBATCH_S = 0.5
BUDGET_KNOWN_S = 60.0
BUDGET_WATCH_PERCENT = 2.0
GPUS = 64
NAMES = tuple(f"n{number}" for number in range(1, 9))
NODES = tuple(BenchNode(name, "v100", GPUS, "v100") for name in NAMES)
PYTHON = (sys.executable, "-I", "-S", "-c")


def config(slurm: SlurmBench, root: Path) -> LoadedConfig:
    """Return the bench as a cluster, with the usual limits."""
    return make_config(
        {
            "cluster": {
                "nodes": [{"name": node.name, "gpus": node.gpus, "type": "v100"} for node in NODES]
            },
            "policy": {"trigger": "event"},
            "backend": {
                "kind": "slurm",
                "slurm": {
                    "root": str(root / "attempts"),
                    "partition": "main",
                    "mode": "per-job",
                    "python": sys.executable,
                },
            },
            "log": {"url": str(root / "log.db")},
        }
    )


async def plain_s(slurm: SlurmBench, path: Path) -> float:
    """Return how long it takes from sbatch to the first line of a script's Python."""
    began_ns = time.monotonic_ns()
    script = f"exec {sys.executable} -I -S -c '{SAYS_WHEN}' > {path}"
    await to_thread.run_sync(slurm.submit, script, "--nodelist=n1", "--gres=gpu:v100:1")
    return await to_thread.run_sync(_said_ns, path) / 1e9 - began_ns / 1e9


def _said_ns(path: Path) -> int:
    """Wait for a file, and return the instant in it."""
    while not path.exists() or not path.read_text().endswith("\n"):
        time.sleep(0.01)
    return int(path.read_text())


async def launch_s(site: Site) -> float:
    """Return how long after its answer a submission's code runs."""
    job_id = await site.submit(Submission(JobSpec(command=(*PYTHON, SAYS_WHEN))), WHOEVER)
    answered_ns = time.monotonic_ns()
    await comes(site, 0, JobFinished, {job_id})
    said, _ = await site.read_output(job_id, 1, "stdout.0", 0, 100)
    return (int(said) - answered_ns) / 1e9


async def above_sbatch_s(site: Site, slurm: SlurmBench, root: Path, runs: int) -> float:
    """Return how much later user code runs than that of a plain batch job, at best."""
    plain, ours = [], []
    for number in range(runs):
        await anyio.sleep(random.random())  # Slurm's own period is no advantage to either
        plain.append(await plain_s(slurm, root / f"plain.{number}"))
        await anyio.sleep(random.random())
        ours.append(await launch_s(site))
    return min(ours) - min(plain)


async def known_s(site: Site, slurm: SlurmBench, count: int) -> tuple[float, int]:
    """Return when Slurm has all jobs of a batch, and how many of somebody else it refused."""
    refused = 0
    sleeps = Submission(JobSpec(command=("/bin/sleep", "600")))
    await site.submit_together([sleeps] * count, WHOEVER)
    answered_s = time.monotonic()
    others: list[int] = []
    while True:
        names = await to_thread.run_sync(
            lambda: slurm.command("squeue", "-h", "-t", "PENDING,RUNNING", "-o", "%j").split()
        )
        if sum(name.startswith("shunter:") for name in names) >= count:
            break
        try:
            others.append(await to_thread.run_sync(slurm.submit, "true", "--nodelist=n3"))
        except AssertionError:
            refused += 1
        await anyio.sleep(0.5)
    return time.monotonic() - answered_s, refused


async def watch_percent(slurm: SlurmBench, root: Path, count: int, seconds: float) -> float:
    """Return the share of one core that it takes to watch attempts."""
    bench = JobBench(slurm, root)
    settings = replace(bench.settings(), look_s=1.0, settle_s=15.0, poll_s=5.0, patrol_s=5.0)
    slurm.command("scontrol", "update", "PartitionName=main", "State=DOWN")
    try:
        for number in range(count):
            _running(
                settings.root, f"j{number}", attempt_job_name(settings.cluster_id, f"j{number}", 1)
            )
            name = f"--job-name={attempt_job_name(settings.cluster_id, f'j{number}', 1)}"
            await to_thread.run_sync(slurm.submit, "true", name)
        async with JobBackend(settings) as backend:
            (agent,) = backend.agents.values()
            for number in range(count):
                agent.watch(f"j{number}", 1, Reading())
            await anyio.sleep(settings.poll_s)
            before_s = _cpu_s()
            await anyio.sleep(seconds)
            return 100 * (_cpu_s() - before_s) / seconds
    finally:
        slurm.command("scontrol", "update", "PartitionName=main", "State=UP")


def _running(root: str, job: str, name: str) -> None:
    """Make the records of an attempt that runs somewhere."""
    folder = folder_of(root, job, 1)
    own_folder(folder)
    take_claim(folder, BEGUN)
    rank = {"argv": [], "env": {}, "cpus": [0], "pinned": False, "directory": "/", "gpus": ["0"]}
    started: dict[str, object] = {"job": job, "attempt": 1, "term": 1, "placement": [["n1", 1]]}
    started |= {"ranks": [rank], "port": 29500, "gpus": ["0"], "cgroup": None, "pid": 4_000_000}
    put(f"{folder}/started", {**started, "boot": name, "started_ns": 1})


def _cpu_s() -> float:
    """Return the processor time of this process and of the children it has buried, in s."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


async def measure(runs: int, at_once: int, running: int, seconds: float) -> dict[str, object]:
    """Measure, and return the document."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        with bench_at(root / "bench", NODES) as slurm:
            os.environ["SLURM_CONF"] = str(slurm.conf)
            async with at_work(config(slurm, root)) as site:
                above = await above_sbatch_s(site, slurm, root, runs)
                known, refused = await known_s(site, slurm, at_once)
            slurm.restore()
            watched = root / "watched"
            watched.mkdir()
            percent = await watch_percent(slurm, watched, running, seconds)
    return {
        "benchmark": "live_slurm",
        "above_sbatch_s": round(above, 3),
        "budget_above_sbatch_s": BUDGET_ABOVE_SBATCH_S,
        "at_once": at_once,
        "known_s": round(known, 2),
        "budget_known_s": BUDGET_KNOWN_S,
        "refused": refused,
        "running": running,
        "watch_percent": round(percent, 2),
        "budget_watch_percent": BUDGET_WATCH_PERCENT,
        "loop_s": round(loop_s(), 3),
    }


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--best-of", type=int, default=8)
    parser.add_argument("--at-once", type=int, default=500)
    parser.add_argument("--running", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20.0)
    given = parser.parse_args()
    document = anyio.run(measure, given.best_of, given.at_once, given.running, given.seconds)
    print(json.dumps(document))


if __name__ == "__main__":
    main()
