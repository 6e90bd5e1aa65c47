"""Jobs first in, first out on so many GPUs, in SimPy: no log, no servers, nothing but the queue.

    python benchmarks/peers/simpy_fifo.py JOBS GPUS

JOBS has a line for each job, in order of submission: its instant and duration in seconds, and its
GPUs. Each job is a process. Prints JSON: the mean time from submission to end, and the CPU seconds
of the event loop alone, without start and reading. It needs SimPy (`pip install simpy==4.1.2`).
"""

import json
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import simpy

Job = tuple[float, float, int]


def run(jobs: list[Job], gpus: int) -> float:
    """Simulate the jobs, and return the sum of their times from submission to end."""
    world, total_s = simpy.Environment(), 0.0
    # A container serves requests in order: one that does not fit holds up all behind it.
    free = simpy.Container(world, capacity=gpus, init=gpus)

    def job(submit_s: float, duration_s: float, wanted: int) -> Generator[Any, Any, None]:
        nonlocal total_s
        yield free.get(wanted)
        yield world.timeout(duration_s)
        free.put(wanted)
        total_s += world.now - submit_s

    def submissions() -> Generator[Any, Any, None]:
        for submit_s, duration_s, wanted in jobs:
            if submit_s > world.now:
                yield world.timeout(submit_s - world.now)
            world.process(job(submit_s, duration_s, wanted))

    world.process(submissions())
    world.run()
    return total_s


def main() -> None:
    """Simulate, and print JSON."""
    path, gpus = sys.argv[1:]
    rows = (line.split() for line in Path(path).read_text(encoding="utf-8").splitlines())
    jobs = [(float(submit), float(duration), int(wanted)) for submit, duration, wanted in rows]
    begun_s = time.process_time()
    total_s = run(jobs, int(gpus))
    loop_s = time.process_time() - begun_s
    print(json.dumps({"jobs": len(jobs), "jct_s": total_s / len(jobs), "loop_cpu_s": loop_s}))


if __name__ == "__main__":
    main()
