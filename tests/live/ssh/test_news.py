"""News that come right behind an answer, before whoever asked has woken: the later word holds."""

import sys
import time
from dataclasses import replace

import pytest
from anyio.lowlevel import checkpoint

from shunter.backends.live import Reading
from shunter.core import AttemptExited, Fence
from shunter.events import AttemptLost, AttemptStarted, NodeName
from tests.factories import job_id
from tests.live.ssh.bench import Bench, order, seen_until

pytestmark = [pytest.mark.asyncio, pytest.mark.live, pytest.mark.ssh]

TIMES = 3
ONE_BY_ONE = """
import os, time
time.sleep(0.5 if os.environ["RANK"] == "0" else 2.5)
"""


async def held_up(for_s: float) -> None:
    """Let what was begun be sent; then hear nothing, and all at once after a while."""
    for _ in range(5):
        await checkpoint()
    time.sleep(for_s)  # noqa: ASYNC251  so that an answer and the news behind it are one piece


async def test_end_right_behind_a_look_is_not_forgotten(bench: Bench) -> None:
    """Goal: the answer to a look undoes nothing of what was told after it.

    Method: a gang whose ranks end one by one, so that the first end is kept in mind for a while.
    """
    async with bench.opened() as backend:
        for number in range(TIMES):
            job = job_id(number)
            launch = bench.launching("n0", "n1", job=job)
            command = (sys.executable, "-I", "-S", "-c", ONE_BY_ONE)
            await order(backend, replace(launch, spec=replace(launch.spec, command=command)))
            await seen_until(backend, AttemptStarted)
            backend.agents[NodeName("n0")].watch(job, 1, Reading())
            await held_up(1.0)
            told = await seen_until(backend, AttemptExited)
            assert [seen.exit_code for seen in told if isinstance(seen, AttemptExited)] == [0]


async def test_end_right_behind_the_answer_to_a_fence_is_not_forgotten(bench: Bench) -> None:
    async with bench.opened() as backend:
        for number in range(TIMES):
            await order(backend, bench.launching("n0", "n1", job=job_id(number)))
            await seen_until(backend, AttemptStarted)
            await order(backend, Fence(job_id(number), 1))
            await held_up(1.0)
            await seen_until(backend, AttemptLost)
    bench.assert_nothing_twice()
