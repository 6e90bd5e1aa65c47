"""What is removed of ended jobs, and when: not before their end is durable."""

from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from shunter.core import State
from shunter.daemon import keep_for
from shunter.errors import BackendError
from shunter.events import JobId, MemoryPastJobs, Outcome
from tests.factories import job_id

pytestmark = pytest.mark.asyncio

J0, J1 = job_id(0), job_id(1)
KEEP_S = 0.01


class Durable:
    """A feed that is behind until it is let go on."""

    def __init__(self) -> None:
        self.gate = anyio.Event()
        self.asked: list[int] = []

    async def reached(self, seq: int) -> None:
        self.asked.append(seq)
        await self.gate.wait()


class Backend:
    """A backend with old jobs, which fails first if it is told to."""

    def __init__(self, *old: JobId, fails: int = 0) -> None:
        self.old = [*old]
        self.fails = fails
        self.removed: list[JobId] = []

    async def old_jobs(self, keep_s: float) -> Sequence[JobId]:
        return self.old

    async def remove_attempts(self, jobs: Sequence[JobId]) -> None:
        self.fails -= 1
        if self.fails >= 0:
            raise BackendError("the disk is broken", retryable=True)
        self.removed += jobs
        self.old = [job for job in self.old if job not in jobs]


async def kept(backend: Any, feed: Any, *ended: JobId, rounds: int = 5) -> list[str]:
    """Let it work for some rounds; return what it told."""
    state, told = State(seq=7), list[str]()
    past = MemoryPastJobs(dict.fromkeys(ended, Outcome.finished))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keep_for, KEEP_S, backend, state, past, feed, told.append)
        await anyio.sleep(rounds * KEEP_S)
        tasks.cancel_scope.cancel()
    return told


async def test_only_jobs_that_have_ended_are_removed() -> None:
    backend, feed = Backend(J0, J1), Durable()
    feed.gate.set()
    assert await kept(backend, feed, J1) == []
    assert backend.removed == [J1]


async def test_nothing_is_removed_before_the_end_is_durable() -> None:
    backend, feed = Backend(J0), Durable()
    await kept(backend, feed, J0)
    assert feed.asked == [7]
    assert backend.removed == []
    feed.gate.set()
    await kept(backend, feed, J0)
    assert backend.removed == [J0]


async def test_failure_is_told_once_and_tried_again() -> None:
    backend, feed = Backend(J0, fails=2), Durable()
    feed.gate.set()
    told = await kept(backend, feed, J0, rounds=20)
    assert told == ["old output and records cannot be removed: the disk is broken"]
    assert backend.removed == [J0]
