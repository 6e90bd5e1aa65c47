"""Moves of running jobs over SSH: tried ones, which stay by what they measure, and evicted ones."""

from dataclasses import replace
from pathlib import Path

import anyio
import pytest

import shunter
from shunter.daemon import Site
from shunter.events import (
    AllocationChanged,
    AttemptStarted,
    Event,
    GpusReleased,
    JobFinished,
    JobId,
    JobSuspended,
    Level,
    ProfileSampled,
    RoundPlanned,
    TrialKept,
    TrialReason,
    TrialStarted,
    TurnStarted,
)
from tests.live.site.sites import NOBODY, at_work, events_until, of, program, verified
from tests.live.ssh.bench import Bench
from tests.live.ssh.site import cluster, worker

pytestmark = [pytest.mark.asyncio, pytest.mark.live, pytest.mark.ssh]

BATCH_S = 0.05
QUANTUM_S = 2.0
PROBE_S = 6.0
TRAINING = """
import sys, time
sys.path.insert(0, {package!r})
from shunter import train
run = train.start()
while True:
    time.sleep({batch_s})
    run.step()
"""
MIGRATION = {"goals": ["lower_height"], "probe": PROBE_S, "cost": 0.2}


async def submitted(site: Site) -> JobId:
    """Submit a job of one GPU that trains for ever; return its id once it has had a turn."""
    package = str(Path(shunter.__file__).parents[1])
    source = TRAINING.format(package=package, batch_s=BATCH_S)
    job_id = await site.submit(program(source, gpus=1), NOBODY)
    await events_until(site, lambda seen: job_id in turned(seen))
    return job_id


def turned(seen: list[Event]) -> set[JobId]:
    return {each.job_id for each in of(seen, TurnStarted)}


async def test_who_takes_turns_is_moved_to_a_gpu_that_becomes_free_and_stays(bench: Bench) -> None:
    policy = {
        "name": "gandiva",
        "slicing": {"quantum": QUANTUM_S},
        "params": {"gandiva": {"migration": MIGRATION}},
    }
    config = cluster(bench.farm, bench.folder, policy=policy, sample=0.5)
    async with at_work(config) as site:
        jobs = [await submitted(site) for _ in range(4)]  # on three GPUs
        nodes = {job_id: site.state.jobs[job_id].allocation.shares[0].node for job_id in jobs}
        sharing = [job_id for job_id in jobs if nodes[job_id] == nodes[jobs[-1]]]
        alone = next(job_id for job_id in jobs if job_id not in sharing)
        await anyio.sleep(3 * QUANTUM_S)  # all are measured
        await site.tell(site.commands.cancel(alone, NOBODY))
        seen = await events_until(site, lambda seen: bool(of(seen, TrialKept)))
    (started,), (kept,) = of(seen, TrialStarted), of(seen, TrialKept)
    moves = [each for each in of(seen, AllocationChanged) if each.because.rule == "lower_height"]
    assert len(sharing) == 2
    ((moved, to),) = [(each.job_id, each.allocation.shares[0].node) for each in moves]
    assert (moved in sharing, to) == (True, nodes[alone])
    assert (started.job_id, started.trial, started.baseline) == (moved, "migrate", 0.5)
    assert [each.attempt for each in of(seen, AttemptStarted) if each.job_id == moved] == [1, 2]
    # What it measured alone on its turn, before and after: a mini-batch is a sleep.
    (before,), (after,) = started.batches, kept.batches
    assert before.batch_us == pytest.approx(BATCH_S * 1e6, rel=0.5)
    assert after.batch_us == mean_of(seen, moved, kept.at_us)
    assert kept.measured == pytest.approx(before.batch_us / after.batch_us, abs=1e-5)
    assert (kept.job_id, kept.reason) == (moved, TrialReason.gained)
    assert (await verified(bench.folder)).divergence is None


def mean_of(seen: list[Event], job_id: JobId, until_us: int) -> int:
    """Return the mean of the samples of a second attempt, but for the first two, as verdicts do."""
    batches_us = [
        round(each.batch_s * 1e6)
        for each in of(seen, ProfileSampled)
        if each.job_id == job_id and each.attempt == 2 and each.at_us <= until_us
        if each.batch_s is not None
    ]
    return sum(batches_us[2:]) // len(batches_us[2:])


async def test_evicted_job_goes_on_elsewhere_while_the_gang_has_its_gpus(bench: Bench) -> None:
    """Goal: one plan moves who leaves; nobody starts on GPUs that another still has.

    Method: two jobs, one on each of two servers, and a gang of higher priority that needs a whole
    server. Workers lock their GPUs and note what they find locked.
    """
    config = cluster(
        bench.farm,
        bench.folder,
        {"n0": 2, "n1": 2},
        nodes=("n0", "n1"),
        policy={"name": "las", "placement": "spread"},
    )
    async with at_work(config) as site:
        for number in range(2):
            await site.submit(worker(bench.folder, f"one-{number}", 600.0), NOBODY)
        await events_until(site, lambda seen: len(of(seen, AttemptStarted)) == 2)
        first = worker(bench.folder, "gang", 600.0, gpus=2)
        spec = replace(first.spec, max_level=Level.server, priority=1)
        gang = await site.submit(replace(first, spec=spec), NOBODY)
        await events_until(site, lambda seen: len(of(seen, AttemptStarted)) == 4)
        (bench.folder / "enough").touch()
        seen = await events_until(site, lambda seen: len(of(seen, JobFinished)) == 3)

    (suspended,) = of(seen, JobSuspended)
    moved = suspended.job_id
    (gangs,) = [each for each in of(seen, AllocationChanged) if each.job_id == gang]
    before, after = [each for each in of(seen, AllocationChanged) if each.job_id == moved]
    (freed,), (elsewhere,) = before.allocation.shares, after.allocation.shares
    assert [share.node for share in gangs.allocation.shares] == [freed.node]
    assert {freed.node, elsewhere.node} == {"n0", "n1"}
    assert (after.because.rule, after.because.beneficiaries) == ("makes_room", (gang,))
    # One plan says both.
    assert not of(seen[seen.index(after) : seen.index(gangs)], RoundPlanned)

    (released,) = [
        each for each in of(seen, GpusReleased) if each.at_us < of(seen, JobFinished)[0].at_us
    ]
    starts = {(each.job_id, each.attempt): each for each in of(seen, AttemptStarted)}
    order = [seen.index(each) for each in (gangs, suspended, released)]
    assert order == sorted(order)
    assert released.job_id == moved
    assert seen.index(starts[gang, 1]) > order[-1]
    assert seen.index(starts[moved, 2]) > order[-1]
    # What the programs saw: saved before the gang began, and resumed from that on the other server.
    noted = [(job, attempt, node, what) for job, attempt, _, node, what, *_ in bench.ledger()]
    saved = noted.index((str(moved), "1", freed.node, "saved"))
    assert noted.index((str(gang), "1", freed.node, "begun")) > saved
    assert noted.index((str(moved), "2", elsewhere.node, "resumed")) > saved
    bench.assert_nothing_twice()
    verdict = await verified(bench.folder)
    assert verdict.divergence is None
