"""What every event log does, whatever keeps it: one suite, run over every store."""

import asyncio
import io
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import anyio
import pytest
from anyio import lowlevel

from shunter.errors import LogDamagedError, LogError, NotFoundError, UsageError
from shunter.events import Event, JobFinished, JobId, encode_payload
from shunter.events.log import (
    LogWriter,
    Snapshot,
    export_jsonl,
    import_jsonl,
    open_log,
    read_log,
    seal,
)
from tests.contracts.event_logs import (
    MEMORY,
    SQLITE,
    STORE_KINDS,
    StoreKind,
    events_of,
    snapshot,
    story,
)

pytestmark = pytest.mark.asyncio


@pytest.fixture(params=STORE_KINDS, ids=lambda kind: kind.name)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a log of each kind."""
    kind: StoreKind = request.param
    return kind.url(tmp_path)


@pytest.fixture(params=(MEMORY, SQLITE), ids=lambda kind: kind.name)
def readable_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a log of each kind that can be read again."""
    kind: StoreKind = request.param
    return kind.url(tmp_path)


def chain_over(events: Sequence[Event], frame_events: int) -> str:
    chain = bytes(32)
    for start in range(0, len(events), frame_events):
        payload = encode_payload(events[start : start + frame_events])
        chain = blake2b(chain + payload, digest_size=32).digest()
    return chain.hex()


async def written(url: str, events: Sequence[Event], **options: int | None) -> LogWriter:
    async with open_log(url, **options) as log:  # type: ignore[arg-type]  # a few ints
        log.append(events)
        await log.commit()
    return log


async def test_sequence_numbers_count_from_one(url: str) -> None:
    async with open_log(url) as log:
        assert log.seq == 0
        assert log.append(story(1)) == 1
        assert log.append(story(3)) == 4
        assert log.append([]) == 4
        assert (log.seq, log.events, log.term, log.url) == (4, 4, 1, url)


@pytest.mark.parametrize("batch", [1, 3, 10, 41])
async def test_digest_is_the_chain_over_exact_frames_however_batched(url: str, batch: int) -> None:
    events = story(41)
    async with open_log(url, frame_events=10, frames_per_transaction=2) as log:
        for start in range(0, len(events), batch):
            log.append(events[start : start + batch])
            await log.commit()
        if batch == 3:
            await log.flush()
        assert log.digest == chain_over(events[:40], 10)
    assert log.digest == chain_over(events, 10)


async def test_live_commit_cuts_one_frame(url: str) -> None:
    events = story(5)
    async with open_log(url, frame_events=None) as log:
        log.append(events[:2])
        log.append(events[2:3])
        await log.commit()
        assert log.digest == chain_over(events[:3], 3)
        await log.commit()
        assert log.digest == chain_over(events[:3], 3)


async def test_empty_log_has_the_digest_of_nothing(url: str) -> None:
    log = await written(url, [])
    assert log.digest == bytes(32).hex()


async def test_closed_writer_refuses(url: str) -> None:
    async with open_log(url) as log:
        await log.close()
        with pytest.raises(LogError, match="is closed"):
            log.append(story(1))
        with pytest.raises(LogError, match="is closed"):
            await log.commit()


async def test_unencodable_event_stops_the_writer(url: str) -> None:
    async with open_log(url, frame_events=None) as log:
        log.append([JobFinished(0, JobId("\ud800"))])
        with pytest.raises(LogError, match="cannot be encoded") as caught:
            await log.commit()
        assert caught.value.seq == 1
        with pytest.raises(LogError, match="cannot be encoded"):
            log.append(story(1))


async def test_concurrent_callers_all_find_their_events_committed(readable_url: str) -> None:
    async with open_log(readable_url, frame_events=None) as log:

        async def submit(event: Event) -> None:
            log.append([event])
            await log.commit()
            async with read_log(log) as reader:
                assert event in await events_of(reader)

        await asyncio.gather(*[submit(event) for event in story(20)])
        async with read_log(log) as reader:
            assert await events_of(reader) == story(20)


async def test_committed_events_are_read_while_the_writer_goes_on(readable_url: str) -> None:
    async with open_log(readable_url, frame_events=None) as log:
        log.append(story(3))
        await log.commit()
        log.append(story(1))
        async with read_log(log) as reader:
            assert await events_of(reader) == story(3)
            assert (await reader.head()).seq == 3


async def test_simulation_writes_full_transactions_only(readable_url: str) -> None:
    async with open_log(readable_url, frame_events=10, frames_per_transaction=2) as log:
        async with read_log(log) as reader:
            log.append(story(39))
            await log.commit()
            assert (await reader.head()).seq == 20
            await log.flush()
            assert (await reader.head()).seq == 30
        await log.close()
        async with read_log(log) as reader:
            assert (await reader.head()).seq == 39
            assert [frame.count async for frame in reader.frames()] == [10, 10, 10, 9]


async def test_exception_leaves_what_was_not_committed_unwritten(readable_url: str) -> None:
    async def fail() -> None:
        async with open_log(readable_url, frame_events=None) as log:
            kept.append(log)
            log.append(story(2))
            await log.commit()
            log.append(story(1))
            raise ZeroDivisionError

    kept: list[LogWriter] = []
    with pytest.raises(ZeroDivisionError):
        await fail()
    async with read_log(kept[0]) as reader:
        assert await events_of(reader) == story(2)


@pytest.mark.parametrize(("after", "to"), [(0, None), (10, 30), (7, 33), (12, 15), (40, 99)])
async def test_any_stretch_can_be_read(readable_url: str, after: int, to: int | None) -> None:
    log = await written(readable_url, story(45), frame_events=10)
    async with read_log(log) as reader:
        assert await events_of(reader, after, to) == story(45)[after:to]


async def test_long_logs_are_read_in_chunks(readable_url: str) -> None:
    log = await written(readable_url, story(50_001), frame_events=100)
    async with read_log(log) as reader:
        assert await events_of(reader) == story(50_001)
        assert await events_of(reader, 20_150, 20_160) == story(50_001)[20_150:20_160]


async def test_verify_reports_what_is_there(readable_url: str) -> None:
    log = await written(readable_url, story(45), frame_events=10)
    async with read_log(log) as reader:
        report = await reader.verify()
        assert (report.frames, report.events, report.snapshots) == (5, 45, 0)
        assert report.digest == log.digest
        assert await reader.verify(schema=True) == report


async def test_newest_snapshot_not_after_a_point_is_found(readable_url: str) -> None:
    async with open_log(readable_url, frame_events=10) as log:
        log.append(story(45))
        for seq in (10, 25, 45):
            await log.save_snapshot(snapshot(seq))
    async with read_log(log) as reader:
        assert await reader.snapshots() == (snapshot(10), snapshot(25), snapshot(45))
        assert await reader.snapshot_at(9) is None
        assert await reader.snapshot_at(10) == snapshot(10)
        assert await reader.snapshot_at(44) == snapshot(25)
        assert (await reader.verify()).snapshots == 3


async def test_snapshot_appears_with_the_frame_it_rests_on(readable_url: str) -> None:
    async with open_log(readable_url, frame_events=10, frames_per_transaction=1) as log:
        log.append(story(15))
        await log.save_snapshot(snapshot(15))
        await log.commit()
        async with read_log(log) as reader:
            assert await reader.snapshots() == ()
            log.append(story(5))
            await log.commit()
            assert await reader.snapshots() == (snapshot(15),)


async def test_live_snapshot_is_durable_when_saved(readable_url: str) -> None:
    async with open_log(readable_url, frame_events=None) as log:
        log.append(story(3))
        await log.save_snapshot(snapshot(3))
        async with read_log(log) as reader:
            assert await reader.snapshot_at(3) == snapshot(3)
            assert (await reader.head()).seq == 3


async def test_snapshot_with_another_digest_is_refused(url: str) -> None:
    async with open_log(url) as log:
        log.append(story(3))
        with pytest.raises(LogDamagedError, match="snapshot at sequence number 3"):
            await log.save_snapshot(Snapshot(3, 0, b"state", b"memory", "00"))


async def test_story_of_one_job_is_found(readable_url: str) -> None:
    log = await written(readable_url, story(45), frame_events=10)
    expected = [
        (seq, event)
        for seq, event in enumerate(story(45), 1)
        if getattr(event, "job_id", None) == "j7"
    ]
    async with read_log(log) as reader:
        assert await reader.job_events("j7") == expected
        assert await reader.job_events("nobody") == []


async def test_sealing_changes_nothing_for_readers(readable_url: str) -> None:
    async with open_log(readable_url, frame_events=10) as log:
        log.append(story(95))
        await log.flush()
        await log.save_snapshot(snapshot(60))
        await log.flush()
        segments = await seal(log, 60)
        assert [(s.first_seq, s.last_seq) for s in segments] in ([], [(1, 60)])
        assert await seal(log, 60) == ()
    async with read_log(log) as reader:
        assert await events_of(reader) == story(95)
        assert await events_of(reader, 25, 75) == story(95)[25:75]
        report = await reader.verify()
        assert (report.frames, report.events, report.digest) == (10, 95, log.digest)
        assert len(await reader.job_events("j2")) == 3


async def test_sealing_past_the_snapshots_is_refused(readable_url: str) -> None:
    async with open_log(readable_url, frame_events=10) as log:
        log.append(story(30))
        await log.flush()
        with pytest.raises(LogError, match="snapshot"):
            await seal(log, 20)


async def test_snapshots_handed_in_while_others_commit_are_kept(readable_url: str) -> None:
    """Goal: none is lost between two commits. Method: one is handed in while each is under way."""
    events, seqs = story(60), list[int]()
    async with open_log(readable_url, frame_events=None) as log, anyio.create_task_group() as tasks:
        for event in events:
            log.append([event])
            tasks.start_soon(log.commit)
            await lowlevel.checkpoint()
            seqs.append(log.seq)
            tasks.start_soon(log.save_snapshot, snapshot(log.seq))
            await lowlevel.checkpoint()
    async with read_log(log) as reader:
        assert [kept.seq for kept in await reader.snapshots()] == seqs


async def test_thinned_snapshots_are_gone_and_the_others_stay(readable_url: str) -> None:
    async with open_log(readable_url, frame_events=None) as log:
        log.append(story(60))
        for seq in (10, 20, 30, 40):
            await log.save_snapshot(snapshot(seq))
        await log.thin_snapshots(lambda seqs: seqs[1:-1])
    async with read_log(log) as reader:
        assert [kept.seq for kept in await reader.snapshots()] == [10, 40]


async def test_exported_lines_import_to_the_same_log(readable_url: str, tmp_path: Path) -> None:
    log = await written(readable_url, story(45), frame_events=10)
    lines = io.BytesIO()
    async with read_log(log) as reader:
        assert await export_jsonl(reader, lines) == 45
    lines.seek(0)
    async with open_log(str(tmp_path / "again.db"), frame_events=10) as again:
        report = await import_jsonl(lines, again)
    assert (report.events, report.torn, again.digest) == (45, False, log.digest)


async def test_null_log_has_nothing_to_read() -> None:
    log = await written("none:", story(3))
    with pytest.raises(NotFoundError, match="keeps no events"):
        async with read_log(log):
            pass


@pytest.mark.parametrize("address", ["memory:", "none:"])
async def test_address_of_a_log_in_memory_leads_nowhere(address: str) -> None:
    with pytest.raises(NotFoundError, match="ends with its process"):
        async with read_log(address):
            pass


@pytest.mark.parametrize(
    "address", ["postgresql+asyncpg://host/db", "sqlite+aiosqlite:///", "", ":memory:"]
)
async def test_unknown_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="memory:, none:, a path"):
        async with open_log(address):
            pass


async def test_sources_of_a_term_are_noted_beside_the_events(readable_url: str) -> None:
    async with open_log(readable_url) as log:
        await log.note_sources({"shunter": "aa", "plugin": "bb"})
        log.append(story(10))
    async with read_log(log) as reader:
        assert await reader.sources() == {1: {"shunter": "aa", "plugin": "bb"}}
        await reader.verify()


async def test_the_digest_of_a_log_does_not_depend_on_the_sources(url: str, tmp_path: Path) -> None:
    digests = []
    for sources in ({}, {"shunter": "aa"}, {"shunter": "bb"}):
        async with open_log(url, overwrite=True) as log:
            await log.note_sources(sources)
            log.append(story(10))
        digests.append(log.digest)
    assert len(set(digests)) == 1
