"""How long a live append takes: 100 callers, 1,000 events a second, every commit synced to disk.

    python -m benchmarks.live.append [--seconds 10] [--callers 100] [--rate 1000] [--folder DIR]

Each caller appends one event and commits, at its own even pace (an open loop: a late answer does
not slow the next request, and its delay counts from when the request was due). Prints JSON.
"""

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path

from shunter.events import JobFinished, JobId
from shunter.events.log import LogWriter, open_log

BUDGET_P99_S = 0.050


async def measure(path: Path, seconds: float, callers: int, rate: float) -> dict[str, object]:
    """Return the percentiles of the delay from due to durable, in seconds."""
    delays: list[float] = []
    async with open_log(str(path), frame_events=None, durable=True) as log:
        start = time.perf_counter() + 0.1
        cpu = time.process_time()
        async with asyncio.TaskGroup() as group:
            for caller in range(callers):
                first = start + caller / rate
                group.create_task(call(log, first, callers / rate, start + seconds, delays))
        cpu = time.process_time() - cpu
    delays.sort()
    return {
        "benchmark": "live_append",
        "callers": callers,
        "events": len(delays),
        "events_per_s": round(len(delays) / seconds, 1),
        "p50_s": round(delays[len(delays) // 2], 5),
        "p99_s": round(delays[len(delays) * 99 // 100], 5),
        "max_s": round(delays[-1], 5),
        "cpu_s": round(cpu, 2),
        "budget_p99_s": BUDGET_P99_S,
    }


async def call(log: LogWriter, due: float, period: float, end: float, delays: list[float]) -> None:
    """Append and commit one event a period, until the end."""
    while due < end:
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        log.append([JobFinished(int(due * 1e6), JobId("job"))])
        await log.commit()
        delays.append(time.perf_counter() - due)
        due += period


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--callers", type=int, default=100)
    parser.add_argument("--rate", type=float, default=1000.0)
    parser.add_argument("--folder", type=Path, help="where the disk to measure is mounted")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "live.db"
        print(
            json.dumps(asyncio.run(measure(path, options.seconds, options.callers, options.rate)))
        )


if __name__ == "__main__":
    main()
