"""Gangs over several servers that share GPUs in turns, run by a scheduler on one machine."""

from pathlib import Path

import anyio
import pytest
from anyio import to_thread
from typer.testing import CliRunner

import shunter
from shunter.cli import app
from shunter.core import State
from shunter.core.fold import replay
from shunter.daemon import Submission
from shunter.events import Event, TurnStarted
from tests.live.site.sites import NOBODY, events_until, machine, of, program, verified

pytestmark = [pytest.mark.asyncio, pytest.mark.live]

QUANTUM_S = 1.0
TRAINS = """
import sys, time
sys.path.insert(0, {package!r})
from shunter import train
train.device()
run = train.start()
while True:
    time.sleep(0.05)
    run.step()
"""


def training(gpus: int) -> Submission:
    package = str(Path(shunter.__file__).parents[1])
    return program(TRAINS.format(package=package), gpus=gpus)


def turned(seen: list[Event], *jobs: str) -> bool:
    """Say whether each job has had two turns."""
    return all(sum(each.job_id == job for each in of(seen, TurnStarted)) >= 2 for job in jobs)


def replayed(seen: list[Event], upto_us: int) -> State:
    return replay([each for each in seen if each.at_us <= upto_us])


async def test_gangs_wider_than_a_server_take_turns_over_two_of_one_machine(
    tmp_path: Path,
) -> None:
    policy = {"name": "gandiva", "slicing": {"quantum": QUANTUM_S}, "trigger": "event"}
    cluster = {"nodes": [{"name": "n0", "gpus": 1}, {"name": "n1", "gpus": 1}]}
    async with machine(tmp_path, policy=policy, cluster=cluster) as site:
        gangs = [await site.submit(training(2), NOBODY) for _ in range(2)]
        await events_until(site, lambda seen: turned(seen, *gangs))
        since_us = site.now_us()
        await anyio.sleep(10 * QUANTUM_S)
        until_us = site.now_us()
        await anyio.sleep(0.5)
        seen = await events_until(site, lambda seen: seen[-1].at_us >= until_us - 1_000_000)
    had = {
        job: replayed(seen, until_us).jobs[job].service_us(until_us)
        - replayed(seen, since_us).jobs[job].service_us(since_us)
        for job in gangs
    }
    parts = {job: us / 2 / (until_us - since_us) for job, us in had.items()}
    print(parts)
    assert all(0.35 <= part <= 0.55 for part in parts.values()), parts
    words = ["why", gangs[0], "--log", str(tmp_path / "log.db")]
    told = await to_thread.run_sync(CliRunner().invoke, app, words)
    assert "n0 and n1" in told.stdout, told.stdout
    verdict = await verified(tmp_path)
    assert verdict.divergence is None
