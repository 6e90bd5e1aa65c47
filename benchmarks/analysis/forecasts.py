"""How often jobs start within the P90 that was foretold for them, on jobs nobody learned from.

    python -m benchmarks.analysis.forecasts [--jobs 1500] [--moments 25] [--seeds 1,2,3,4]
        [--policies fifo,las]

Users submit jobs of a few models again and again. How long one runs is noisy: a log-normal factor
(sigma 0.6 of its logarithm) of what its user and model usually need, which nobody tells the
scheduler. Of each seed's trace the first half of the jobs is what there is to learn from. In the
second half, at so many moments evenly spread over it, each job that waits there is foretold its
start, from the log up to the moment alone, once. The share that started by its P90 is to be 85 to
95 %, of 300 jobs or more. All that wait behind the same jobs come sooner or later together, so one
trace says less than its number of jobs: four are counted together. Prints a JSON document for each
policy.
"""

import argparse
import asyncio
import csv
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

from shunter.app.config import make_config
from shunter.app.forking.fork_point import ForkPoint, end_of_instant, fork_point
from shunter.app.predictions.accuracy import held_at, past_moments
from shunter.app.predictions.forecast import Forecasting
from shunter.app.predictions.history import read_history
from shunter.app.predictions.messages import Held
from shunter.app.runs.setup import rebuild
from shunter.app.runs.simulation import simulate
from shunter.app.simulated_world import recorded_parts
from shunter.events.log import read_log

LEAST_PERCENT, MOST_PERCENT, JOBS_LEAST = 85.0, 95.0, 300
SIGMA = 0.6
USERS, GPUS = 6, 16
MODELS = (("bert", 2, 3_000), ("resnet", 1, 1_200), ("gpt", 4, 6_000), ("probe", 1, 300))
"""By model: its GPUs, and the seconds that it usually needs."""


def write_trace(path: Path, jobs: int, load: float, seed: int) -> None:
    """Write jobs that come at random, with run times that vary around those of their kind."""
    rng = Random(seed)
    habits = {
        (user, model): usual_s * rng.uniform(0.5, 2.0)
        for user in range(USERS)
        for model, _, usual_s in MODELS
    }
    work_gpu_s = sum(
        gpus * habits[user, model] for user in range(USERS) for model, gpus, _ in MODELS
    ) / len(habits)
    mean_s = work_gpu_s * 2.718281828459045 ** (SIGMA**2 / 2)
    gap_s, at_s = mean_s / (load * GPUS), 0.0
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("job_id", "submit_s", "gpus", "duration_s", "user", "model"))
        for number in range(jobs):
            at_s += rng.expovariate(1 / gap_s)
            user, (model, gpus, _) = rng.randrange(USERS), rng.choice(MODELS)
            run_s = habits[user, model] * rng.lognormvariate(0.0, SIGMA)
            rows.writerow((f"t{number}", round(at_s, 3), gpus, round(run_s, 3), f"u{user}", model))


def simulated(folder: Path, policy: str, jobs: int, load: float, seed: int) -> str:
    """Run such a trace; return the address of its log."""
    write_trace(folder / "trace.csv", jobs, load, seed)
    url = str(folder / "log.db")
    config = {
        "cluster": {"nodes": [{"name": "n[1-4]", "gpus": GPUS // 4}]},
        "workload": {"trace": str(folder / "trace.csv")},
        "policy": {"name": policy},
        "log": {"url": url},
    }
    simulate(make_config(config, "benchmark"), overwrite=True)
    return url


async def held(url: str, moments: int) -> Sequence[Held]:
    """Foretell starts at moments of the second half, and return how that held."""
    async with read_log(url) as reader:
        history = await read_history(reader)

        async def point_at(seq: int) -> ForkPoint:
            return await fork_point(reader, await end_of_instant(reader, seq), rebuild)

        point = await point_at(1)
        forecasting = Forecasting(history, recorded_parts(point.started.config))
        return await held_at(forecasting, past_moments(history, moments)[::-1], point_at)


def measure(
    policy: str, jobs: int, moments: int, load: float, seeds: Sequence[int], least: int
) -> dict[str, object]:
    """Return the document of a policy."""
    found: list[Held] = []
    begun_s = time.process_time()
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            url = simulated(Path(folder), policy, jobs, load, seed)
            found += asyncio.run(held(url, moments))
    told = sum(len(each.jobs) - each.open for each in found)
    return {
        "benchmark": "analysis_forecasts",
        "policy": policy,
        "traces": len(seeds),
        "moments": len(found),
        "jobs": told,
        "held_p50_percent": round(100 * sum(each.by_p50 for each in found) / told, 1),
        "held_p90_percent": round(100 * sum(each.by_p90 for each in found) / told, 1),
        "budget_least_percent": LEAST_PERCENT if told >= least else None,
        "budget_most_percent": MOST_PERCENT if told >= least else None,
        "cpu_s": round(time.process_time() - begun_s, 1),
    }


def main() -> None:
    """Measure, and print a JSON document for each policy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1500)
    parser.add_argument("--moments", type=int, default=25)
    parser.add_argument("--load", type=float, default=0.9)
    parser.add_argument("--seeds", default="1,2,3,4", help="a trace of each")
    parser.add_argument("--least", type=int, default=JOBS_LEAST, help="jobs for a verdict")
    parser.add_argument("--policies", default="fifo,las")
    options = parser.parse_args()
    seeds = [int(seed) for seed in options.seeds.split(",")]
    for policy in options.policies.split(","):
        found = measure(policy, options.jobs, options.moments, options.load, seeds, options.least)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
