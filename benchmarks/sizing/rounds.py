"""What one round costs in which jobs are sized: `tune` at 1,000 jobs, `opt` at 100.

    python -m benchmarks.sizing.rounds [--rounds 60] [--small]

All jobs come at once, each with a model of the built-in table of sensitivity and one to four GPUs,
and last ten minutes to ten hours; las in rounds of 5 min, nothing logged. A round is solving,
planning and folding what was decided. CPU seconds of the mean round and of the worst, that is the
first, in which jobs start on the whole cluster. Budgets are those of a machine that takes 0.52 s
for the loop of `loop.py`; elsewhere they go with what that takes. Prints one JSON document a line.
"""

import argparse
import asyncio
import csv
import json
import tempfile
from pathlib import Path
from statistics import fmean

from benchmarks.loop import loop_s
from benchmarks.rounds import timed_rounds
from shunter.core import RandomStream
from shunter.gc_control import collector_off
from shunter.workloads import builtin_sensitivity

CONFIG = """\
schema = 1
[[cluster.nodes]]
name = "n[001-{nodes:03}]"
gpus = 8
cpus = 24
memory_gb = 500
[workload]
trace = "jobs.csv"
sensitivity = "builtin:synergy"
[policy]
name = "las"
round = "5m"
sizing = "{sizing}"
[log]
url = "none:"
"""
BUDGET_LOOP_S, ROUND_S = 0.52, 300
CASES = (("tune", 1000, 128, 0.050), ("opt", 100, 21, 1.0))
"""Sizing, jobs, servers, and the seconds of a round at the most."""


def jobs_csv(jobs: int, path: Path) -> None:
    """Write jobs that all come at once."""
    models, rng = sorted(builtin_sensitivity().table.models), RandomStream(1, "rounds", 0)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["job_id", "submit_s", "duration_s", "gpus", "model"])
        for number in range(jobs):
            seconds = round(600 * 60 ** rng.random())
            gpus = (1, 1, 1, 1, 2, 4)[rng.below(6)]
            writer.writerow([f"j{number}", 0, seconds, gpus, models[rng.below(len(models))]])


def main() -> None:
    """Measure, and print one JSON document a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--small", action="store_true", help="a tenth of the jobs and servers")
    options = parser.parse_args()
    part, faster = (10 if options.small else 1), loop_s() / BUDGET_LOOP_S
    for sizing, jobs, nodes, budget_s in CASES:
        with tempfile.TemporaryDirectory() as folder, collector_off():
            config = Path(folder) / "rounds.toml"
            text = CONFIG.format(nodes=max(1, nodes // part), sizing=sizing)
            config.write_text(text, encoding="utf-8")
            jobs_csv(jobs // part, Path(folder) / "jobs.csv")
            taken = asyncio.run(timed_rounds(config, options.rounds * ROUND_S * 1_000_000))
        cpu_s = [each.cpu_s for each in taken]
        found = {
            "benchmark": "sizing_rounds",
            "policy": f"{sizing} {jobs // part}",
            "rounds": len(taken),
            "mean_cpu_s": round(fmean(cpu_s), 4),
            "worst_cpu_s": round(max(cpu_s), 4),
            "budget_worst_cpu_s": round(budget_s * faster, 4),
        }
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
