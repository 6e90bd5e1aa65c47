"""What `why` costs on a finished log: CPU seconds of the command beyond those of `--help`.

    python -m benchmarks.why [--trace PATH] [--jobs 320000] [--asked 9] [--best-of 3]

Two logs under `las`: the Philly trace on 400 GPUs, and that of so many generated jobs on 5,000
GPUs, a million events. In each, jobs spread over the whole trace are asked about, at the log's end
and at an instant while they waited; a question is asked several times, and its least counts.
Prints a JSON document for each log: the median question and the dearest one, whose CPU is the
budget's.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
from pathlib import Path

from benchmarks.commands import ROOT, TRACES, shunter, simulated
from benchmarks.loop import loop_s
from shunter.events import JobSubmitted
from shunter.events.log import read_log

TRACE = TRACES / "philly.csv"
GENERATED = """\
schema = 1
seed = 7
[[cluster.nodes]]
name = "n[001-625]"
gpus = 8
[workload.generate]
jobs = {jobs}
load = 0.95
[policy]
name = "las"
"""
# What the quick machine of `loop.py` (0.52 s) may need, in loops.
BUDGETS_LOOPS = {"philly": 0.5 / 0.52, "generated": 1.0 / 0.52}


def questions(log: Path, jobs: list[str]) -> list[tuple[str, ...]]:
    """Return what is asked: of each job how it ended, and why it waited while it did."""
    asked: list[tuple[str, ...]] = []
    for job in jobs:
        asked.append((job,))
        life = shunter("why", job, "--log", str(log), "--history", "--json").document
        waits = [one for one in life["timeline"] if one["what"] == "wait"]
        longest = max(waits, key=lambda one: one["to_us"] - one["from_us"], default=None)
        if longest:
            middle_s = (longest["from_us"] + longest["to_us"]) / 2e6
            asked.append((job, "--at", f"{middle_s:.0f}s"))
    return asked


def measure(name: str, log: Path, jobs: list[str], events: int, runs: int) -> dict[str, object]:
    """Ask every question, and return what the median and the dearest cost."""
    bare_s = min(shunter("--help").cpu_s for _ in range(runs))
    costs = {
        words: min(shunter("why", *words, "--log", str(log)).cpu_s for _ in range(runs)) - bare_s
        for words in questions(log, jobs)
    }
    dearest = max(costs, key=lambda words: costs[words])
    return {
        "benchmark": "why",
        "policy": name,
        "events": events,
        "questions": len(costs),
        "median_cpu_s": round(statistics.median(costs.values()), 3),
        "cpu_s": round(costs[dearest], 3),
        "dearest": " ".join(dearest),
        "budget_cpu_s": round(BUDGETS_LOOPS[name] * loop_s(), 3),
    }


async def jobs_of(log: Path, count: int) -> list[str]:
    """Return the ids of so many jobs of a log, from the first to the last submitted."""
    async with read_log(str(log)) as reader:
        jobs = [one.job_id async for one in reader.events() if isinstance(one, JobSubmitted)]
    return [jobs[place * (len(jobs) - 1) // max(1, count - 1)] for place in range(count)]


def main() -> None:
    """Measure, and print a JSON document a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=Path, default=TRACE)
    parser.add_argument("--jobs", type=int, default=320_000)
    parser.add_argument("--asked", type=int, default=9)
    parser.add_argument("--best-of", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        generated = folder / "generated.toml"
        generated.write_text(GENERATED.format(jobs=options.jobs), encoding="utf-8")
        runs: list[tuple[str, Path, tuple[str, ...]]] = [("generated", generated, ())]
        if options.trace.exists():
            trace = f"workload.trace={options.trace.resolve()}"
            runs.insert(0, ("philly", ROOT / "examples" / "philly.toml", ("--set", trace)))
        for name, config, words in runs:
            log = folder / f"{name}.db"
            events = simulated(config, log, "--policy", "las", *words).document["events"]
            jobs = asyncio.run(jobs_of(log, options.asked))
            print(json.dumps(measure(name, log, jobs, events, options.best_of)), flush=True)


if __name__ == "__main__":
    main()
