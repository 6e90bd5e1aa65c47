"""How fast a log is replayed: decoded and folded, in CPU seconds of the process.

    python -m benchmarks.replay [--log FILE] [--jobs 50000] [--best-of 3]

Without a log, one of so many generated jobs under `las` is made first. Prints JSON.
"""

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path

from shunter.app.config import make_config
from shunter.app.replaying.folding import fold_log
from shunter.app.runs.simulation import simulate
from shunter.events.log import read_log

BUDGET_PER_S = 300_000


def make_log(path: Path, jobs: int) -> None:
    """Simulate so many jobs on 400 GPUs."""
    config = make_config(
        {
            "schema": 1,
            "seed": 7,
            "cluster": {"nodes": [{"name": "gpu[001-100]", "gpus": 4}]},
            "workload": {"generate": {"jobs": jobs, "load": 0.95}},
            "policy": {"name": "las"},
            "log": {"url": str(path)},
        }
    )
    simulate(config, overwrite=True)


async def measure(path: str, runs: int) -> dict[str, object]:
    """Replay a log so many times and return the best."""
    seconds, events = [], 0
    for _ in range(runs):
        async with read_log(path) as reader:
            begun = time.process_time()
            folded = await fold_log(reader)
            seconds.append(time.process_time() - begun)
        events = folded.state.seq
    return {
        "benchmark": "replay",
        "events": events,
        "cpu_s": round(min(seconds), 3),
        "events_per_s": round(events / min(seconds)),
        "budget_events_per_s": BUDGET_PER_S,
    }


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log")
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--best-of", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.log or str(Path(folder) / "replay.db")
        if not options.log:
            make_log(Path(path), options.jobs)
        print(json.dumps(asyncio.run(measure(path, options.best_of))))


if __name__ == "__main__":
    main()
