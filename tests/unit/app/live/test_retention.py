"""Past jobs of a live cluster: who answers for them, and when they are removed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest

from shunter.core import State
from shunter.daemon import LivePastJobs, keep_for
from shunter.errors import BackendError
from shunter.events import EndedJob, JobCancelled, JobFinished, JobId, MemoryPastJobs, Outcome
from tests.factories import job_id, job_submitted

J7 = JobId("j7")


class Tables:
    """Tables that say how one job ended, and count how often they are asked."""

    last_number = 3

    def __init__(self) -> None:
        self.asked: list[str] = []

    def outcome(self, job_id: JobId) -> Outcome | None:
        self.asked.append(job_id)
        return Outcome.failed if job_id == "j3" else None

    def job_of(self, key: str) -> JobId | None:
        self.asked.append(key)
        return None

    def ended_before(self, seq: int, most: int) -> Sequence[EndedJob]:
        return []

    def close(self) -> None:
        self.asked.append("close")


def test_what_is_not_durable_yet_is_known() -> None:
    past = LivePastJobs(Tables())
    submitted = replace(job_submitted(1), dedupe_key="key")
    past.take(4, submitted)
    past.take(5, JobFinished(9, J7))
    assert (past.outcome(J7), past.outcome(JobId("j3"))) == (Outcome.finished, Outcome.failed)
    assert past.job_of(f"{submitted.spec.user}/key") == submitted.job_id
    assert past.last_number == 7


def test_what_is_durable_is_asked_of_the_tables() -> None:
    tables = Tables()
    past = LivePastJobs(tables)
    past.take(5, JobFinished(9, J7))
    past.take(6, JobCancelled(9, JobId("j8")))
    past.durable(5)
    assert past.outcome(JobId("j8")) is Outcome.cancelled
    assert tables.asked == []
    assert past.outcome(J7) is None, "these tables do not say it"
    assert tables.asked == [J7]


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


@pytest.mark.asyncio
async def test_only_jobs_that_have_ended_are_removed() -> None:
    backend, feed = Backend(J0, J1), Durable()
    feed.gate.set()
    assert await kept(backend, feed, J1) == []
    assert backend.removed == [J1]


@pytest.mark.asyncio
async def test_nothing_is_removed_before_the_end_is_durable() -> None:
    backend, feed = Backend(J0), Durable()
    await kept(backend, feed, J0)
    assert feed.asked == [7]
    assert backend.removed == []
    feed.gate.set()
    await kept(backend, feed, J0)
    assert backend.removed == [J0]


@pytest.mark.asyncio
async def test_failure_is_told_once_and_tried_again() -> None:
    backend, feed = Backend(J0, fails=2), Durable()
    feed.gate.set()
    told = await kept(backend, feed, J0, rounds=20)
    assert told == ["old output and records cannot be removed: the disk is broken"]
    assert backend.removed == [J0]
