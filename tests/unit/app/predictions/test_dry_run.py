"""What the next plan would do with a job is what it does, whatever the policy."""

import asyncio
from pathlib import Path

import pytest

from shunter.ask import wait_of
from shunter.ask.forks import ForkPoint, end_of_instant, fork_point
from shunter.core import Scheduler, SubmitJob
from shunter.events import JobId, JobSubmitted, encode_payload
from shunter.events.log import read_log
from shunter.policy_process import DryRun, PolicyWorker
from shunter.run import rebuild
from tests.factories import job_spec
from tests.unit.app.forking.worlds import COSTS, simulated, tree

JOB = JobId("dry-run")


async def point_at(url: str, seq: int) -> ForkPoint:
    async with read_log(url) as reader:
        return await fork_point(reader, await end_of_instant(reader, seq), rebuild)


@pytest.mark.parametrize("policy", ["fifo", "las", "tiresias", "fifo_easy"])
def test_dry_run_says_what_a_submission_comes_to(policy: str, tmp_path: Path) -> None:
    """Method: a scheduler that begins anew on the same state takes the same submission in."""
    url = simulated(tmp_path, tree(policy, simulation={"costs": COSTS}))
    outcomes = set()
    for seq in (20, 60, 90, 140, 200, 240):
        point = asyncio.run(point_at(url, seq))
        for gpus in (1, 2, 6):
            spec = job_spec(gpus, user="ana")
            thinking = PolicyWorker(point.started, point.encoded_state)
            at_us = point.at_us + 1
            submitted = encode_payload([JobSubmitted(at_us, JOB, spec)])

            found = thinking.dry_run(DryRun(submitted, at_us, 9.0))

            chosen, rules = rebuild(point.started)
            core = Scheduler(chosen, rules, point.state())
            core.take_in(at_us, [SubmitJob(at_us, JOB, spec)])
            core.decide(found.at_us)
            job = core.state.jobs[JOB]
            assert bool(found.where) is bool(job.allocation.shares)
            assert found.starts is (job.since_us is not None)
            if not found.where:
                assert found.wait == wait_of(job, core.state)
            outcomes.add((bool(found.where), found.starts))
            assert found.at_us == (rules.grid_at(at_us + 1) if rules.round_us else at_us)
    assert (True, True) in outcomes
    assert len(outcomes) > 1
