"""How fast a log is replayed: decoded and folded, and decided again (`replay --verify`).

    python -m benchmarks.replay [--jobs 50000] [--best-of 3]

A log of so many generated jobs under `las` is made first. `events_per_s` is of the folding alone;
`verify_ratio` is the CPU of the whole command `replay --verify` over that of the simulation which
wrote the log. The best of several; prints JSON.
"""

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path

from benchmarks.commands import shunter, simulated
from shunter.ask import fold_log
from shunter.events.log import read_log

BUDGET_PER_S = 300_000
BUDGET_VERIFY_RATIO = 1.1
CONFIG = """\
schema = 1
seed = 7
[[cluster.nodes]]
name = "gpu[001-100]"
gpus = 4
[workload.generate]
jobs = {jobs}
load = 0.95
[policy]
name = "las"
"""


def verify_ratio(folder: Path, jobs: int, runs: int) -> float:
    """Simulate so many jobs on 400 GPUs into replay.db, and decide them again."""
    config, log = folder / "replay.toml", folder / "replay.db"
    config.write_text(CONFIG.format(jobs=jobs), encoding="utf-8")
    wrote_s = min(simulated(config, log).cpu_s for _ in range(runs))
    verified_s = min(shunter("replay", str(log), "--verify").cpu_s for _ in range(runs))
    return round(verified_s / wrote_s, 3)


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
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--best-of", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ratio = verify_ratio(Path(folder), options.jobs, options.best_of)
        found = asyncio.run(measure(str(Path(folder) / "replay.db"), options.best_of))
    budget = {"verify_ratio": ratio, "budget_verify_ratio": BUDGET_VERIFY_RATIO}
    print(json.dumps(found | budget))


if __name__ == "__main__":
    main()
