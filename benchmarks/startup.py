"""How long `shunter --help` takes: the best of several fresh processes, in wall seconds.

    python benchmarks/startup.py [--best-of 10]

Prints JSON.
"""

import argparse
import json
import resource
import subprocess
import sys
import time

BUDGET_S = 0.3


def measure(runs: int) -> dict[str, object]:
    """Start the command so many times and return the best."""
    walls = []
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(runs):
        begun = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "shunter", "--help"], check=True, stdout=subprocess.DEVNULL
        )
        walls.append(time.perf_counter() - begun)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "benchmark": "startup",
        "runs": runs,
        "wall_s": round(min(walls), 3),
        "cpu_s_mean": round(cpu_s / runs, 3),
        "budget_wall_s": BUDGET_S,
    }


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--best-of", type=int, default=10)
    print(json.dumps(measure(parser.parse_args().best_of)))


if __name__ == "__main__":
    main()
