"""How long `shunter --help` takes: the best of several fresh processes, in wall seconds.

    python -m benchmarks.startup [--best-of 10]

Prints JSON.
"""

import argparse
import json
from statistics import fmean

from benchmarks.commands import shunter

BUDGET_S = 0.3


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


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--best-of", type=int, default=10)
    print(json.dumps(measure(parser.parse_args().best_of)))


if __name__ == "__main__":
    main()
