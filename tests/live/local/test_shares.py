"""Jobs held to their CPUs and memory by the kernel of this machine, and to others while they run.

Goal: `tune` ends two jobs that load the CPU and two that sleep sooner than `proportional` does, by
measured rates, and what the log says of shares is what the kernel has. Quotas together are one CPU
of this machine, so that what else runs here takes nothing of them.
"""

import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from shunter.backends.live import LocalBackend, LocalNode, LocalSettings
from shunter.backends.node import change_group, folders_of, has_quota, held_to, members, started_in
from shunter.core import Launch, ReshapeAttempt
from shunter.daemon import Site, Submission
from shunter.events import (
    Allocation,
    AttemptEnded,
    AttemptLost,
    AttemptStarted,
    Event,
    JobFailed,
    JobFinished,
    JobReshaped,
    JobSpec,
    NodeName,
    ReshapeRefused,
    Share,
)
from tests.contracts.local_backends import empty
from tests.factories import job_id
from tests.live.site.sites import NOBODY, PATIENCE_S, events_until, machine, of, verified
from tests.live.ssh.bench import order, seen_until
from tests.live.ssh.farm import parent_of

pytestmark = [pytest.mark.asyncio, pytest.mark.live]

PROJECT = Path(__file__).parents[3]
J0 = job_id(0)
NO_GROUPS = (
    "needs control groups for CPU time below which we may make others: with affinity alone all "
    "shares of up to one CPU are the same"
)
USES_MEMORY = """
import os, time
block = bytes(range(256)) * (40 << 12)
if os.fork() == 0:
    os.setsid()
print("up", flush=True)
time.sleep(60)
"""
STEP_S = 0.02
TRAINS = f"""
import sys, time
sys.path.insert(0, {str(PROJECT)!r})
from shunter import train
run, began_s = train.start(), time.monotonic()
while run.steps_done < int(sys.argv[2]):
    if sys.argv[1] == "sleeper":
        time.sleep({STEP_S})
    else:
        until_s = time.process_time() + {STEP_S}
        while time.process_time() < until_s:
            pass
    run.step()
print(run.steps_done / (time.monotonic() - began_s))
"""
SENSITIVITY = {
    "proportional_per_gpu": {"cpus": 0.25, "memory_gb": 1},
    "cpu_points": [0.1, 0.25, 0.4, 0.5],
    "memory_gb_points": [1],
    "models": {
        "loader": {"table": [[0.4], [1.0], [1.6], [2.0]]},
        "sleeper": {"table": [[1.0], [1.0], [1.0], [1.0]]},
    },
}
STEPS = {"loader": 50, "sleeper": 50}
MODELS = ("loader", "loader", "sleeper", "sleeper")


def group_of(root: Path, job: str = "j0") -> str:
    """Return the control groups of a job's first attempt."""
    started = started_in(f"{root}/jobs/{job}/1")
    assert started is not None
    group = started["cgroup"] or ""
    if not group or not has_quota(group):
        pytest.skip(NO_GROUPS)
    return group


async def until(done: Callable[[], bool]) -> None:
    """Wait until something is so, of which nothing tells."""
    with anyio.fail_after(PATIENCE_S):
        while not done():  # noqa: ASYNC110 the kernel's files and supervisors set no event of ours
            await anyio.sleep(0.02)


@asynccontextmanager
async def opened(root: Path, term: int) -> AsyncIterator[LocalBackend]:
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    node = LocalNode(NodeName("n0"), ("0", "1", "2", "3"), cpus)
    async with LocalBackend(LocalSettings(str(root), (node,), term, is_limited=True)) as backend:
        yield backend


def sized(cpus_milli: int, memory_mb: int) -> Allocation:
    return Allocation((Share(NodeName("n0"), 1, cpus_milli, memory_mb),))


def are_gone(group: str) -> bool:
    return not any(Path(folder).exists() for folder in folders_of(group))


async def test_groups_hold_a_job_from_its_launch_to_its_end(tmp_path: Path) -> None:
    """Whatever it forks, in the next term of the scheduler too; nothing is left at the end."""
    spec = JobSpec(1, command=(sys.executable, "-I", "-S", "-c", USES_MEMORY))
    try:
        async with opened(tmp_path, 1) as backend:
            await order(backend, Launch(J0, 1, sized(500, 200), spec))
            await seen_until(backend, AttemptStarted)
            group = group_of(tmp_path)
            assert held_to(group) == (500, 200)
            await until(lambda: len(members(group)) == 2)
            await order(backend, ReshapeAttempt(J0, 1, sized(800, 100)))
            await until(lambda: held_to(group) == (800, 100))
        change_group(group, 300, 150)
        async with opened(tmp_path, 2) as backend:
            backend.adopt(J0, 1, started=True, on=sized(800, 100))
            await backend.perform([], backend.now_us())
            await until(lambda: held_to(group) == (800, 100))
            assert (await backend.share_notice()).startswith("shares of jobs on local: CPUs by ")
            await order(backend, ReshapeAttempt(J0, 1, sized(200, 20)))
            refusal = await backend.share_notice()
            kept = "job j0 on n0 keeps 0.8 CPUs and 100 MB of memory, and not 0.2 CPUs and 20 MB"
            assert kept in refusal
            seen = await seen_until(backend, ReshapeRefused)
            told = [one for one in seen if isinstance(one, ReshapeRefused)]
            assert [one.kept for one in told] == [sized(800, 100).shares]
            assert told[0].wanted == sized(200, 20).shares
            assert held_to(group) == (800, 100)
            started = started_in(f"{tmp_path}/jobs/j0/1")
            assert started is not None
            for pid in (parent_of(started["pid"]), started["pid"]):
                os.kill(pid, signal.SIGKILL)
            await seen_until(backend, AttemptLost)
            await until(lambda: are_gone(group))
    finally:
        empty(str(tmp_path))


async def test_job_killed_for_more_memory_than_its_share_is_said_to_be(tmp_path: Path) -> None:
    """The log has it as the kernel counted it, and the job's own output."""
    taken = "block = bytearray(400 << 20)"
    cluster = {"nodes": [{"name": "n0", "gpus": 2, "cpus": 1, "memory_gb": 0.2}]}
    local = {"root": str(tmp_path / "attempts"), "grace": 0.3, "patrol": 0.2}
    policy = {"name": "fifo", "sizing": "proportional"}
    async with machine(tmp_path, cluster=cluster, policy=policy, backend={"local": local}) as site:
        command = (sys.executable, "-I", "-S", "-c", taken)
        await site.submit(Submission(JobSpec(command=command)), NOBODY)
        events = await events_until(site, lambda seen: bool(of(seen, JobFailed)))
    (end,) = of(events, AttemptEnded)
    if not end.memory_kills:
        assert b"MemoryError" in (tmp_path / "attempts/jobs/j1/1/stderr.0").read_bytes(), NO_GROUPS
        pytest.skip(NO_GROUPS)
    assert (end.exit_code, end.memory_kills) == (137, 1)
    said = (tmp_path / "attempts/jobs/j1/1/stderr.0").read_text()
    assert said.startswith("shunter: killed for using more than its 100 M")


@dataclass
class Ran:
    """What came of the four jobs under a mechanism."""

    events: list[Event]
    makespan_s: float
    loaders_steps_per_s: float
    held: list[tuple[int, int]]


async def ran(root: Path, mechanism: str) -> Ran:
    """Run the four jobs; hold the kernel to what the state says while all of them run."""
    table = await anyio.to_thread.run_sync(written_table, root)
    local = {"root": str(root / "attempts"), "grace": 0.3, "patrol": 0.2}
    async with machine(
        root,
        cluster={"nodes": [{"name": "n0", "gpus": 4, "cpus": 1, "memory_gb": 4}]},
        workload={"sensitivity": str(table)},
        policy={"name": "fifo", "sizing": mechanism},
        backend={"local": local},
    ) as site:
        jobs = [await site.submit(training(model), NOBODY) for model in MODELS]
        await events_until(site, lambda seen: len(of(seen, AttemptStarted)) == len(jobs))
        groups = [group_of(root / "attempts", job) for job in jobs]
        for group in groups:
            favour(group)
        await until(lambda: [held_to(group) for group in groups] == shares_in(site))
        held = shares_in(site)
        events = await events_until(site, lambda seen: len(of(seen, JobFinished)) == len(jobs))
        await until(lambda: all(are_gone(group) for group in groups))
    rates = [steps_per_s(root, job) for job in jobs]
    return Ran(events, makespan_s(events), sum(rates[:2]), held)


def favour(group: str) -> None:
    """Let a job have its quota however busy the machine is: weights are not what is tested."""
    for folder in folders_of(group):
        for name, most in (("cpu.shares", "200000"), ("cpu.weight", "10000")):
            if (path := Path(folder, name)).exists():
                path.write_text(most)


def written_table(root: Path) -> Path:
    """Make a folder with a table of sensitivity in it."""
    root.mkdir()
    table = root / "sensitivity.json"
    table.write_text(json.dumps(SENSITIVITY))
    return table


def training(model: str) -> Submission:
    command = (sys.executable, "-I", "-S", "-c", TRAINS, model, str(STEPS[model]))
    return Submission(JobSpec(command=command, model=model, total_steps=STEPS[model]))


def shares_in(site: Site) -> list[tuple[int, int]]:
    """Return the CPUs and memory of all jobs by the state, in order."""
    shares = [job.allocation.shares[0] for _, job in sorted(site.state.jobs.items())]
    return [(share.cpus_milli, share.memory_mb) for share in shares]


def makespan_s(events: list[Event]) -> float:
    last_us = max(event.at_us for event in of(events, JobFinished))
    return (last_us - of(events, AttemptStarted)[0].at_us) / 1e6


def steps_per_s(root: Path, job: str) -> float:
    """Return the rate of a job, as it measured itself."""
    return float(Path(root, "attempts/jobs", job, "1/stdout.0").read_text())


async def test_tune_ends_jobs_sooner_than_proportional_by_measured_rates(tmp_path: Path) -> None:
    proportional = await ran(tmp_path / "proportional", "proportional")
    tuned = await ran(tmp_path / "tune", "tune")
    assert proportional.held == 4 * [(250, 1000)]
    assert sum(cpus_milli for cpus_milli, _ in tuned.held) <= 1000
    loaders, sleepers = tuned.held[:2], tuned.held[2:]
    assert all(cpus_milli >= 300 for cpus_milli, _ in loaders)
    assert all(cpus_milli == 100 for cpus_milli, _ in sleepers)
    assert of(proportional.events, JobReshaped) == []
    assert of(tuned.events, JobReshaped), "who came first gave way to the sleepers"
    print(
        f"makespan {proportional.makespan_s:.2f} s -> {tuned.makespan_s:.2f} s; the loaders "
        f"{proportional.loaders_steps_per_s:.1f} -> {tuned.loaders_steps_per_s:.1f} steps a second"
    )
    assert tuned.loaders_steps_per_s > 1.2 * proportional.loaders_steps_per_s  # the table: 1.6
    assert tuned.makespan_s < proportional.makespan_s
    for root in ("proportional", "tune"):
        verdict = await verified(tmp_path / root)
        assert verdict.divergence is None
