"""The story of one job, read by the index of jobs: complete, in order, and however far apart."""

from pathlib import Path

import pytest

from shunter.errors import LogDamagedError
from shunter.events import Event
from shunter.events.log import SPAN_EVENTS, open_log, read_log
from tests.contracts.event_logs import query, story
from tests.factories import job_id, job_submitted, round_planned

pytestmark = pytest.mark.asyncio


async def test_events_of_a_job_that_lie_far_apart_and_near_are_all_found(tmp_path: Path) -> None:
    url = str(tmp_path / "log.db")
    between = [round_planned(number) for number in range(4 * SPAN_EVENTS + 10)]
    events: list[Event] = [
        *(job_submitted(0), round_planned(), job_submitted(1), job_submitted(0)),
        *between,
        *(job_submitted(0), job_submitted(2), job_submitted(0)),
    ]
    async with open_log(url, frame_events=1, frames_per_transaction=1000) as log:
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
        assert await reader.first_about("j2") == (len(events) - 1, events[-2])
        assert await reader.first_about("nobody") is None


EVENTS = 2 * SPAN_EVENTS + 100
NUMBER = SPAN_EVENTS // 4 + 25
"""A job whose events lie in the second of two spans."""

EVENTS_OF_IT = [
    (seq, story(EVENTS)[seq - 1]) for seq in (4 * NUMBER + 1, 4 * NUMBER + 3, 4 * NUMBER + 4)
]


async def found_in(path: Path) -> list[tuple[int, Event]]:
    async with read_log(str(path)) as reader:
        found = [*await reader.job_events(f"j{NUMBER}")]
        first = await reader.first_about(f"j{NUMBER}")
        assert first == (found[0] if found else None)
        return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.db"


async def written(path: Path) -> None:
    async with open_log(str(path), frame_events=100) as log:
        log.append(story(EVENTS))


async def test_index_is_made_by_the_first_who_asks_and_again_at_will(path: Path) -> None:
    await written(path)
    spans = "SELECT first_seq, last_seq FROM job_index ORDER BY first_seq"
    assert query(path, spans) == []
    for _ in range(2):
        assert await found_in(path) == EVENTS_OF_IT
        assert query(path, spans) == [
            (1, SPAN_EVENTS),
            (SPAN_EVENTS + 1, 2 * SPAN_EVENTS),
        ]
        query(path, "DELETE FROM job_index")


async def test_index_goes_on_where_the_log_does(path: Path) -> None:
    await written(path)
    assert await found_in(path) == EVENTS_OF_IT
    async with open_log(str(path), frame_events=None, resume=True) as log:
        log.append([*story(SPAN_EVENTS), EVENTS_OF_IT[0][1]])
    assert [seq for seq, _ in await found_in(path)] == [
        *(seq for seq, _ in EVENTS_OF_IT),
        EVENTS + SPAN_EVENTS + 1,
    ]
    assert query(path, "SELECT count(*) FROM job_index") == [(3,)]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE job_index SET names = x'5b5b5d2c5b5d5d'",
        "UPDATE job_index SET names = 'text' WHERE first_seq > 1",
        "UPDATE job_index SET names = x'78' WHERE first_seq > 1",
        "UPDATE job_index SET digest = 'x' WHERE first_seq > 1",
        "UPDATE job_index SET last_seq = last_seq + 1",
        "UPDATE job_index SET last_seq = -7",
        "UPDATE job_index SET first_seq = first_seq + 1",
        "DELETE FROM job_index WHERE first_seq = 1",
        "INSERT INTO job_index SELECT 20001, 25000, digest, names FROM job_index LIMIT 1",
    ],
)
async def test_changed_index_is_found_by_verify_and_misleads_nobody(
    path: Path, change: str
) -> None:
    await written(path)
    assert await found_in(path) == EVENTS_OF_IT
    query(path, change)
    async with read_log(str(path)) as reader:
        with pytest.raises(LogDamagedError, match=r"index of jobs .* at sequence number"):
            await reader.verify()
    assert await found_in(path) == EVENTS_OF_IT
    async with read_log(str(path)) as reader:
        assert (await reader.verify()).events == EVENTS


async def test_damaged_frame_is_not_indexed_but_told(path: Path) -> None:
    """What is not what was written never reaches a parser: its place is told."""
    await written(path)
    query(path, "UPDATE frames SET payload = '[}' WHERE first_seq = 301")
    with pytest.raises(LogDamagedError, match="frame at sequence number 301"):
        await found_in(path)
    assert query(path, "SELECT count(*) FROM job_index") == [(0,)]
