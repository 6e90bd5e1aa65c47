"""The public Synergy simulator, played: whole processes, and the loop without start-up.

    python -m benchmarks.synergy [--runs fifo-tune-static,las-tune-static] [--best-of 5]

100 jobs on 4 servers with 8 GPUs, the event log in SQLite. The budget is a quarter of the CPU
seconds that the public simulator needs without imports (commit 1bb2bed). It is that of a machine
that takes 0.52 s for the loop of `loop.py`; elsewhere it goes with what that takes. Prints one JSON
document a line.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.commands import ROOT, TRACES, simulated
from benchmarks.loop import loop_s

EXAMPLE = ROOT / "examples" / "peers" / "synergy" / "tune.toml"
RUNS = "fifo-proportional-static,fifo-tune-static,las-tune-static,srtf-tune-dynamic"
BUDGET_CPU_S, BUDGET_LOOP_S = 0.2, 0.52


def measured(run: str, runs: int, log: Path) -> dict[str, Any]:
    """Return the least of several runs, because other work only ever adds.

    Args:
        run: order, mechanism and kind of trace.
        runs: how many.
        log: where its events go.
    """
    order, mechanism, kind = run.split("-")
    trace = TRACES / "synergy" / f"{kind}_100job.csv"
    overrides = (
        f"workload.trace={trace.resolve()}" if trace.exists() else "",
        "cluster.nodes.0.name=n[1-4]",
        f"policy.params.synergy_peer.order={order}",
        f"policy.params.synergy_peer.mechanism={mechanism}",
    )
    words = [word for each in overrides if each for word in ("--set", each)]
    every = [simulated(EXAMPLE, log, *words) for _ in range(runs)]
    document = every[0].document
    return {
        "benchmark": "synergy",
        "policy": run,
        "jobs": document["trace"]["jobs"],
        "events": document["events"],
        "process_cpu_s": round(min(each.cpu_s for each in every), 2),
        "cpu_s": round(min(each.document["elapsed"]["cpu_s"] for each in every), 3),
        "budget_cpu_s": round(BUDGET_CPU_S * loop_s() / BUDGET_LOOP_S, 3),
    }


def main() -> None:
    """Measure, and print one JSON document a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", default=RUNS)
    parser.add_argument("--best-of", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for run in options.runs.split(","):
            found = measured(run, options.best_of, Path(folder) / "synergy.db")
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
