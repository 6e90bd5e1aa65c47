"""What a year of a live log occupies: 200 jobs that run all the time, each sampled every minute.

    python -m benchmarks.live.year [--minutes 720] [--jobs 200] [--folder DIR]

Samples are written as the daemon writes them, in batches of ten seconds, with snapshots and sealing
as in a live log, for a slice of the year. What the file occupies at its end beyond what is not yet
sealed is scaled to the year. The samples are noisy: every value differs from the one before.
`restart_s` is what it takes to open the log at the end of the slice and to know its state. Prints
JSON.
"""

import argparse
import json
import math
import random
import sqlite3
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio

from shunter.backends.live import Stamped
from shunter.config import make_config, policy_runtime
from shunter.core import Input, Launch, Resume, Scheduler, SubmitJob
from shunter.daemon import SPAN_EVENTS, LogMaintenance, PolicyProxy, read_history
from shunter.events import (
    AttemptStarted,
    JobId,
    JobSpec,
    NodeAdded,
    ProfileSampled,
    SchedulerStarted,
)
from shunter.events.log import LogWriter, open_log, read_log

BUDGET_GB = 3.0
BUDGET_RESTART_S = 3.0
YEAR_MINUTES = 365 * 24 * 60
BATCHES_A_MINUTE = 6
MINUTE_US = 60_000_000


class Waiting:
    """Stands in for the backend: keeps what is posted until the next step takes it."""

    def __init__(self) -> None:
        self.posted: list[Stamped] = []

    def post(self, stamped: Stamped) -> None:
        """Keep an input."""
        self.posted.append(stamped)

    def inputs(self, at_us: int) -> list[Input]:
        """Return what was kept."""
        taken, self.posted = self.posted, []
        return [stamped(at_us) for stamped in taken]


class Sampled:
    """A job that trains: its step, and numbers that move about their means."""

    def __init__(self, number: int, chance: random.Random) -> None:
        self.job_id = JobId(f"j{number + 1}")
        self.batch_s = math.exp(chance.uniform(-3, 1))
        self.memory_mb = chance.randrange(2_000, 60_000)
        self.gpu_mb = chance.randrange(4_000, 80_000)
        self.step = 0.0
        self._chance = chance

    def sample(self, at_us: int) -> ProfileSampled:
        """Return the sample of another minute."""
        noise = self._chance.gauss
        batch_s = self.batch_s * (1 + noise(0, 0.03))
        self.step += 60 / batch_s
        return ProfileSampled(
            at_us,
            self.job_id,
            1,
            int(self.step),
            round(batch_s, 6),
            round(min(1.0, max(0.0, 0.9 + noise(0, 0.04))), 4),
            self.gpu_mb,
            round(abs(4 + noise(0, 0.3)), 3),
            self.memory_mb + int(noise(0, 20)),
        )


async def write(path: Path, jobs: int, minutes: int) -> int:
    """Write a slice; return the events in it."""
    local = {"root": str(path.parent / "attempts")}
    loaded = make_config(
        {
            "cluster": {"nodes": [{"name": "n", "count": -(-jobs // 8), "gpus": 8}]},
            "backend": {"kind": "local", "local": local},
            "log": {"url": str(path)},
        }
    )
    runtime, waiting = policy_runtime(loaded, instant=False), Waiting()
    async with open_log(str(path), frame_events=None, resume=True) as log:
        core = Scheduler(runtime.policy, runtime.rules)
        core.view.open()
        record = json.dumps({"origin": "2026-01-01T00:00:00+00:00"})
        started = SchedulerStarted(0, log.term, "0", "fifo", "1", 0, record, cluster_id="c")
        core.emit(started)
        for name, where in loaded.config.cluster.servers():
            core.emit(NodeAdded(0, name, where))
        core.view.close()
        backend: Any = waiting  # it is posted to, and nothing else
        asked = PolicyProxy(runtime.policy, started, b"", limit_us=60_000_000)
        keeper = LogMaintenance(core, asked, log, backend, loaded.config.log)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keeper.run)
            await run(core, log, keeper, waiting, jobs, minutes)
            tasks.cancel_scope.cancel()
        asked.close()
        return log.seq


async def run(
    core: Scheduler,
    log: LogWriter,
    keeper: LogMaintenance,
    waiting: Waiting,
    jobs: int,
    minutes: int,
) -> None:
    """Start the jobs, and sample them for some minutes."""
    chance = random.Random(7)
    trainings = [Sampled(number, chance) for number in range(jobs)]

    async def step(at_us: int, inputs: list[Input]) -> list[object]:
        events, effects = core.step(at_us, [*inputs, *waiting.inputs(at_us)])
        if events:
            log.append(events)
            await log.commit()
            await keeper.look()
        return list(effects)

    spec = JobSpec(1, command=("python", "train.py"))
    effects = await step(0, [SubmitJob(0, each.job_id, spec) for each in trainings])
    launched = [each for each in effects if isinstance(each, Launch | Resume)]
    assert len(launched) == jobs, "all jobs run"
    await step(1, [AttemptStarted(1, each.job_id, 1) for each in launched])
    part = -(-jobs // BATCHES_A_MINUTE)
    for minute in range(minutes):
        for batch in range(BATCHES_A_MINUTE):
            at_us = (minute + 1) * MINUTE_US + batch * MINUTE_US // BATCHES_A_MINUTE + minute % 977
            group = trainings[batch * part : (batch + 1) * part]
            await step(at_us, [each.sample(at_us) for each in group])


async def measure(folder: Path, jobs: int, minutes: int) -> dict[str, object]:
    """Write a slice, read it back, and return the document."""
    path = folder / "year.db"
    events = await write(path, jobs, minutes)
    async with read_log(str(path)) as reader:
        segments = await reader.segments()
    begun_s = time.perf_counter()
    async with open_log(str(path), durable=True, frame_events=None, resume=True) as log:
        async with read_log(log) as reader:
            await read_history(reader)
        restart_s = time.perf_counter() - begun_s
    sealed = segments[-1].last_seq if segments else 0
    parts = sizes(path)
    bytes_an_event = parts["segments"] / sealed
    year = jobs * YEAR_MINUTES
    others = path.stat().st_size - parts["segments"]
    snapshots = parts["snapshot"] * year / SPAN_EVENTS
    return {
        "benchmark": "live_year",
        "events": events,
        "sealed": sealed,
        "bytes_an_event": round(bytes_an_event, 2),
        "unsealed_mb": round(others / 1e6, 2),
        "year_gb": round((bytes_an_event * year + others + snapshots) / 1e9, 3),
        "restart_s": round(restart_s, 3),
        "budget_year_gb": BUDGET_GB,
        "budget_restart_s": BUDGET_RESTART_S,
    }


def sizes(path: Path) -> dict[str, int]:
    """Return the bytes in all segments, and in the largest snapshot."""
    connection = sqlite3.connect(path)
    try:
        found = connection.execute(
            "SELECT (SELECT sum(length(frames)) FROM segments),"
            " (SELECT max(length(state) + length(memory)) FROM snapshots)"
        ).fetchone()
    finally:
        connection.close()
    return {"segments": found[0] or 0, "snapshot": found[1] or 0}


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=720)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--folder", type=Path, help="where the disk to measure is mounted")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        print(json.dumps(anyio.run(measure, Path(folder), options.jobs, options.minutes)))


if __name__ == "__main__":
    main()
