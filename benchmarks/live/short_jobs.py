"""Short jobs on this machine: how many begin and end in a second, and what a supervisor takes.

    python -m benchmarks.live.short_jobs [--jobs 600] [--gpus 32] [--quiet 20] [--rounds 1]
                                         [--hyperqueue PYTHON]

All jobs are submitted in one batch and do nothing (`/bin/true`); what is measured is from then on
to the end of the last, best of some rounds. `cpu_ms` is the CPU time of a job: of the daemon, the
agent, the supervisors and the job itself. `uss_mb` is the private memory (Private_Clean and
Private_Dirty of smaps_rollup) of the supervisors of some jobs that wait for a while, and
`reaper_mb` that of the process beside each. Prints JSON, with the loop of benchmarks/loop.py.

HyperQueue 0.27 runs as many on as many CPUs, in turn with ours, if PYTHON has its package
(`pip install hyperqueue==0.27`; the same Python as here, if it is not named). Its server and its
worker are threads of that process, so no message of theirs leaves it; both write to TMPDIR. Of
HyperQueue the time to the start of the last job is taken: its API looks for the end once a second.
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anyio
from anyio import to_thread

from benchmarks.live.jobs import machine
from benchmarks.live.sites import WHOEVER, at_work, comes
from benchmarks.loop import loop_s
from shunter.backends.node import below, get, processes, stat_of
from shunter.daemon import Site, Submission
from shunter.events import AttemptStarted, JobFinished, JobSpec

BUDGET_PER_S = 100.0
BUDGET_USS_MB = 6.0


HYPERQUEUE = """
import json, os, resource, sys, time
from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig
jobs, cpus = map(int, sys.argv[1:])
def cpu_s():
    both = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in both)
with LocalCluster(os.path.abspath("server"), WorkerConfig(cores=cpus)) as cluster:
    client, job = cluster.client(), Job()
    for number in range(jobs):
        job.program(["/bin/true"], stdout=f"out.{number}", stderr=f"err.{number}")
    time.sleep(1)
    spent_s, begun_s = cpu_s(), time.time()
    client.wait_for_jobs([client.submit(job)])
    spent_s = cpu_s() - spent_s
    last_s = max(os.stat(f"out.{number}").st_mtime for number in range(jobs))
    print(json.dumps([jobs / (last_s - begun_s), 1000 * spent_s / jobs]), flush=True)
"""


def private_mb(pid: int) -> float:
    """Return the memory that a process shares with nobody, in MiB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def parent_of(pid: int) -> int:
    """Return the parent of a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def cpu_s() -> float:
    """Return the CPU time of this process, and of all below it that live or that it waited for."""
    spent = 0.0
    for pid in below(os.getpid(), processes()):
        spent += sum(map(int, stat_of(pid)[11:15])) / os.sysconf("SC_CLK_TCK")
    return spent + time.process_time()


async def run_jobs(site: Site, count: int) -> tuple[float, float]:
    """Return how many jobs that do nothing begin and end in a second, and the CPU ms of each."""
    jobs = [Submission(JobSpec(command=("/bin/true",))) for _ in range(count)]
    spent_s, begun_s, after = cpu_s(), time.monotonic(), site.committed
    names = set(await site.submit_together(jobs, WHOEVER))
    await comes(site, after, JobFinished, names)
    per_s = count / (time.monotonic() - begun_s)
    return per_s, 1000 * (cpu_s() - spent_s) / count


def run_hyperqueue(python: str, jobs: int, cpus: int) -> tuple[float, float]:
    """Return the same of HyperQueue."""
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(
            [python, "-c", HYPERQUEUE, str(jobs), str(cpus)],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # its bar of progress
            text=True,
            check=True,
        )
    per_s, cpu_ms = json.loads(ran.stdout.splitlines()[-1])
    return float(per_s), float(cpu_ms)


async def supervisors_mb(site: Site, root: Path, count: int) -> tuple[float, float]:
    """Return the median private memory of supervisors and of their reapers."""
    after = site.committed
    quiet = [Submission(JobSpec(command=("/bin/sleep", "600"))) for _ in range(count)]
    names = {await site.submit(job, WHOEVER) for job in quiet}
    await comes(site, after, AttemptStarted, names)
    await anyio.sleep(3.0)
    pids = []
    for name in sorted(names):
        record = get(f"{root}/attempts/jobs/{name}/1/started")
        assert record is not None, "it was seen to start"
        assert isinstance(record["pid"], int), "a supervisor notes its process id"
        pids.append(record["pid"])
    own = statistics.median(private_mb(pid) for pid in pids)
    return own, statistics.median(private_mb(parent_of(pid)) for pid in pids)


async def measure(options: argparse.Namespace) -> dict[str, object]:
    """Measure, and return the document."""
    ours, theirs = list[tuple[float, float]](), list[tuple[float, float]]()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        async with at_work(machine(root, options.gpus)) as site:
            for _ in range(options.rounds):
                ours.append(await run_jobs(site, options.jobs))
                if options.hyperqueue:
                    size = options.jobs, options.gpus
                    theirs.append(
                        await to_thread.run_sync(run_hyperqueue, options.hyperqueue, *size)
                    )
            uss_mb, reaper_mb = await supervisors_mb(site, root, options.quiet)
    per_s, cpu_ms = max(ours)
    said: dict[str, object] = {"hyperqueue": "left out: its package is not installed"}
    if theirs:
        their_per_s, their_cpu_ms = max(theirs)
        said = {
            "hyperqueue": {"per_s": round(their_per_s, 1), "cpu_ms": round(their_cpu_ms, 2)},
            "of_hyperqueue": round(per_s / their_per_s, 2),
        }
    return {
        "benchmark": "live_short_jobs",
        "jobs": options.jobs,
        "per_s": round(per_s, 1),
        "budget_per_s": BUDGET_PER_S,
        "cpu_ms": round(cpu_ms, 2),
        **said,
        "uss_mb": round(uss_mb, 2),
        "reaper_mb": round(reaper_mb, 2),
        "budget_uss_mb": BUDGET_USS_MB,
        "loop_s": round(loop_s(), 3),
    }


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=600)
    parser.add_argument("--gpus", type=int, default=32)
    parser.add_argument("--quiet", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=1)
    is_here = importlib.util.find_spec("hyperqueue") is not None
    parser.add_argument("--hyperqueue", metavar="PYTHON", default=sys.executable * is_here)
    print(json.dumps(anyio.run(measure, parser.parse_args())))


if __name__ == "__main__":
    main()
