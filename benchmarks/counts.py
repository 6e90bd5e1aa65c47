"""What a simulation costs, without noise: Python calls a fact, and bytes a job of its log.

    python -m benchmarks.counts [--trace PATH] [--rows 10000] [--policy las] [--generated JOBS]

`calls_per_fact` counts calls of Python functions (each time that a generator or a coroutine goes on
counts too, calls of functions in C do not) in the thread of the round loop, from its first step to
its last, over the first rows of the Philly trace, in order of submission, on 400 GPUs; the log is
written. It is divided by the events of the log. `bytes_per_job` is the size of the log of the whole
trace over its jobs. With `--generated`, both are of so many generated jobs, without a trace. Prints
one JSON document.
"""

import argparse
import json
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.commands import ROOT, TRACES, simulated
from shunter.config import LoadedConfig, load_config
from shunter.run import load_jobs, simulate

TRACE = TRACES / "philly.csv"
BUDGET_CALLS_PER_FACT = 24
BUDGET_BYTES_PER_JOB = 80
GENERATED = """\
schema = 1
[cluster]
[[cluster.nodes]]
name = "gpu[001-100]"
gpus = 4
[workload.generate]
jobs = {jobs}
load = 1.2
"""


def calls_in_the_loop(config: LoadedConfig) -> tuple[int, int]:
    """Return the calls of Python functions in a run's round loop, and the events of its log."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    run: Any = import_module("shunter.run.simulation")
    loop = run.run_rounds

    async def counted(*arguments: object, **options: object) -> object:
        sys.setprofile(count)
        try:
            return await loop(*arguments, **options)
        finally:
            sys.setprofile(None)

    trace, run.run_rounds = load_jobs(config), counted
    try:
        document = simulate(config, trace=trace, overwrite=True).document
    finally:
        run.run_rounds = loop
    assert calls, "the round loop of a simulation has another name now"
    return calls, document["events"]


def measure(config: Path, words: list[str], rows: int | None, folder: Path) -> dict[str, object]:
    """Count, and return the document; of the first rows, or of all there are."""
    log = folder / "counts.db"
    keys = [*words, f"log.url={log}", *([] if rows is None else [f"workload.rows=[0,{rows}]"])]
    calls, events = calls_in_the_loop(load_config(config, [("--set", key) for key in keys]))
    document = simulated(config, log, *(f"--set={key}" for key in words)).document
    jobs, size = document["trace"]["jobs"], log.stat().st_size
    return {
        "benchmark": "counts",
        "policy": document["policy"],
        "events": events,
        "calls": calls,
        "calls_per_fact": round(calls / events, 2),
        "budget_calls_per_fact": BUDGET_CALLS_PER_FACT,
        "jobs": jobs,
        "bytes": size,
        "bytes_per_job": round(size / jobs, 1),
        "budget_bytes_per_job": BUDGET_BYTES_PER_JOB,
    }


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=Path, default=TRACE)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--policy", default="las")
    parser.add_argument("--generated", type=int)
    options = parser.parse_args()
    if options.generated is None and not options.trace.exists():
        sys.exit(f"there is no trace {options.trace}; name one with --trace, or --generated JOBS")
    words = [f"policy.name={options.policy}"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.generated is None:
            words.append(f"workload.trace={options.trace.resolve()}")
            found = measure(ROOT / "examples" / "philly.toml", words, options.rows, folder)
        else:
            config = folder / "counts.toml"
            config.write_text(GENERATED.format(jobs=options.generated), encoding="utf-8")
            found = measure(config, words, None, folder)
        print(json.dumps(found))


if __name__ == "__main__":
    main()
