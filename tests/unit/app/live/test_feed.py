"""Followers of a log: every durable event once, in order, from memory or from the log."""

from pathlib import Path

import anyio
import pytest

from shunter.daemon import Feed, feed as feeds
from shunter.errors import LogError, NotFoundError, UnreachableError, UsageError, first_error
from shunter.events import Event
from shunter.events.log import LogWriter, open_log
from tests.factories import job_finished

pytestmark = pytest.mark.asyncio


async def publish(log: LogWriter, feed: Feed, count: int) -> None:
    """Write so many events, one commit each, and say so."""
    for _ in range(count):
        event = job_finished(log.seq)
        log.append([event])
        await log.commit()
        feed.publish(log.seq, [event])


async def first(feed: Feed, after: int, count: int) -> list[tuple[int, Event]]:
    """Return the next events."""
    found: list[tuple[int, Event]] = []
    async for known in feed.follow(after):
        found.append(known)
        if len(found) == count:
            break
    return found


@pytest.mark.parametrize("kept", [4, 10_000])
async def test_follower_gets_all_events_however_far_behind_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    monkeypatch.setattr(feeds, "KEPT_EVENTS", kept)
    async with open_log(str(tmp_path / "log.db"), frame_events=None) as log:
        feed = Feed(log)
        await publish(log, feed, 30)
        found = await first(feed, 5, 25)
        assert found == [(seq, job_finished(seq - 1)) for seq in range(6, 31)]


async def test_follower_waits_for_what_comes_and_ends_with_the_log(tmp_path: Path) -> None:
    async with open_log(str(tmp_path / "log.db"), frame_events=None) as log:
        feed, seqs = Feed(log), list[int]()

        async def listen() -> None:
            seqs.extend([seq async for seq, _ in feed.follow(0)])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            for _ in range(3):
                await publish(log, feed, 2)
            feed.close()
        assert seqs == [1, 2, 3, 4, 5, 6]


async def test_who_waits_for_an_event_goes_on_once_it_is_durable_or_never_will_be(
    tmp_path: Path,
) -> None:
    async with open_log(str(tmp_path / "log.db"), frame_events=None) as log:
        feed = Feed(log)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(feed.reached, 2)
            await publish(log, feed, 2)
        await feed.reached(2)
        feed.close()
        with pytest.raises(UnreachableError, match="before event 3 was durable"):
            await feed.reached(3)


@pytest.mark.parametrize("after", [-1, 1])
async def test_numbers_outside_the_log_are_refused(tmp_path: Path, after: int) -> None:
    async with open_log(str(tmp_path / "log.db"), frame_events=None) as log:
        with pytest.raises(UsageError, match="does not exist"):
            await first(Feed(log), after, 1)


async def test_group_of_errors_is_told_by_its_first_error_of_ours() -> None:
    ours, other = LogError("full"), OSError("?")
    nested = BaseExceptionGroup("", [other, BaseExceptionGroup("", [ours])])
    assert first_error(nested) is ours
    assert first_error(BaseExceptionGroup("", [other])) is other
    assert first_error(NotFoundError("x")).args == ("x",)
