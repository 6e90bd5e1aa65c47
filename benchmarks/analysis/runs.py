"""What it costs to look at whole runs: CPU seconds of `diff`, `report` and exports of a log.

    python -m benchmarks.analysis.runs [--trace PATH] [--jobs N] [--best-of 2]

Two logs, under `las` and `tiresias`: of the Philly trace on 400 GPUs, or with --jobs of so many
generated ones. The least of several runs counts. Prints one JSON document.
"""

import argparse
import json
import tempfile
from importlib.util import find_spec
from pathlib import Path

from benchmarks.commands import ROOT, TRACES, shunter, simulated
from benchmarks.loop import loop_s

TRACE = TRACES / "philly.csv"
GENERATED = """\
schema = 1
seed = 7
[[cluster.nodes]]
name = "n[001-025]"
gpus = 8
[workload.generate]
jobs = {jobs}
load = 0.95
[policy]
name = "las"
"""
POLICIES = ("las", "tiresias")
# What the quick machine of `loop.py` (0.52 s) may need, in loops.
DIFF, REPORT, PERFETTO = 10 / 0.52, 15 / 0.52, 20 / 0.52
REPORT_MB = 10
DIFFERENT = 6


def measure(logs: list[Path], folder: Path, runs: int) -> dict[str, object]:
    """Run each command so many times, and return the least that each took."""

    def cpu_s(*words: str) -> float:
        return min(shunter(*words, codes=(0, DIFFERENT)).cpu_s for _ in range(runs))

    first, second = map(str, logs)
    report = folder / "report.html"
    found: dict[str, object] = {
        "diff_cpu_s": round(cpu_s("diff", first, second), 2),
        "report_cpu_s": round(cpu_s("report", first, "-o", str(report)), 2),
        "report_mb": round(report.stat().st_size / 1e6, 2),
    }
    for extra, package, target in (
        ("perfetto", "perfetto", "run.pftrace"),
        ("parquet", "pyarrow", "tables"),
    ):
        if find_spec(package) is not None:
            words = ("log", "export", first, f"--{extra}", str(folder / target))
            found[f"{extra}_cpu_s"] = round(cpu_s(*words), 2)
    loop = loop_s()
    return {
        **found,
        "budget_diff_cpu_s": round(DIFF * loop, 2),
        "budget_report_cpu_s": round(REPORT * loop, 2),
        "budget_report_mb": REPORT_MB,
        "budget_perfetto_cpu_s": round(PERFETTO * loop, 2),
    }


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=Path, default=TRACE)
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--best-of", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder, words = Path(place), tuple[str, ...]()
        config = ROOT / "examples" / "philly.toml"
        if options.jobs:
            config = folder / "generated.toml"
            config.write_text(GENERATED.format(jobs=options.jobs), encoding="utf-8")
        elif not options.trace.exists():
            parser.exit(1, f"there is no trace {options.trace}; name one with --trace, or --jobs\n")
        else:
            words = ("--set", f"workload.trace={options.trace.resolve()}")
        logs = [folder / f"{policy}.db" for policy in POLICIES]
        events = [
            simulated(config, log, "--policy", policy, *words).document["events"]
            for policy, log in zip(POLICIES, logs, strict=True)
        ]
        found = measure(logs, folder, options.best_of)
        print(json.dumps({"benchmark": "analysis_runs", "events": events, **found}))


if __name__ == "__main__":
    main()
