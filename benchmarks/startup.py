"""What starting costs: `shunter --help`, and the simulation of one short job.

    python -m benchmarks.startup [--best-of 10]

The best of several fresh processes: wall seconds of the first, CPU seconds of the second, of which
nearly all is imports and the check of the config. Its budget is in turns of the loop (`loop.py`):
0.65 of the 0.78 s that commit 3cca3f6 needed in the middle on the machine whose loop takes 0.86 s.
Prints a JSON document for each.
"""

import argparse
import json
import tempfile
from pathlib import Path
from statistics import fmean

from benchmarks.commands import shunter, simulated
from benchmarks.loop import loop_s

BUDGET_S = 0.3
BUDGET_SIMULATE_LOOPS = 0.65 * 0.78 / 0.86
ONE_JOB = """\
[[cluster.nodes]]
name = "n0"
gpus = 4
[workload.generate]
jobs = 1
"""


def measure(runs: int) -> dict[str, object]:
    """Start the command so many times and return the best."""
    found = [shunter("--help") for _ in range(runs)]
    return {
        "benchmark": "startup",
        "runs": runs,
        "wall_s": round(min(ran.wall_s for ran in found), 3),
        "cpu_s_mean": round(fmean(ran.cpu_s for ran in found), 3),
        "budget_wall_s": BUDGET_S,
    }


def measure_simulate(runs: int, folder: Path) -> dict[str, object]:
    """Simulate one job so many times and return the best."""
    config = folder / "one.toml"
    config.write_text(ONE_JOB, encoding="utf-8")
    found = [simulated(config, folder / "one.db") for _ in range(runs)]
    return {
        "benchmark": "startup",
        "policy": "simulate",
        "runs": runs,
        "cpu_s": round(min(ran.cpu_s for ran in found), 3),
        "budget_cpu_s": round(BUDGET_SIMULATE_LOOPS * loop_s(), 3),
    }


def main() -> None:
    """Measure, and print a JSON document a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--best-of", type=int, default=10)
    runs = parser.parse_args().best_of
    print(json.dumps(measure(runs)), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure_simulate(runs, Path(folder))))


if __name__ == "__main__":
    main()
