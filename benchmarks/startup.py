"""What starting costs: `shunter --help`, and commands that do little else.

    python -m benchmarks.startup [--best-of 10]

Simulates one short job with a log, and asks a running daemon by `queue` and `submit`. The best of
several fresh processes: wall seconds of the first, CPU seconds of the others, of which nearly all
is imports. These are also told in `starts` of bare Python, which is run between them. The budget
of the simulation's seconds is in turns of the loop (`loop.py`): 0.65 of the 0.78 s that commit
3cca3f6 needed in the middle on the machine whose loop takes 0.86 s. Prints a JSON document for
each.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

from benchmarks.commands import Ran, children_cpu_s, shunter, simulated
from benchmarks.live.api import daemon, environment
from benchmarks.loop import loop_s

BUDGET_S = 0.3
BUDGET_SIMULATE_LOOPS = 0.65 * 0.78 / 0.86
BUDGETS_STARTS = {"simulate": 15, "queue": 8, "submit": 8}
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


def measure_start(name: str, command: Callable[[], Ran], runs: int) -> dict[str, object]:
    """Run a command and bare Python in turns, so many times each, and compare the best."""
    command()  # what it leaves behind is there from now on
    ran_s, bare_s = zip(*((command().cpu_s, bare_cpu_s()) for _ in range(runs)), strict=True)
    return {
        "benchmark": "startup",
        "policy": name,
        "runs": runs,
        "cpu_s": round(min(ran_s), 3),
        "starts": round(min(ran_s) / min(bare_s), 1),
        "budget_starts": BUDGETS_STARTS[name],
    }


def bare_cpu_s() -> float:
    """Return the CPU seconds of a Python that does nothing."""
    before_s = children_cpu_s()
    subprocess.run([sys.executable, "-I", "-c", "pass"], check=True)
    return children_cpu_s() - before_s


def main() -> None:
    """Measure, and print a JSON document a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--best-of", type=int, default=10)
    runs = parser.parse_args().best_of
    print(json.dumps(measure(runs)), flush=True)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        config = folder / "one.toml"
        config.write_text(ONE_JOB, encoding="utf-8")
        found = measure_start("simulate", lambda: simulated(config, folder / "one.db"), runs)
        found["budget_cpu_s"] = round(BUDGET_SIMULATE_LOOPS * loop_s(), 3)
        print(json.dumps(found), flush=True)
        with daemon(folder):
            asked = {"queue": ("queue",), "submit": ("submit", "--gpus", "4", "--", "true")}
            for name, words in asked.items():

                def command(words: tuple[str, ...] = words) -> Ran:
                    return shunter(*words, environment=environment(folder))

                print(json.dumps(measure_start(name, command, runs)), flush=True)


if __name__ == "__main__":
    main()
