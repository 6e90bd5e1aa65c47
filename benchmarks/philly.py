"""The Philly trace on 100 servers with 4 GPUs: CPU seconds from parsed trace to closed log.

    python -m benchmarks.philly [--trace PATH] [--policies las,srtf] [--best-of 5]

60 s rounds, consolidated placement, the log in SQLite; the best of several fresh processes, because
other work on the machine only ever adds. Prints one JSON document for each policy.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from benchmarks.commands import ROOT, TRACES, simulated

TRACE = TRACES / "philly.csv"
BUDGETS_CPU_S = {
    "las": 6.0,
    "srtf": 6.0,
    "fifo": 3.0,
    "fifo_backfill": 3.0,
    "tiresias": 6.0,
    "gittins": 12.0,
}


def measure(policy: str, trace: Path, runs: int, folder: Path) -> dict[str, object]:
    """Run a policy so many times and return the best."""
    words = ("--set", f"workload.trace={trace}", "--policy", policy)
    documents = [
        simulated(ROOT / "examples" / "philly.toml", folder / "philly.db", *words).document
        for _ in range(runs)
    ]
    assert len({document["log"]["digest"] for document in documents}) == 1, "runs differ"
    cpu_s = sorted(document["elapsed"]["cpu_s"] for document in documents)
    return {
        "benchmark": "philly",
        "policy": policy,
        "jobs": documents[0]["trace"]["jobs"],
        "events": documents[0]["events"],
        "cpu_s": round(cpu_s[0], 2),
        "cpu_s_all": [round(value, 2) for value in cpu_s],
        "budget_cpu_s": BUDGETS_CPU_S.get(policy),
        "digest": documents[0]["log"]["digest"],
    }


def main() -> None:
    """Measure, and print one JSON document a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=Path, default=TRACE)
    parser.add_argument("--policies", default=",".join(BUDGETS_CPU_S))
    parser.add_argument("--best-of", type=int, default=5)
    options = parser.parse_args()
    if not options.trace.exists():
        sys.exit(f"there is no trace {options.trace}; name one with --trace PATH")
    with tempfile.TemporaryDirectory() as folder:
        for policy in options.policies.split(","):
            trace = options.trace.resolve()
            print(json.dumps(measure(policy, trace, options.best_of, Path(folder))), flush=True)


if __name__ == "__main__":
    main()
