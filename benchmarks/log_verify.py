"""How fast a log is written, verified and read: 400,000 events like those of a simulation.

    python -m benchmarks.log_verify [--events 400000] [--folder DIR]

Seconds are CPU seconds of the process, all threads. Prints JSON.
"""

import argparse
import asyncio
import gc
import json
import tempfile
import time
from pathlib import Path

from shunter.events import (
    Allocation,
    AllocationChanged,
    Because,
    Event,
    JobFinished,
    JobId,
    JobSpec,
    JobSubmitted,
    NodeName,
    RoundPlanned,
    Share,
    UserName,
)
from shunter.events.log import open_log, read_log

BUDGET_VERIFY_PER_S = 100_000
BATCH = 4


async def measure(path: Path, count: int) -> dict[str, object]:
    """Write, verify and decode a log of so many events."""
    events = synthetic(count)
    # As a simulation does: its events hold no cycles, and looking for them costs a tenth.
    gc.collect()
    gc.disable()
    async with open_log(str(path)) as warm:
        await warm.close()
    begun = time.process_time()
    async with open_log(str(path), overwrite=True) as log:
        for start in range(0, count, BATCH):
            log.append(events[start : start + BATCH])
            await log.commit()
    append_s = time.process_time() - begun
    async with read_log(str(path)) as reader:
        begun = time.process_time()
        report = await reader.verify()
        verify_s = time.process_time() - begun
    assert report.digest == log.digest
    return {
        "benchmark": "log_verify",
        "events": report.events,
        "append_cpu_s": round(append_s, 3),
        "append_events_per_s": round(count / append_s),
        "verify_cpu_s": round(verify_s, 3),
        "verify_events_per_s": round(count / verify_s),
        "budget_verify_events_per_s": BUDGET_VERIFY_PER_S,
    }


def synthetic(count: int) -> list[Event]:
    """Return events in the proportions of a simulated trace under contention."""
    return [_event(place) for place in range(count)]


def _event(place: int) -> Event:
    at_us, job_id, turn = place * 1_000_000, JobId(f"{place // 5}"), place % 100
    if turn < 22:
        spec = JobSpec(gpus=1 + place % 8, user=UserName(f"user{place % 300}"))
        return JobSubmitted(at_us, job_id, spec, duration_us=place * 1000)
    if turn < 62:
        share = Share(NodeName(f"gpu{place % 100:03d}"), 3)
        allocation = Allocation((share,) if turn % 2 else ())
        return AllocationChanged(
            at_us, job_id, allocation, Because("las", (place, 1)), instant=True
        )
    if turn < 84:
        return JobFinished(at_us, job_id)
    return RoundPlanned(at_us, place, skipped=0, seen=place)


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=400_000)
    parser.add_argument("--folder", type=Path, help="where the disk to measure is mounted")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "run.db"
        measured = asyncio.run(measure(path, options.events))
        print(json.dumps({**measured, "bytes": path.stat().st_size}))


if __name__ == "__main__":
    main()
