"""A site from the first start on: jobs run, and the log tells it all."""

from pathlib import Path

import pytest

from shunter.events import AttemptStarted
from tests.live.site.sites import NOBODY, events_until, machine, of, outcome, program, verified

pytestmark = [pytest.mark.asyncio, pytest.mark.live]


async def test_submitted_job_runs_to_its_end(tmp_path: Path) -> None:
    async with machine(tmp_path) as site:
        job_id = await site.submit(program("print('hello')"), NOBODY)
        assert job_id == "j1"
        assert await outcome(site, job_id) == "finished"
    assert (tmp_path / "attempts/jobs/j1/1/stdout.0").read_text() == "hello\n"


async def test_job_is_durable_and_ordered_when_its_submitter_is_answered(tmp_path: Path) -> None:
    async with machine(tmp_path) as site:
        job_id = await site.submit(program("import time; time.sleep(30)"), NOBODY)
        assert job_id in site.state.jobs
        assert site.committed == site.state.seq


async def test_running_job_is_ended_by_its_cancellation(tmp_path: Path) -> None:
    async with machine(tmp_path) as site:
        job_id = await site.submit(program("import time; time.sleep(30)"), NOBODY)
        await events_until(site, lambda seen: bool(of(seen, AttemptStarted)))
        await site.tell(site.commands.cancel(job_id, NOBODY))
        assert await outcome(site, job_id) == "cancelled"


async def test_log_of_two_terms_is_decided_again_alike(tmp_path: Path) -> None:
    async with machine(tmp_path) as site:
        await site.submit(program("pass"), NOBODY)
        assert await outcome(site, "j1") == "finished"
    async with machine(tmp_path) as site:
        assert site.term == 2
        assert await site.submit(program("pass"), NOBODY) == "j2"
        assert await outcome(site, "j2") == "finished"
    verdict = await verified(tmp_path)
    assert verdict.divergence is None
    assert verdict.terms == 2
