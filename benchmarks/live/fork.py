"""A fork of a state with 10,000 jobs: from the state at hand to a simulation that can be run on.

    python -m benchmarks.live.fork [--jobs 10100] [--best-of 5]

A simulated log under `las` in which so many jobs are there at once, and as many of them have GPUs
as fit on 4,000, is read up to that moment. What is timed is what each fork of it costs beyond that:
a state of its own, the policy with its memory, and the simulated world. Prints one JSON document.
"""

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path

from benchmarks.commands import simulated
from benchmarks.loop import loop_s
from shunter.ask.forks import (
    ForkChange,
    Future,
    WorkEstimates,
    end_of_instant,
    fork_at,
    fork_point,
    standing_at,
)
from shunter.events import JobSubmitted, RoundPlanned
from shunter.events.log import read_log
from shunter.run import rebuild, recorded_parts, simulated_world

CONFIG = """\
schema = 1
seed = 7
[[cluster.nodes]]
name = "n[001-500]"
gpus = 8
[workload.generate]
jobs = {jobs}
load = 10000.0
[policy]
name = "las"
[simulation.costs]
start = "10s"
suspend = "10s"
resume = "10s"
"""
BUDGET_LOOPS = 0.3 / 0.52
"""What the quick machine of `loop.py` (0.52 s) may need, in loops."""


async def measure(address: str, jobs: int, runs: int) -> dict[str, object]:
    """Fork the moment at which all jobs are there, so many times, and return the best."""
    async with read_log(address) as reader:
        seq = moment = 0
        async for event in reader.events():
            seq += 1
            if isinstance(event, JobSubmitted):
                moment = 0
            elif isinstance(event, RoundPlanned) and not moment:
                moment = seq
        point = await fork_point(reader, await end_of_instant(reader, moment), rebuild)
    parts, seconds = recorded_parts(point.started.config), []
    future = Future(point.state(), is_simulated=True)
    servers = [(name, one.configuration) for name, one in future.state.cluster.servers.items()]
    held = sum(job.since_us is not None for job in future.state.jobs.values())
    for _ in range(runs):
        begun = time.process_time()
        standing = standing_at(
            point,
            lambda coming, resumed: simulated_world(
                parts, servers, coming, specs=(), resumed=resumed
            ),
            future,
            WorkEstimates((), 0).work_of,
            ForkChange(),
        )
        fork_at(standing, ForkChange())
        seconds.append(time.process_time() - begun)
    return {
        "benchmark": "live_fork",
        "jobs": len(future.state.jobs),
        "jobs_with_gpus": held,
        "asked_jobs": jobs,
        "cpu_s": round(min(seconds), 3),
        "budget_cpu_s": round(BUDGET_LOOPS * loop_s(), 3),
    }


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_100)
    parser.add_argument("--best-of", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config, log = Path(folder) / "fork.toml", Path(folder) / "fork.db"
        config.write_text(CONFIG.format(jobs=options.jobs), encoding="utf-8")
        simulated(config, log)
        print(json.dumps(asyncio.run(measure(str(log), options.jobs, options.best_of))))


if __name__ == "__main__":
    main()
