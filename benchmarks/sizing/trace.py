"""The Philly trace under `las` with jobs sized by `tune`, over the same without.

    python -m benchmarks.sizing.trace [--trace PATH] [--rows 82247] [--best-of 2]

Each job is drawn one of the models of the built-in table of sensitivity, by its place in the trace;
100 servers with 4 GPUs, 12 CPUs and 250 GB, 60 s rounds, the log in SQLite. CPU seconds from parsed
trace to closed log, both in this run. Prints one JSON document.
"""

import argparse
import csv
import json
import sys
import tempfile
from pathlib import Path

from benchmarks.commands import ROOT, TRACES, simulated
from shunter.core import RandomStream
from shunter.workloads import builtin_sensitivity, load_trace

TRACE = TRACES / "philly.csv"
BUDGET_RATIO = 2.0
SERVERS = ("--set", "cluster.nodes.0.cpus=12", "--set", "cluster.nodes.0.memory_gb=250")


def with_models(trace: Path, rows: int, path: Path) -> None:
    """Write the first rows of a trace with a model for each job."""
    models, rng = sorted(builtin_sensitivity().table.models), RandomStream(1, "models", 0)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["job_id", "submit_s", "duration_s", "gpus", "model"])
        for job in load_trace(str(trace), None, (0, rows)).jobs:
            model = models[rng.below(len(models))]
            seconds = job.submit_us / 1e6, job.duration_us / 1e6
            writer.writerow([job.job_id, *seconds, job.spec.gpus, model])


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=Path, default=TRACE)
    parser.add_argument("--rows", type=int, default=82_247)
    parser.add_argument("--best-of", type=int, default=2)
    options = parser.parse_args()
    if not options.trace.exists():
        sys.exit(f"there is no trace {options.trace}; name one with --trace PATH")
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "models.csv"
        with_models(options.trace.resolve(), options.rows, trace)
        keys = f"trace={trace}", "format=canonical-csv", "sensitivity=builtin:synergy"
        words = [word for key in keys for word in ("--set", f"workload.{key}")]
        words += ["--policy", "las", *SERVERS]
        config, log = ROOT / "examples" / "philly.toml", Path(folder) / "sizing.db"
        cpu_s = []
        for sizing in ((), ("--set", "policy.sizing=tune")):
            every = [
                simulated(config, log, *words, *sizing).document for _ in range(options.best_of)
            ]
            cpu_s.append(min(each["elapsed"]["cpu_s"] for each in every))
    print(
        json.dumps(
            {
                "benchmark": "sizing_trace",
                "policy": "las",
                "rows": options.rows,
                "plain_cpu_s": round(cpu_s[0], 2),
                "cpu_s": round(cpu_s[1], 2),
                "ratio": round(cpu_s[1] / cpu_s[0], 2),
                "budget_ratio": BUDGET_RATIO,
            }
        )
    )


if __name__ == "__main__":
    main()
