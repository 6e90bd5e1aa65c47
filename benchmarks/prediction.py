"""How well a simulation predicts a live cluster, with costs that were measured on another run.

    python -m benchmarks.prediction [--jobs 12] [--seeds 6,2,3,4] [--scale 1.0] [--keep FOLDER]

The first seed's jobs run on this machine under `las`, as processes that train with the SDK and
sleep for each mini-batch. `shunter trace fit` measures that log. Then the jobs of each other seed
are predicted from what was known before they ran (submission, steps, GPUs, mode), under `las` and
`tiresias` in turn, and run as well. Prints JSON: for each run the mean completion time, live and
predicted, with the error of the mean and the median error of a job, in percent. `same` predicts
the first run from the work that `log export --as-trace` found in it.

A machine with other work starts processes late. Where it may, this runs at a high priority.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean, median
from typing import Any

import anyio

from shunter.config import make_config
from shunter.daemon import Caller, Site, Submission, open_site
from shunter.events import JobFinished, JobId, JobSpec, JobSubmitted, SuspendMode
from shunter.events.log import read_log

ROOT = Path(__file__).resolve().parents[1]
BUDGET_MEAN_PERCENT = 5.0
BUDGET_MEDIAN_PERCENT = 10.0
GPUS = 4
QUEUES_GPU_S = (20, 90)
POLICIES = ("las", "tiresias", "las")
BATCH_S = {"quick": 0.05, "steady": 0.1, "slow": 0.2}
KINDS = (("quick", 1), ("quick", 2), ("steady", 1), ("steady", 4), ("slow", 1), ("slow", 2))
WHOEVER = Caller("", None)
TRAINS = f"""
import sys, time
sys.path.insert(0, {str(ROOT)!r})
from shunter import train

class Part:
    def state_dict(self):
        return {{}}
    def load_state_dict(self, state):
        pass

steps, batch_s, save_every = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
run = train.start(part=Part(), save_every=save_every)
while run.steps_done < steps:
    time.sleep(batch_s)
    run.step()
"""


@dataclass(frozen=True)
class Wanted:
    """One job of the experiment: everything that is known before it runs."""

    submit_s: float
    gpus: int
    model: str
    steps: int
    mode: SuspendMode
    save_every: int

    @property
    def interval_s(self) -> float | None:
        """How often it saves, None: only when it is told to leave."""
        return self.save_every * BATCH_S[self.model] if self.save_every else None


def drawn(seed: int, jobs: int, scale: float) -> list[Wanted]:
    """Draw the jobs of a run: one in four is ended where it stands, and saves now and then."""
    chance, at_s, found = Random(seed), 0.0, []
    kinds = [KINDS[number % len(KINDS)] for number in range(jobs)]
    chance.shuffle(kinds)
    for model, gpus in kinds:
        work_s = scale * min(90.0, max(8.0, 12.0 * chance.lognormvariate(0.4, 0.7)))
        is_ended = chance.random() < 0.25
        mode = SuspendMode.restart if is_ended else SuspendMode.cooperative
        save_every = round(4.0 / BATCH_S[model]) if is_ended else 0
        steps = max(20, round(work_s / BATCH_S[model]))
        found.append(Wanted(round(at_s, 3), gpus, model, steps, mode, save_every))
        at_s += chance.expovariate(1 / (scale * 5.0))
    return found


def live(root: Path, policy: str, jobs: Sequence[Wanted]) -> None:
    """Run jobs in a new folder."""
    root.mkdir(parents=True)
    (root / "trains.py").write_text(TRAINS)
    anyio.run(run_live, root, policy, jobs)


async def run_live(root: Path, policy: str, jobs: Sequence[Wanted]) -> None:
    """Run jobs on this machine, each submitted when it is wanted; leave the log in the folder."""
    loaded = make_config(
        {
            "cluster": {"nodes": [{"name": "n0", "gpus": GPUS}]},
            "policy": policy_table(policy),
            "backend": {
                "kind": "local",
                "local": {"root": str(root / "attempts"), "sample": 1, "launch": 120},
            },
            "log": {"url": str(root / "log.db")},
        }
    )
    async with open_site(loaded) as site, anyio.create_task_group() as tasks:
        tasks.start_soon(site.run)
        begun_s = time.monotonic()
        names: set[JobId] = set()
        for job in jobs:
            await anyio.sleep(max(0.0, job.submit_s - (time.monotonic() - begun_s)))
            names.add(await site.submit(submission(root, job), WHOEVER))
        await all_finished(site, names)
        site.stop()


def policy_table(policy: str) -> dict[str, Any]:
    """Return the section [policy] of every run."""
    params = {"queues_gpu_s": list(QUEUES_GPU_S)}
    return {"name": policy, "trigger": "event", "params": {"las": params, "tiresias": params}}


def submission(root: Path, job: Wanted) -> Submission:
    """Return what is submitted for a job."""
    numbers = (str(job.steps), str(BATCH_S[job.model]), str(job.save_every))
    spec = JobSpec(
        command=(sys.executable, "-I", "-S", str(root / "trains.py"), *numbers),
        gpus=job.gpus,
        model=job.model,
        total_steps=job.steps,
        suspend_mode=job.mode,
    )
    return Submission(spec)


async def all_finished(site: Site, names: set[JobId]) -> None:
    """Wait until jobs have finished."""
    left = set(names)
    async for _, event in site.follow(0):
        if isinstance(event, JobFinished):
            left.discard(event.job_id)
        if not left:
            return


async def live_jct_s(log: Path) -> list[float]:
    """Return the completion time of each job in a log, in order of submission."""
    begun: dict[JobId, int] = {}
    ended: dict[JobId, int] = {}
    async with read_log(str(log)) as reader:
        async for event in reader.events(0, (await reader.head()).seq):
            if isinstance(event, JobSubmitted):
                begun[event.job_id] = event.at_us
            elif isinstance(event, JobFinished):
                ended[event.job_id] = event.at_us if event.ended_us is None else event.ended_us
    return [(ended[job_id] - at_us) / 1e6 for job_id, at_us in begun.items()]


def write_trace(path: Path, jobs: Sequence[Wanted]) -> None:
    """Write jobs as a trace that says steps and no durations."""
    columns = ("submit_s", "duration_s", "gpus", "model", "total_steps", "suspend_mode")
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow((*columns, "checkpoint_interval_s"))
        for job in jobs:
            known = (job.submit_s, "", job.gpus, job.model, job.steps, job.mode.value)
            rows.writerow((*known, job.interval_s or ""))


def predicted_jct_s(fitted: Path, trace: Path, policy: str) -> list[float]:
    """Simulate a trace with fitted costs; return the completion times in order of submission."""
    out = trace.with_suffix(".predicted.csv")
    settings = [f"workload.trace={trace}", f"policy.name={policy}"]
    if policy != "las":
        settings += [f"policy.params.{policy}.queues_gpu_s={list(QUEUES_GPU_S)}"]
    chosen = [word for setting in settings for word in ("--set", setting)]
    shunter("simulate", str(fitted), *chosen, "--jobs-out", str(out))
    with out.open(newline="") as file:
        return [float(row["jct_s"]) for row in csv.DictReader(file)]


def shunter(*arguments: str) -> str:
    """Run a command of Shunter; return what it prints."""
    command = [sys.executable, "-m", "shunter", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout


def compared(policy: str, live_s: Sequence[float], predicted_s: Sequence[float]) -> dict[str, Any]:
    """Return how far a prediction is off."""
    errors = [100 * (said / was - 1) for was, said in zip(live_s, predicted_s, strict=True)]
    return {
        "policy": policy,
        "jobs": len(live_s),
        "live_mean_s": round(fmean(live_s), 3),
        "predicted_mean_s": round(fmean(predicted_s), 3),
        "mean_error_percent": round(100 * (fmean(predicted_s) / fmean(live_s) - 1), 2),
        "median_job_error_percent": round(median(map(abs, errors)), 2),
        "job_errors_percent": [round(error, 1) for error in errors],
    }


def measure(folder: Path, jobs: int, seeds: Sequence[int], scale: float) -> dict[str, Any]:
    """Run, fit, predict and compare; return the document."""
    first = folder / "fitted"
    live(first, "las", drawn(seeds[0], jobs, scale))
    fitted, rates = folder / "fitted.toml", folder / "rates.json"
    log = str(first / "log.db")
    shunter("trace", "fit", log, "--out", str(fitted), "--rates", str(rates))
    costs = json.loads(shunter("trace", "fit", log, "--json"))
    shunter("log", "export", log, "--as-trace", "-o", str(folder / "same.csv"))
    same_s = predicted_jct_s(fitted, folder / "same.csv", "las")
    same = compared("las", anyio.run(live_jct_s, first / "log.db"), same_s)
    runs = []
    for number, seed in enumerate(seeds[1:]):
        wanted, policy = drawn(seed, jobs, scale), POLICIES[number % len(POLICIES)]
        trace, root = folder / f"{seed}.csv", folder / f"run-{seed}"
        write_trace(trace, wanted)
        predicted_s = predicted_jct_s(fitted, trace, policy)
        live(root, policy, wanted)
        live_s = anyio.run(live_jct_s, root / "log.db")
        runs.append({"seed": seed} | compared(policy, live_s, predicted_s))
        print(json.dumps(runs[-1]), file=sys.stderr, flush=True)
    return {
        "benchmark": "prediction",
        "costs": costs["costs"],
        "rates": costs["rates"],
        "same": same,
        "runs": runs,
        "mean_error_percent": max(abs(run["mean_error_percent"]) for run in runs),
        "budget_mean_error_percent": BUDGET_MEAN_PERCENT,
        "median_job_error_percent": max(run["median_job_error_percent"] for run in runs),
        "budget_median_job_error_percent": BUDGET_MEDIAN_PERCENT,
    }


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--seeds", default="6,2,3,4")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--keep", type=Path, default=None)
    options = parser.parse_args()
    with suppress(PermissionError):
        os.nice(-20)
    seeds = [int(seed) for seed in options.seeds.split(",")]
    with tempfile.TemporaryDirectory() as name:
        folder = options.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        print(json.dumps(measure(folder, options.jobs, seeds, options.scale)))


if __name__ == "__main__":
    main()
