"""What `make demo` costs whoever has just cloned the repository, whose packages are downloaded.

    python -m benchmarks.demo

CPU seconds of everything that it starts: the environment, the installation and the demonstration.
Packages come from the cache of the machine as far as it has them; what is fetched over the network
costs wall time, and little of this. Prints JSON.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

from benchmarks.commands import ROOT, children_cpu_s
from benchmarks.loop import loop_s

BUDGET_LOOPS = 60 / 0.86


def measure(folder: Path) -> dict[str, object]:
    """Clone the repository and run its demonstration."""
    clone = folder / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    before_s = children_cpu_s()
    done = subprocess.run(["make", "demo"], cwd=clone, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"make demo: {done.stderr.strip()}")
    return {
        "benchmark": "demo",
        "cpu_s": round(children_cpu_s() - before_s, 1),
        "budget_cpu_s": round(BUDGET_LOOPS * loop_s(), 1),
    }


def main() -> None:
    """Measure, and print one JSON document."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(Path(folder))))


if __name__ == "__main__":
    main()
