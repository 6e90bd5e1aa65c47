"""Short jobs on this machine: how many begin and end in a second, and what a supervisor takes.

    python -m benchmarks.live.short_jobs [--jobs 600] [--gpus 32] [--quiet 20]

All jobs are submitted in one batch and do nothing (`/bin/true`); what is measured is from then on
to the end of the last. `uss_mb` is the private memory (Private_Clean and
Private_Dirty of smaps_rollup) of the supervisors of some jobs that wait for a while, and
`reaper_mb` that of the process beside each. Prints JSON, with the loop of benchmarks/loop.py.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import anyio

from benchmarks.live.jobs import machine
from benchmarks.live.sites import WHOEVER, at_work, comes
from benchmarks.loop import loop_s
from shunter.backends.node import get
from shunter.daemon import Site, Submission
from shunter.events import AttemptStarted, JobFinished, JobSpec

BUDGET_PER_S = 100.0
BUDGET_USS_MB = 6.0


def private_mb(pid: int) -> float:
    """Return the memory that a process shares with nobody, in MiB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def parent_of(pid: int) -> int:
    """Return the parent of a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


async def jobs_per_s(site: Site, count: int) -> float:
    """Return how many jobs that do nothing begin and end in a second."""
    jobs = [Submission(JobSpec(command=("/bin/true",))) for _ in range(count)]
    begun_s = time.monotonic()
    names = set(await site.submit_together(jobs, WHOEVER))
    await comes(site, 0, JobFinished, names)
    return count / (time.monotonic() - begun_s)


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


async def measure(jobs: int, gpus: int, quiet: int) -> dict[str, object]:
    """Measure, and return the document."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        async with at_work(machine(root, gpus)) as site:
            rate = await jobs_per_s(site, jobs)
            uss_mb, reaper_mb = await supervisors_mb(site, root, quiet)
    return {
        "benchmark": "live_short_jobs",
        "jobs": jobs,
        "per_s": round(rate, 1),
        "budget_per_s": BUDGET_PER_S,
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
    options = parser.parse_args()
    print(json.dumps(anyio.run(measure, options.jobs, options.gpus, options.quiet)))


if __name__ == "__main__":
    main()
