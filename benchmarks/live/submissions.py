"""How many submissions a second one client gets acknowledged, each durable when it is.

    python -m benchmarks.live.submissions [--jobs 400] [--tasks 2000] [--best-of 3]

A real daemon with its log on disk; its GPUs are held, so that jobs wait. `one_by_one_per_s`: each
submission waits for the answer to the one before. `batch_per_s`: the tasks of an array, in one
request. `concurrent_per_s`: 32 at a time, for comparison. The best of several. Prints JSON.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio

from benchmarks.live.api import PATIENCE_S, cpu_s, daemon
from shunter.client import AsyncClient, Client

BUDGET_ONE_BY_ONE_PER_S = 400
BUDGET_BATCH_PER_S = 2000
AT_ONCE = 32


def per_s(do: Callable[[], object], jobs: int, runs: int) -> float:
    """Return how many of so many jobs were submitted a second, at best."""
    seconds = []
    for _ in range(runs):
        begun_s = time.perf_counter()
        do()
        seconds.append(time.perf_counter() - begun_s)
    return round(jobs / min(seconds), 1)


async def concurrently(address: str, jobs: int) -> None:
    """Submit jobs, some at a time."""
    limiter = anyio.CapacityLimiter(AT_ONCE)

    async def one(client: AsyncClient) -> None:
        async with limiter:
            await client.submit(["true"], gpus=4)

    async with AsyncClient(address) as client, anyio.create_task_group() as tasks:
        for _ in range(jobs):
            tasks.start_soon(one, client)


def measure(root: Path, jobs: int, tasks: int, runs: int) -> dict[str, object]:
    """Submit in each of the three ways."""
    address = f"unix:{root}/s"
    with daemon(root) as process, Client(address) as client:
        holds = client.submit(["sleep", "3600"], gpus=4, suspend_mode="restart")

        def one_by_one() -> None:
            for _ in range(jobs):
                client.submit(["true"], gpus=4)

        def batch() -> None:
            client.submit_many(["true"], gpus=4, array=(0, tasks - 1, 1, None), name="sweep")

        one_per_s = per_s(one_by_one, jobs, runs)
        before_s = cpu_s(process.pid)
        batch_per_s = per_s(batch, tasks, runs)
        document = {
            "benchmark": "live_submissions",
            "one_by_one_per_s": one_per_s,
            "budget_one_by_one_per_s": BUDGET_ONE_BY_ONE_PER_S,
            "batch_per_s": batch_per_s,
            "budget_batch_per_s": BUDGET_BATCH_PER_S,
            "batch_daemon_cpu_ms": round((cpu_s(process.pid) - before_s) / tasks / runs * 1e3, 3),
            "concurrent_per_s": per_s(partial(anyio.run, concurrently, address, jobs), jobs, runs),
        }
        client.drain("n0")  # or they would all begin when the one that holds the GPUs ends
        client.cancel(holds.id)
        holds.wait(PATIENCE_S)
    return document


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=400)
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--best-of", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), options.jobs, options.tasks, options.best_of)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
