"""The setting of the public Tiresias simulator: whole processes, and how cost grows with jobs.

    python -m benchmarks.tiresias [--schedules fifo,dlas-gpu,shortest-gpu] [--best-of 5]
                                  [--sizes 5000,20000,80000] [--trace s5000_job.csv]

First each schedule on s5000 (32 servers with 4 GPUs), as a whole process and without start-up,
the event log in SQLite. The budgets are the CPU seconds that the public simulator needs for it on a
quiet machine (commit 959f9b0, Python 2.7) over 12.5 and 38; machines differ, so only a run of that
simulator beside this one tells the ratio. Then made-up jobs of the
same shape and load: the cost of a job must not grow by more than half from the first size to the
last. Prints one JSON document a line.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.commands import ROOT, TRACES, simulated

EXAMPLES = ROOT / "examples" / "peers" / "tiresias"
TRACE = TRACES / "tiresias" / "s5000_job.csv"
PEER_CPU_S = {"fifo": 10.2, "dlas-gpu": 10.8, "shortest-gpu": 13.6}
BUDGET_GROWTH = 1.5
SERVERS = "n[01-32]"


def measured(schedule: str, workload: str, log: Path) -> dict[str, float]:
    """Run once in a fresh process; return CPU seconds of the whole and of the loop."""
    words = ("--set", f"cluster.nodes.0.name={SERVERS}", "--set", workload)
    ran = simulated(EXAMPLES / f"{schedule}.toml", log, *words)
    document = ran.document
    loop_s = document["elapsed"]["cpu_s"]
    return {"process": ran.cpu_s, "loop": loop_s, "jobs": document["trace"]["jobs"]}


def best_of(runs: int, schedule: str, workload: str, folder: Path) -> dict[str, float]:
    """Return the least of several runs, because other work only ever adds."""
    found = [measured(schedule, workload, folder / "tiresias.db") for _ in range(runs)]
    return {key: min(each[key] for each in found) for key in found[0]}


def against_the_peer(schedule: str, trace: Path, runs: int, folder: Path) -> dict[str, Any]:
    """Measure a schedule on the trace the peer was measured on."""
    found = best_of(runs, schedule, f"workload.trace={trace}", folder)
    peer_s = PEER_CPU_S[schedule]
    return {
        "benchmark": "tiresias",
        "policy": schedule,
        "jobs": int(found["jobs"]),
        "process_cpu_s": round(found["process"], 2),
        "budget_process_cpu_s": round(peer_s / 12.5, 2),
        "cpu_s": round(found["loop"], 3),
        "budget_cpu_s": round(peer_s / 38, 3),
        "peer_cpu_s": peer_s,
    }


def growth(schedule: str, sizes: list[int], runs: int, folder: Path) -> dict[str, Any]:
    """Measure the cost of a job at several sizes."""
    costs_us = []
    for jobs in sizes:
        made = f'{{kind="tiresias-like",jobs={jobs},load=0.9}}'
        found = best_of(runs, schedule, f"workload.generate={made}", folder)
        costs_us.append(round(found["loop"] / jobs * 1e6, 1))
    return {
        "benchmark": "tiresias",
        "policy": f"{schedule} growth",
        "sizes": sizes,
        "us_per_job": costs_us,
        "growth": round(costs_us[-1] / costs_us[0], 2),
        "budget_growth": BUDGET_GROWTH,
    }


def main() -> None:
    """Measure, and print one JSON document a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", default=",".join(PEER_CPU_S))
    parser.add_argument("--best-of", type=int, default=5)
    parser.add_argument("--sizes", default="5000,20000,80000")
    parser.add_argument("--trace", type=Path, default=TRACE)
    options = parser.parse_args()
    schedules, sizes = (
        options.schedules.split(","),
        [int(size) for size in options.sizes.split(",")],
    )
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for schedule in schedules if options.trace.exists() else ():
            trace = options.trace.resolve()
            found = against_the_peer(schedule, trace, options.best_of, folder)
            print(json.dumps(found), flush=True)
        for schedule in schedules:
            runs = min(2, options.best_of)
            print(json.dumps(growth(schedule, sizes, runs, folder)), flush=True)


if __name__ == "__main__":
    main()
