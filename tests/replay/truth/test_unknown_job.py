"""A job that a log does not have is answered from the index of jobs."""

import asyncio
from collections.abc import AsyncIterator
from difflib import get_close_matches
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from shunter.ask.why import explain
from shunter.errors import NotFoundError
from shunter.events import Event, JobId
from shunter.events.log import SPAN_EVENTS, Frame, LogReader, open_log, read_log
from tests.factories import job_submitted, round_planned, scheduler_started
from tests.replay.recording import reading
from tests.slices import searched


def test_why_of_an_unknown_job_reads_no_frame_that_the_index_covers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = str(tmp_path / "run.db")
    read: list[int] = []
    frames = LogReader.frames

    async def noted(self: LogReader, after: int = 0, to: int | None = None) -> AsyncIterator[Frame]:
        async for frame in frames(self, after, to):
            read.append(frame.first_seq)
            yield frame

    async def asked() -> None:
        events: list[Event] = [scheduler_started(), *(job_submitted(number) for number in range(5))]
        events += [round_planned(number) for number in range(2 * SPAN_EVENTS)]
        async with open_log(url, frame_events=100, frames_per_transaction=1000) as log:
            log.append(events)
            await log.flush()
        async with read_log(url) as reader:
            await reader.first_about("j1")  # which makes the index
            head = await reader.head()
            monkeypatch.setattr(LogReader, "frames", noted)
            await explain(reader, JobId("j9"), head.seq, 0, lambda *_: pytest.fail("rebuilt"))

    with pytest.raises(NotFoundError, match=r"no job 'j9' in .*; the nearest are j4, j3"):
        asyncio.run(asked())
    assert read
    assert all(seq > SPAN_EVENTS for seq in read), "the index says that it is in no span"


NAMES = st.one_of(
    st.integers(0, 400).map(str), st.text("jab12_", min_size=1, max_size=7), st.just("j" * 240)
)


@searched(100)
@given(name=NAMES, known=st.lists(NAMES, min_size=1, max_size=30, unique=True))
def test_ids_named_are_those_that_difflib_finds_nearest(name: str, known: list[str]) -> None:
    known = [each for each in known if each != name] or ["other"]

    async def asked() -> None:
        events: list[Event] = [scheduler_started(), *(job_submitted(each) for each in known)]
        async with reading(events) as reader:
            await explain(reader, JobId(name), len(events), 0, lambda *_: pytest.fail("rebuilt"))

    with pytest.raises(NotFoundError) as raised:
        asyncio.run(asked())
    near = get_close_matches(name, sorted(known), n=3, cutoff=0.5)
    assert str(raised.value).partition("; the nearest are ")[2] == ", ".join(near)
