"""Real jobs that make each other leave, predicted from their own log."""

import csv
import subprocess
import sys
from pathlib import Path
from statistics import fmean

import anyio
import pytest

from shunter.ask import Launch, Observed, config_text, fit_costs, observe_log, observed_trace
from shunter.config import load_config
from shunter.daemon import Site, Submission
from shunter.events import Event, JobFinished, JobSpec, JobSuspended, SuspendMode
from shunter.events.log import read_log
from shunter.run import simulate
from shunter.workloads import Trace
from shunter.workloads.formats import write_trace
from tests.live.site.sites import NOBODY, events_until, machine, of

pytestmark = pytest.mark.live

PROJECT = Path(__file__).parents[3]
TRAINS = f"""
import sys, time
sys.path.insert(0, {str(PROJECT)!r})
from shunter import train

class Part:
    def state_dict(self):
        return {{}}
    def load_state_dict(self, state):
        pass

run = train.start(part=Part(), save_every=int(sys.argv[2]))
while run.steps_done < int(sys.argv[1]):
    began_s = time.monotonic()
    time.sleep(0.05)
    run.step()
    print(time.monotonic() - began_s)
"""
STEPS = (240, 240, 120)
WITHIN = 0.05


def training(steps: int, gpus: int, mode: SuspendMode, save_every: int = 0) -> Submission:
    """Return a job that sleeps 50 ms for each mini-batch."""
    command = (sys.executable, "-I", "-S", "-c", TRAINS, str(steps), str(save_every))
    return Submission(
        JobSpec(command=command, gpus=gpus, model="toy", total_steps=steps, suspend_mode=mode)
    )


async def run_jobs(site: Site) -> list[Event]:
    """Run three jobs: the second is ended for the third, and the first asked for the second."""
    wanted = (
        training(STEPS[0], 4, SuspendMode.cooperative),
        training(STEPS[1], 4, SuspendMode.restart, save_every=30),
        training(STEPS[2], 2, SuspendMode.cooperative),
    )
    for submission in wanted:
        await site.submit(submission, NOBODY)
        await anyio.sleep(0.5)
    return await events_until(site, lambda seen: len(of(seen, JobFinished)) == len(wanted))


async def ran_and_read(root: Path) -> tuple[list[Event], Observed, Trace]:
    """Run the jobs; return the events, and what the log says of them."""
    local = {"root": str(root / "attempts"), "grace": 0.3, "patrol": 0.2, "sample": 1}
    policy = {"name": "las", "params": {"las": {"queues_gpu_s": [24]}}}
    async with machine(root, policy=policy, backend={"local": local}) as site:
        events = await run_jobs(site)
    async with read_log(str(root / "log.db")) as reader:
        return events, await observe_log(reader), (await observed_trace(reader))[0]


def batch_us(root: Path, job_id: str) -> float:
    """Return how long a mini-batch took by the job's own clock: longer where others work too."""
    printed = sorted((root / "attempts" / "jobs" / job_id).glob("*/stdout.0"))
    took_s = [float(line) for path in printed for line in path.read_text().splitlines()]
    assert min(took_s) >= 0.05
    return fmean(took_s) * 1e6


@pytest.mark.long
def test_jobs_are_predicted_from_their_own_log(tmp_path: Path) -> None:
    """Goal: the mean completion time within 5 %, of jobs that were suspended and lost work."""
    events, observed, trace = anyio.run(ran_and_read, tmp_path)
    lost_us = [event.lost_us for event in of(events, JobSuspended) if event.job_id == "j2"]
    # It saved each 1.5 s, and what came after the last of these was lost.
    assert lost_us
    assert all(0 < us < 3_000_000 for us in lost_us)
    fitted = fit_costs(observed)
    assert fitted.launches[Launch.start] == len(STEPS)
    for job, steps in zip(trace.jobs, STEPS, strict=True):
        # The work alone, in mini-batches as long as the job saw them.
        assert job.duration_us == pytest.approx(steps * batch_us(tmp_path, job.job_id), rel=0.3)
    jobs, config = tmp_path / "jobs.csv", tmp_path / "fitted.toml"
    write_trace(trace, jobs, "canonical-csv")
    config.write_text(config_text(observed, fitted, str(jobs)))
    predicted = {result.job_id: result.jct_us for result in simulate(load_config(config)).stories()}
    live = {job.job_id: (job.seen[-1].ended_us or 0) - job.submitted.at_us for job in observed.jobs}
    mean_us = fmean(us for us in predicted.values() if us is not None)
    assert mean_us == pytest.approx(fmean(live.values()), rel=WITHIN), (live, predicted)


async def ran(root: Path) -> None:
    """Run a job that tells its steps, one of another model that does not, one of no model."""
    silent = JobSpec(command=("sleep", "1"), gpus=1, model="silent", total_steps=9)
    wanted = (
        training(40, 2, SuspendMode.cooperative),
        Submission(silent),
        Submission(JobSpec(command=("sleep", "1"), gpus=1)),
    )
    policy = {"name": "las", "params": {"las": {"queues_gpu_s": [5, 60]}}}
    local = {"root": str(root / "attempts"), "patrol": 0.2, "sample": 1}
    async with machine(root, policy=policy, backend={"local": local}) as site:
        for submission in wanted:
            await site.submit(submission, NOBODY)
        await events_until(site, lambda seen: len(of(seen, JobFinished)) == len(wanted))


def commanded(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run a command as its user would, in the folder of the log."""
    command = [sys.executable, "-m", "shunter", *words]
    return subprocess.run(
        command,
        cwd=folder,
        env={"PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_kinds_of_jobs_that_a_log_lacks_run_for_their_own_duration(tmp_path: Path) -> None:
    """Method: real jobs, then `trace fit --rates`, `simulate` and `compare` by the how-to."""
    anyio.run(ran, tmp_path)
    fit = ("trace", "fit", "log.db", "-o", "predicted.toml", "--rates", "rates.json")
    assert commanded(tmp_path, "log", "export", "log.db", "--as-trace", "-o", "jobs.csv").stderr
    fitted = commanded(tmp_path, *fit)
    lacked = "'silent' on 1 GPU (job j2), a job that names no model on 1 GPU (job j3)"
    assert f"there is no rate of {lacked}, as no such job told its steps" in fitted.stderr

    same = commanded(tmp_path, "simulate", "predicted.toml")
    assert same.returncode == 0, same.stderr
    assert "3 submitted, 3 finished" in same.stdout
    assert f"rates.json has no rate of {lacked}: such jobs take the duration_s" in same.stderr

    # Others, of which the log knows one: 40 steps of the kind that it knows, and 3 s of another.
    rows = [
        ("known", 0, "", 2, "toy", 40),
        ("wider", 0, 13.8, 4, "toy", 300),
        ("new", 0, 3, 1, "m", 1),
    ]
    with (tmp_path / "jobs.csv").open("w", newline="") as file:
        names = ("job_id", "submit_s", "duration_s", "gpus", "model", "total_steps")
        csv.writer(file).writerows((names, *rows))
    other = commanded(tmp_path, "simulate", "predicted.toml", "--jobs-out", "out.csv")
    assert other.returncode == 0, other.stderr
    assert (
        "has no rate of 'toy' on 4 GPUs (job wider), 'm' on 1 GPU (job new): such" in other.stderr
    )
    with (tmp_path / "out.csv").open(newline="") as file:
        held_s = {
            row["job_id"]: float(row["attained_gpu_s"]) / int(row["gpus"])
            for row in csv.DictReader(file)
        }
    assert 3 < held_s["new"] < 6
    assert 13.8 < held_s["wider"] < 18
    compared = commanded(tmp_path, "compare", "predicted.toml", "--policies", "las,fifo")
    assert compared.returncode == 0, compared.stderr
    assert compared.stderr.count("has no rate of 'toy' on 4 GPUs (job wider)") == 1
    assert "las: these jobs end with about as many GPU-seconds as a threshold" in compared.stderr
    assert "wider, " in compared.stderr, held_s
