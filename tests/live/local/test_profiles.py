"""What a whole site learns of its jobs: their step, their speed, and what policies make of it."""

import sys
from pathlib import Path

import pytest

from shunter.core import remaining_us
from shunter.daemon import Submission
from shunter.events import AttemptStarted, JobSpec, ProfileSampled
from tests.live.site.sites import NOBODY, events_until, machine, of, verified

pytestmark = [pytest.mark.asyncio, pytest.mark.live]

ROOT = Path(__file__).parents[3]
STEPS = 100_000
TRAINS = f"""
import sys, time
sys.path.insert(0, {str(ROOT)!r})
from shunter import train
train.channel.PROGRESS_EVERY_S = 0.1
run = train.start()
while run.steps_done < {STEPS}:
    time.sleep(0.01)
    run.step()
"""
PRINTS = """
import sys, time
for step in range(1, 100_000):
    time.sleep(0.01)
    print(f"\\r{step}/100000 [00:01<10:00, 50.00it/s]", end="", file=sys.stderr, flush=True)
"""


@pytest.mark.parametrize("program", [TRAINS, PRINTS], ids=["sdk", "progress bar"])
async def test_speed_of_a_job_tells_how_long_it_still_needs(tmp_path: Path, program: str) -> None:
    local = {"root": str(tmp_path / "attempts"), "sample": 0.4, "grace": 0.3}
    sampling = {"kind": "local", "local": local}
    command = (sys.executable, "-I", "-S", "-c", program)
    async with machine(tmp_path, backend=sampling, policy={"name": "srtf"}) as site:
        job_id = await site.submit(Submission(JobSpec(command=command, total_steps=STEPS)), NOBODY)
        await events_until(site, lambda seen: bool(of(seen, AttemptStarted)))
        assert remaining_us(site.state.jobs[job_id], site.now_us()) is None
        await events_until(site, lambda seen: any(one.step for one in of(seen, ProfileSampled)))
        job = site.state.jobs[job_id]
        assert job.measured_rate is not None
        assert 10_000 <= job.measured_rate.batch_us < 1_000_000
        left_us = remaining_us(job, site.now_us())
        assert left_us is not None
        assert left_us > STEPS // 2 * 10_000
    verdict = await verified(tmp_path)
    assert verdict.divergence is None
