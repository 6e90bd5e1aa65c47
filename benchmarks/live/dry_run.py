"""Dry runs by a real daemon with a long queue: would it start now, and if not why.

    python -m benchmarks.live.dry_run [--queued 10000] [--best-of 9] [--policies fifo,las]

Jobs of four sizes wait behind one that holds all GPUs. `answer_s` is what the daemon takes for the
answer to one dry run, over a connection that is open: the median. `submit_s` is the same for a job
submitted in earnest, durable, right after; the policy plans for both. `forecast_s` is one forecast
of all jobs, in a process of its own, where `--forecast` asks for it. Prints JSON, a line for each
policy.
"""

import argparse
import json
import os
import statistics
import tempfile
from pathlib import Path

from benchmarks.live.api import PATIENCE_S, daemon, timed
from benchmarks.loop import loop_s
from shunter.client import Client

BUDGET_LOOPS = 0.1 / 0.52
"""What the quick machine of `loop.py` (0.52 s) may need, in loops."""

TASKS_MOST = 10_000


def measure(
    root: Path, policy: str, queued: int, runs: int, *, forecast: bool
) -> dict[str, object]:
    """Fill a queue, and try a job beside it."""
    os.environ["SHUNTER_POLICY__NAME"] = policy
    with daemon(root), Client(f"unix:{root}/s") as client:
        holds = client.submit(["sleep", "3600"], gpus=4, suspend_mode="never")
        each = max(1, queued // 4)
        for gpus in range(1, 5):
            client.submit_many(["true"], gpus=gpus, array=(0, each - 1, 1, None), model="m")
        unit_s = loop_s()
        told = client.submit_many(["true"], gpus=2, dry_run=True)
        assert not told["plan"]["starts"], "it waits, as all others do"
        answers = timed(lambda: client.submit_many(["true"], gpus=2, dry_run=True), runs)
        submits = timed(lambda: client.submit(["true"], gpus=2), runs)
        document: dict[str, object] = {
            "benchmark": "live_dry_run",
            "policy": policy,
            "jobs": client.queue(limit=0)["total"],
            "reason": told["plan"]["reason"]["name"],
            "answer_s": round(statistics.median(answers), 4),
            "answer_max_s": round(max(answers), 4),
            "budget_answer_s": round(BUDGET_LOOPS * unit_s, 3),
            "submit_s": round(statistics.median(submits), 4),
        }
        if forecast:
            document["forecast_s"] = round(timed(client.forecast, 1)[0], 1)
        client.drain("n0")  # or they would all begin when the one that holds the GPUs ends
        client.cancel(holds.id)
        holds.wait(PATIENCE_S)
    return document


def main() -> None:
    """Measure, and print a JSON document for each policy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queued", type=int, default=10_000)
    parser.add_argument("--best-of", type=int, default=9)
    parser.add_argument("--policies", default="fifo,las")
    parser.add_argument("--forecast", action="store_true")
    options = parser.parse_args()
    for policy in options.policies.split(","):
        with tempfile.TemporaryDirectory() as folder:
            found = measure(
                Path(folder), policy, options.queued, options.best_of, forecast=options.forecast
            )
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
