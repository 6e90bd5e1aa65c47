"""A million generated jobs on 1,000 GPUs: CPU seconds, peak memory, and the cost of each job.

    python -m benchmarks.million [--jobs 1000000] [--small 100000] [--policy las] [--load 1.1]

More is submitted than the GPUs can do, so jobs queue, and a million keep the GPUs busy for more
than 0.9 of the time, the end included, in which the longest jobs run alone: `gpu_utilisation`. The
log is in SQLite. Each size runs in a fresh process; the cost of a job must hardly grow from the
small size to the large one. Prints one JSON document for each size; without the small one if that
is 0.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.commands import ROOT

SERVERS = 125
GPUS = 8
BUDGET_CPU_S = 50.0
BUDGET_MEMORY_GIB = 0.50
BUDGET_UTILISATION = 0.9
BUDGET_GROWTH = 1.1


def run_here(jobs: int, policy: str, load: float, log: str) -> dict[str, object]:
    """Simulate so many jobs in this process, and return what it took."""
    from shunter.config import make_config
    from shunter.run import simulate

    config = make_config(
        {
            "schema": 1,
            "seed": 7,
            "cluster": {"nodes": [{"name": f"n[001-{SERVERS}]", "gpus": GPUS}]},
            "workload": {"generate": {"jobs": jobs, "load": load}},
            "policy": {"name": policy},
            "log": {"url": log},
        }
    )
    document = simulate(config, overwrite=True).document
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "benchmark": "million",
        "policy": policy,
        "jobs": jobs,
        "events": document["events"],
        "cpu_s": round(document["elapsed"]["cpu_s"], 2),
        "parse_cpu_s": round(document["elapsed"]["parse_cpu_s"], 2),
        "cpu_us_per_job": round(document["elapsed"]["cpu_s"] / jobs * 1e6, 2),
        "peak_gib": round(peak_kib / 2**20, 3),
        "gpu_utilisation": round(document["gpu_utilisation"] or 0.0, 3),
        "digest": document["log"]["digest"],
    }


def run_fresh(jobs: int, policy: str, load: float, log: Path) -> dict[str, object]:
    """Simulate so many jobs in a process of their own."""
    command = [sys.executable, "-m", "benchmarks.million", "--here", str(log), "--jobs", str(jobs)]
    command += ["--policy", policy, "--load", str(load)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    document: dict[str, object] = json.loads(done.stdout)
    return document


def main() -> None:
    """Measure both sizes, and print one JSON document a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--small", type=int, default=100_000)
    parser.add_argument("--policy", default="las")
    parser.add_argument("--load", type=float, default=1.1)
    parser.add_argument("--here", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        print(json.dumps(run_here(options.jobs, options.policy, options.load, options.here)))
        return
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "million.db"
        small = options.small and run_fresh(options.small, options.policy, options.load, log)
        if small:
            print(json.dumps(small), flush=True)
        large = run_fresh(options.jobs, options.policy, options.load, log)
    large["budget_cpu_s"] = BUDGET_CPU_S
    large["budget_peak_gib"] = BUDGET_MEMORY_GIB
    large["budget_gpu_utilisation"] = BUDGET_UTILISATION
    if small:
        growth = float(str(large["cpu_us_per_job"])) / float(str(small["cpu_us_per_job"]))
        large["growth"] = round(growth, 2)
        large["budget_growth"] = BUDGET_GROWTH
    print(json.dumps(large))


if __name__ == "__main__":
    main()
