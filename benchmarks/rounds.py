"""What a round costs with 20,000 jobs in the queue of 1,000 servers: the worst and the median.

    python -m benchmarks.rounds [--queued 20000] [--servers 1000] [--rounds 240] [--policies las]

Servers have 4 GPUs. All jobs come at once: as many as fill the servers, and so many more; each uses
one GPU for ten minutes to ten hours. Rounds of 60 s, and of 6 min under `max_min_fairness`, where
servers are of three types and jobs of Gavel's models; nothing is logged.

A round is planning and folding what was decided, in CPU seconds. The first one, which fills an
empty cluster, is given apart: `first_cpu_s`. Under `las` all jobs that began in it reach the next
level in the same round, and leave for others: the wave that `worst_cpu_s` is about. `after_cpu_s`
is the most that the scheduler worked from one round to the next one, the round not counted: what
was released, started and ended. The budget of a wave is a hundred rounds of `srtf` at commit
7db48e7c, 0.55 ms on the slow machine of `loop.py`. Prints a JSON document for each policy.
"""

import argparse
import asyncio
import csv
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from benchmarks.loop import loop_s
from shunter.config import load_config
from shunter.core import Effect, Input, RandomStream, Scheduler, run_rounds
from shunter.events import Event
from shunter.events.log import open_log
from shunter.gc_control import collector_off
from shunter.run import load_jobs, set_up
from shunter.workloads import GAVEL_MODELS

GPUS = 4

CONFIG = """\
schema = 1
[workload]
trace = "jobs.csv"
{throughputs}
[policy]
name = "{policy}"
round = "{round_s}s"
[log]
url = "none:"
[cluster]
"""
NODES = """\
[[cluster.nodes]]
name = "{name}-[0001-{count:04}]"
gpus = {gpus}
type = "{name}"
"""
THROUGHPUTS = 'throughputs = "builtin:gavel"\nbase_type = "v100"'
TYPED = {"max_min_fairness": 360, "gavel": 360}
"""Policies that need GPUs of several types, and their rounds in seconds."""

WAVES, BUDGET_LOOPS = ("las", "tiresias"), 100 * 0.00055 / 0.86


@dataclass(slots=True)
class Round:
    """The CPU seconds of a round, and of the scheduler from then on to the next one."""

    cpu_s: float
    after_cpu_s: float = 0.0


async def timed_rounds(config: Path, until_us: int) -> list[Round]:
    """Return each round in which a plan was made, up to an instant."""
    loaded = load_config(config)
    setup = set_up(loaded, load_jobs(loaded))
    core, taken = Scheduler(setup.runtime.policy, setup.runtime.rules), [Round(0.0)]

    async def step(now_us: int, inputs: Sequence[Input]) -> tuple[list[Event], list[Effect]]:
        begun = time.process_time()
        core.take_in(now_us, inputs)
        planned = time.process_time()
        taken[-1].after_cpu_s += planned - begun
        if core.is_due(now_us):
            core.decide(now_us)
            taken.append(Round(time.process_time() - planned))
        return core.hand_on()

    async with open_log("none:") as log:
        core.view.open()
        for fact in setup.opening(log.term):
            core.emit(fact)
        core.view.close()
        await run_rounds(core, setup.backend, log, until_us=until_us, step=step)
    return taken[1:]


def write_jobs(path: Path, jobs: int) -> None:
    """Write jobs that all come at once."""
    rng, models = RandomStream(1, "rounds", 0), sorted(GAVEL_MODELS)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["job_id", "submit_s", "duration_s", "gpus", "model"])
        for number in range(jobs):
            seconds = round(600 * 60 ** rng.random())
            writer.writerow([f"j{number}", 0, seconds, 1, models[rng.below(len(models))]])


def measure(policy: str, queued: int, servers: int, rounds: int) -> dict[str, object]:
    """Play so many rounds, and return the document."""
    round_s = TYPED.get(policy, 60)
    types = ("v100", "p100", "k80") if policy in TYPED else ("v100",)
    text = CONFIG.format(
        policy=policy, round_s=round_s, throughputs=THROUGHPUTS if policy in TYPED else ""
    )
    for place, name in enumerate(types):
        count = len(range(place, servers, len(types)))
        text += NODES.format(name=name, count=count, gpus=GPUS)
    with tempfile.TemporaryDirectory() as folder, collector_off():
        config = Path(folder) / "rounds.toml"
        config.write_text(text, encoding="utf-8")
        write_jobs(Path(folder) / "jobs.csv", servers * GPUS + queued)
        first, *taken = asyncio.run(timed_rounds(config, rounds * round_s * 1_000_000))
    document: dict[str, object] = {
        "benchmark": "rounds",
        "policy": policy,
        "queued": queued,
        "servers": servers,
        "rounds": 1 + len(taken),
        "first_cpu_s": round(first.cpu_s, 5),
        "worst_cpu_s": round(max(each.cpu_s for each in taken), 5),
        "mean_cpu_s": round(fmean(each.cpu_s for each in taken), 6),
        "median_cpu_s": round(median(each.cpu_s for each in taken), 6),
        "after_cpu_s": round(max(each.after_cpu_s for each in (first, *taken)), 5),
    }
    if policy in WAVES:
        document["budget_worst_cpu_s"] = round(BUDGET_LOOPS * loop_s(), 5)
    return document


def main() -> None:
    """Measure, and print one JSON document a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queued", type=int, default=20_000)
    parser.add_argument("--servers", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=240)
    parser.add_argument("--policies", default="las,tiresias,srtf")
    options = parser.parse_args()
    for policy in options.policies.split(","):
        found = measure(policy, options.queued, options.servers, options.rounds)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
