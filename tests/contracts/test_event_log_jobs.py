"""The story of one job, read by the index of jobs: complete, in order, and however far apart."""

from pathlib import Path

import pytest

from shunter.events.kinds import Event
from shunter.events.log import open_log, read_log
from shunter.events.log.reader import NEAR_EVENTS
from tests.factories import job_id, job_submitted, round_planned

pytestmark = pytest.mark.asyncio


async def test_events_of_a_job_that_lie_far_apart_and_near_are_all_found(tmp_path: Path) -> None:
    url = str(tmp_path / "log.db")
    between = [round_planned(number) for number in range(NEAR_EVENTS + 10)]
    events: list[Event] = [
        *(job_submitted(0), round_planned(), job_submitted(1), job_submitted(0)),
        *between,
        *(job_submitted(0), job_submitted(2), job_submitted(0)),
    ]
    async with open_log(url, frame_events=1, index_jobs=True, frames_per_transaction=1000) as log:
        log.append(events)
        await log.flush()
    mine = [
        (seq, event)
        for seq, event in enumerate(events, 1)
        if getattr(event, "job_id", "") == job_id(0)
    ]
    async with read_log(url) as reader:
        assert await reader.job_events("j0") == mine
        assert await reader.job_events("nobody") == []
        assert await reader.first_about("j2") == len(events) - 1
        assert await reader.first_about("nobody") is None
