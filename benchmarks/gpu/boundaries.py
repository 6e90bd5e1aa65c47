"""How long a job takes to stand still at a boundary: less than a mini-batch, as is promised?"""

import random
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.gpu.jobs import Job
from benchmarks.gpu.machine import Machine

MODELS, ASKS = ("gpt-124m", "conv"), 20


def measure(here: Machine) -> dict[str, Any]:
    """Ask at instants by chance, and let it go on each time."""
    here.needs_gpu()
    chance = random.Random(1)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=here.scratch, prefix="shunter-gpu-") as name:
        for model in MODELS:
            with Job(here, Path(name) / model, model, takes_turns=True) as job:
                job.wait_steps(20)
                batch_s = job.batch_s()
                waits = []
                for _ in range(ASKS):
                    time.sleep(0.1 + chance.random() * 2 * batch_s)
                    waits.append(job.end_turn())
                    job.begin_turn()
                    steps = len(job.steps())
                    job.wait_steps(steps + 2)
            waits.sort()
            found[model] = {
                "batch_s": round(batch_s, 5),
                "wait_mean_s": round(sum(waits) / len(waits), 5),
                "wait_most_s": round(waits[-1], 5),
            }
    words = ", ".join(
        f"{model} {each['wait_mean_s'] * 1e3:.0f} ms of {each['batch_s'] * 1e3:.0f} ms, at most "
        f"{each['wait_most_s'] * 1e3:.0f}"
        for model, each in found.items()
    )
    return {"models": found, "asks": ASKS, "in words": f"the wait for a boundary: {words}"}
