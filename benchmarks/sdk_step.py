"""What the training SDK costs a mini-batch, in microseconds of CPU time: the best of several runs.

    python -m benchmarks.sdk_step [--steps 20000] [--best-of 5] [--ranks 4]

Three settings: outside Shunter, under a supervisor's channel, and one rank of several. A step looks
for a request at every call and tells its progress each second; it waits for nothing. The channel is
on this machine's disk, and nobody reads its FIFO until it is full. `asked_us` has no budget: it is
the price of the two or three steps of a suspension at which ranks vote. Prints JSON.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

from shunter.train import channel, start

BUDGET_STEP_US = 2.0


def per_step_us(steps: int, runs: int, environment: dict[str, str]) -> float:
    """Return the microseconds a step takes in an environment."""
    names = (channel.CHANNEL, channel.SUSPEND, channel.CHECKPOINTS, channel.RANK, channel.WORLD)
    for name in names:
        os.environ.pop(name, None)
    os.environ.update(environment)
    times = []
    for _ in range(runs):
        run = start()
        begun = time.process_time()
        for _ in range(steps):
            run.step()
        times.append((time.process_time() - begun) / steps * 1e6)
    return round(min(times), 3)


def measure(steps: int, runs: int, ranks: int) -> dict[str, object]:
    """Measure each setting, and return the document."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.mkfifo(folder / "channel")
        reader = os.open(folder / "channel", os.O_RDWR)
        line = {channel.CHANNEL: f"{name}/channel", channel.SUSPEND: f"{name}/suspend"}
        ranked = {**line, channel.CHECKPOINTS: name, "RANK": "0", "WORLD_SIZE": str(ranks)}
        try:
            outside_us = per_step_us(steps, runs, {})
            step_us = per_step_us(steps, runs, line)
            rank_us = per_step_us(steps, runs, ranked)
            (folder / "suspend").touch()  # from here on a rank waits for the votes of the others
            asked_us = per_step_us(max(1, steps // 20), 1, ranked)
        finally:
            os.close(reader)
    return {
        "benchmark": "sdk_step",
        "steps": steps,
        "outside_us": outside_us,
        "step_us": step_us,
        "rank_us": rank_us,
        "asked_us": asked_us,
        "budget_step_us": BUDGET_STEP_US,
    }


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--best-of", type=int, default=5)
    parser.add_argument("--ranks", type=int, default=4)
    options = parser.parse_args()
    print(json.dumps(measure(options.steps, options.best_of, options.ranks)))


if __name__ == "__main__":
    main()
