"""Jobs that share GPUs in turns, run by a scheduler: real processes that use the SDK.

The machine has few CPUs, so a mini-batch sleeps. Its GPUs are numbers.
"""

import re
import time
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread
from typer.testing import CliRunner

import shunter
from shunter.backends.node import folder_of
from shunter.cli import app
from shunter.daemon import Site
from shunter.errors import RefusedError
from shunter.events import (
    Event,
    JobCancelled,
    JobReshaped,
    PlanRejected,
    SuspendMode,
    TrialKept,
    TurnEnded,
    TurnStarted,
)
from tests.contracts.local_backends import empty
from tests.live.site.sites import (
    NOBODY,
    at_work,
    config,
    events_until,
    machine,
    of,
    outcome,
    program,
    verified,
)
from tests.live.turns.pairs import POLICY, training, tries_a_pair

pytestmark = [pytest.mark.asyncio, pytest.mark.live]

QUANTUM_S = 4.0
SECOND_US = 1_000_000
MOVING = """
import sys, time
sys.path.insert(0, {package!r})
from shunter import train
train.device(moves=True)
moved = []
run = train.start(move=moved.append)
while True:
    time.sleep({batch_s})
    print(time.monotonic_ns(), run.device, flush=True)
    run.step()
"""


def moving(batch_s: float = 0.05, **fields: Any) -> Any:
    """Return a submission of one GPU that trains for ever, wherever its turn is."""
    package = str(Path(shunter.__file__).parents[1])
    return program(MOVING.format(package=package, batch_s=batch_s), gpus=1, **fields)


def batches(root: Path, job: str, since_ns: int, until_ns: int) -> int:
    """Return how many mini-batches a job did in a stretch."""
    path = Path(folder_of(str(root / "attempts"), job, 1), "stdout.0")
    ends = [int(line.split()[0]) for line in path.read_text().splitlines() if line]
    return sum(since_ns <= each < until_ns for each in ends)


def spans(seen: list[Event], job: str, until_us: int) -> list[tuple[int, int]]:
    """Return the turns of a job: from when to when, the last one up to an instant."""
    found: list[tuple[int, int]] = []
    for each in seen:
        if isinstance(each, TurnStarted) and each.job_id == job:
            assert each.began_us is not None
            found.append((each.began_us, until_us))
        elif isinstance(each, TurnEnded) and each.job_id == job:
            assert each.ended_us is not None
            found[-1] = (found[-1][0], each.ended_us)
    assert all(end <= began for (_, end), (began, _) in pairwise(found))
    return found


def turned(seen: list[Event]) -> int:
    """Return how many jobs have had a turn."""
    return len({each.job_id for each in of(seen, TurnStarted)})


def had(seen: list[Event], job: str, since_us: int, until_us: int) -> float:
    """Return the part of a stretch in which a job had its turn."""
    turns = spans(seen, job, until_us)
    return sum(max(0, min(end, until_us) - max(began, since_us)) for began, end in turns) / (
        until_us - since_us
    )


class Watching:
    """All that a site has recorded so far, and what its clock said."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.seen: list[Event] = []

    async def run(self) -> None:
        async for _, event in self.site.follow(0):
            self.seen.append(event)

    async def stretch(self, span_s: float) -> tuple[int, int]:
        """Let some time pass; return from when to when it was, by the site."""
        since_us = self.site.now_us()
        await anyio.sleep(span_s)
        until_us = self.site.now_us()
        await anyio.sleep(0.3)
        return since_us, until_us


@pytest.mark.long
@pytest.mark.rotating(among="turns by the clock")
async def test_six_jobs_on_four_gpus_have_two_thirds_each_until_two_end(tmp_path: Path) -> None:
    """Acceptance 1 of issue 15, live: start four, add two, end two whose GPUs were their own."""
    slicing = {"quantum": QUANTUM_S}
    policy = {"name": "gandiva", "slicing": slicing, "trigger": "event"}
    async with machine(tmp_path, policy=policy) as site, anyio.create_task_group() as tasks:
        watching = Watching(site)
        tasks.start_soon(watching.run)
        jobs = [await site.submit(moving(), NOBODY) for _ in range(4)]
        await events_until(site, lambda seen: turned(seen) == 4)
        await anyio.sleep(1.0)
        alone = await watching.stretch(5.0)
        jobs += [await site.submit(moving(), NOBODY) for _ in range(2)]
        await events_until(site, lambda seen: turned(seen) == 6)
        await anyio.sleep(2 * QUANTUM_S)
        shared = await watching.stretch(6 * QUANTUM_S)
        shares = [had(watching.seen, job, *shared) for job in jobs]
        for job in jobs[2:4]:  # on GPUs that nobody else was given
            await site.tell(site.commands.cancel(job, NOBODY))
        rest = [*jobs[:2], *jobs[4:]]
        await anyio.sleep(QUANTUM_S + 2.0)
        later = await watching.stretch(4.0)
        again = [had(watching.seen, job, *later) for job in rest]
        reshaped = of(watching.seen, JobReshaped)
        counts = [
            sum(batches(tmp_path, job, 1000 * (a + offset), 1000 * (b + offset)) for job in jobs)
            / (b - a)
            for a, b in (alone, shared)
            for offset in [_offset(site)]
        ]
        tasks.cancel_scope.cancel()
    print("shares", shares, "rates", counts, "later", again)
    quantum = QUANTUM_S / ((shared[1] - shared[0]) / SECOND_US)
    assert all(abs(share - 2 / 3) <= quantum + 0.01 for share in shares), shares
    assert sum(shares) / 4 >= 0.98, "what changes of hands take of all GPU time"
    # What mini-batches take on a machine that others use as well may differ more than that.
    assert abs(counts[1] / counts[0] - 1) <= 0.05, "the aggregate rate of four exclusive jobs"
    assert all(share >= 0.99 for share in again), again
    assert len(reshaped) == 2, "two have the GPUs of those that ended for their own"
    verdict = await verified(tmp_path)
    assert verdict.divergence is None


@pytest.mark.long
@pytest.mark.rotating(among="turns by the clock")
async def test_quantum_is_kept_over_a_minute(tmp_path: Path) -> None:
    """Two jobs on a GPU, with mini-batches of 50 ms: turns are a quantum long, within 5 %."""
    policy = {"name": "gandiva", "slicing": {"quantum": QUANTUM_S}, "trigger": "event"}
    cluster = {"nodes": [{"name": "n0", "gpus": 1}]}
    async with (
        machine(tmp_path, policy=policy, cluster=cluster) as site,
        anyio.create_task_group() as tasks,
    ):
        watching = Watching(site)
        tasks.start_soon(watching.run)
        jobs = [await site.submit(moving(), NOBODY) for _ in range(2)]
        await events_until(site, lambda seen: turned(seen) == 2)
        since_us, until_us = await watching.stretch(60.0)
        tasks.cancel_scope.cancel()
    turns = [span for job in jobs for span in spans(watching.seen, job, until_us)]
    whole = [(end - began) / 1e6 for began, end in turns if since_us < began and end < until_us]
    mean_s = sum(whole) / len(whole)
    print(f"{len(whole)} turns of {min(whole)} to {max(whole)} s, {mean_s} s in the mean")
    assert len(whole) >= 10
    assert abs(mean_s / QUANTUM_S - 1) <= 0.05


async def test_priority_given_while_jobs_run_is_their_part_of_the_turns(tmp_path: Path) -> None:
    policy = {"name": "gandiva", "slicing": {"quantum": 0.3}, "trigger": "event"}
    cluster = {"nodes": [{"name": "n0", "gpus": 1}]}
    async with (
        machine(tmp_path, policy=policy, cluster=cluster) as site,
        anyio.create_task_group() as tasks,
    ):
        watching = Watching(site)
        tasks.start_soon(watching.run)
        jobs = [await site.submit(moving(), NOBODY) for _ in range(2)]
        await events_until(site, lambda seen: turned(seen) == 2)
        await site.tell(site.commands.set_priority(jobs[1], 2, NOBODY))
        await anyio.sleep(3.0)
        stretch = await watching.stretch(9.0)
        shares = [had(watching.seen, job, *stretch) for job in jobs]
        tasks.cancel_scope.cancel()
    assert shares[1] > 2.5 * shares[0], f"four to one, as each priority doubles: {shares}"


async def test_jobs_that_do_not_move_keep_their_gpus_whatever_becomes_free(tmp_path: Path) -> None:
    """Three on two GPUs: the one that has one for itself ends, and the others go on in turns."""
    policy = {"name": "gandiva", "slicing": {"quantum": 0.3}, "trigger": "event"}
    cluster = {"nodes": [{"name": "n0", "gpus": 2}]}
    async with machine(tmp_path, policy=policy, cluster=cluster) as site:
        jobs = [
            await site.submit(program("import time; time.sleep(600)", gpus=1), NOBODY)
            for _ in range(3)
        ]
        seen = await events_until(site, lambda seen: turned(seen) == 3)
        await site.tell(site.commands.cancel(jobs[1], NOBODY))
        after = len(of(seen, TurnStarted)) + 6
        seen = await events_until(site, lambda seen: len(of(seen, TurnStarted)) > after)
        refusals = [*of(seen, JobReshaped), *of(seen, PlanRejected)]
        later = await site.submit(program("", gpus=1), NOBODY)
        assert await outcome(site, later) == "finished", "on the GPU that is free"
    assert refusals == []
    ask = partial(CliRunner().invoke, app, ["why", jobs[0], "--log", str(tmp_path / "log.db")])
    said = (await to_thread.run_sync(ask)).output
    assert f"{jobs[2]} has turns on n0 too" in said
    assert re.search(r"turn on n0\S* since .* turns, ", said), said


async def test_job_that_cannot_be_stopped_is_refused_when_it_is_submitted(tmp_path: Path) -> None:
    policy = {"name": "gandiva", "slicing": {}, "trigger": "event"}
    async with machine(tmp_path, policy=policy) as site:
        with pytest.raises(RefusedError, match="share GPUs in turns here"):
            await site.submit(moving(suspend_mode=SuspendMode.never), NOBODY)
        assert not site.state.jobs


def _offset(site: Site) -> int:
    """Return how far the monotonic clock is ahead of the site's, in microseconds."""
    return time.monotonic_ns() // 1000 - site.now_us()


PACKING: dict[str, Any] = {"cluster": {"nodes": [{"name": "n0", "gpus": 1}]}, "policy": POLICY}


@pytest.mark.rotating(among="trials of pairs")
@pytest.mark.parametrize("gains", [True, False], ids=["gains", "loses"])
async def test_a_pair_is_tried_live_and_kept_only_if_it_gains(tmp_path: Path, gains: bool) -> None:
    async with machine(tmp_path, **PACKING) as site:
        await tries_a_pair(site, tmp_path, gains=gains)
    assert (await verified(tmp_path)).divergence is None


async def test_a_pack_outlives_the_daemon_and_is_parted_by_the_next_one(tmp_path: Path) -> None:
    """The one that comes back knows the pack by the log, and that it is over once it is."""
    try:
        async with at_work(config(tmp_path, **PACKING)) as site:
            jobs = [await site.submit(training(tmp_path, n, 0.06), NOBODY) for n in "xy"]
            seen = await events_until(site, lambda seen: bool(of(seen, TrialKept)))
        async with at_work(config(tmp_path, **PACKING)) as site:
            assert site.state.jobs[jobs[0]].packed_with == (jobs[1],)
            third = await site.submit(training(tmp_path, "z", 2.0), NOBODY)
            count = len(seen)
            await events_until(site, lambda seen: turns_of(seen[count:], third) >= 2)
            together = [job for job in jobs if not site.state.jobs[job].awaits_turn]
            assert together in ([], jobs), "they have their turns together"
            await site.tell(site.commands.cancel(jobs[0], NOBODY))
            await events_until(site, lambda seen: bool(of(seen, JobCancelled)))
            assert site.state.jobs[jobs[1]].packed_with == ()
        assert (await verified(tmp_path)).divergence is None
    finally:
        empty(str(tmp_path / "attempts"))


def turns_of(seen: list[Event], job: str) -> int:
    """Return how many turns of a job have begun."""
    return sum(each.job_id == job for each in of(seen, TurnStarted))
