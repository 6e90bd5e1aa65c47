"""A log that is not what was written is refused, with the place; nothing is ever skipped."""

import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from string import Template

import pytest
import pytest_asyncio

from shunter.errors import LogDamagedError, LogError
from shunter.events.log import VerifyReport, open_log, read_log, seal
from tests.contracts.event_logs import content, events_of, put, query, snapshot, story

pytestmark = pytest.mark.asyncio

EVENTS = 95

FIND = Template("SELECT rowid, CAST($column AS BLOB), typeof($column) FROM $table WHERE $where")
REPLACE = Template("UPDATE $table SET $column = CAST(? AS $kind) WHERE rowid = ?")


@pytest_asyncio.fixture
async def path(tmp_path: Path) -> Path:
    """A log of 95 events: one segment up to 40, then frames of 10; a snapshot at 60."""
    path = tmp_path / "run.db"
    async with open_log(str(path), frame_events=10) as log:
        log.append(story(EVENTS))
        await log.flush()
        await log.save_snapshot(snapshot(60))
        await log.flush()
        await seal(log, 40)
    return path


async def verified(path: Path) -> VerifyReport:
    async with read_log(str(path)) as reader:
        return await reader.verify()


async def resumed(path: Path) -> int:
    async with open_log(str(path), frame_events=None, resume=True) as log:
        return log.term


def change(path: Path, table: str, column: str, where: str, to: Callable[[bytes], bytes]) -> None:
    """Rewrite one value of the database, keeping its type."""
    connection = sqlite3.connect(path)
    with connection:
        place = {"table": table, "column": column, "where": where}
        rowid, value, kind = connection.execute(FIND.substitute(place)).fetchone()
        connection.execute(REPLACE.substitute(place, kind=kind), (to(value), rowid))
    connection.close()


def flip_first(value: bytes) -> bytes:
    return bytes([value[0] ^ 1]) + value[1:]


def flip_middle(value: bytes) -> bytes:
    middle = len(value) // 2
    return value[:middle] + bytes([value[middle] ^ 1]) + value[middle + 1 :]


def cut_half(value: bytes) -> bytes:
    return value[: len(value) // 2]


@pytest.mark.parametrize(
    ("table", "column", "where", "to", "seq"),
    [
        ("frames", "payload", "first_seq = 71", flip_middle, 71),
        ("frames", "payload", "first_seq = 71", cut_half, 71),
        ("frames", "payload", "first_seq = 91", cut_half, 91),
        ("frames", "chain", "first_seq = 71", flip_middle, 71),
        ("frames", "count", "first_seq = 71", flip_middle, 80),
        ("frames", "count", "first_seq = 91", flip_middle, 91),
        ("frames", "at_us", "first_seq = 71", flip_middle, 71),
        ("frames", "term", "first_seq = 71", flip_middle, 71),
        ("head", "chain", "1", flip_middle, 91),
        ("head", "seq", "1", flip_first, 85),
        ("snapshots", "state", "seq = 60", flip_middle, 60),
        ("snapshots", "memory", "seq = 60", flip_middle, 60),
        ("snapshots", "digest", "seq = 60", flip_first, 60),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
async def test_flipped_bit_or_cut_value_stops_verify_and_start_at_its_place(
    path: Path, table: str, column: str, where: str, to: Callable[[bytes], bytes], seq: int
) -> None:
    change(path, table, column, where, to)
    with pytest.raises(LogDamagedError, match="sequence number"):
        await verified(path)
    with pytest.raises(LogDamagedError, match="sequence number") as caught:
        await resumed(path)
    assert caught.value.seq is not None
    assert abs(caught.value.seq - seq) <= 10


@pytest.mark.parametrize(
    ("sql", "seq"),
    [
        ("DELETE FROM frames WHERE first_seq = 91", 91),
        ("DELETE FROM frames WHERE first_seq = 71", 71),
        ("DELETE FROM frames WHERE first_seq = 41", 41),
        ("DELETE FROM frames WHERE first_seq > 60", 61),
        ("DELETE FROM segments", 1),
        ("UPDATE head SET seq = 90", 91),
        ("UPDATE head SET seq = 105", 96),
        ("UPDATE frames SET count = 'ten' WHERE first_seq = 71", 71),
    ],
)
async def test_missing_piece_stops_verify_and_start_at_its_place(
    path: Path, sql: str, seq: int
) -> None:
    query(path, sql)
    for attempt in (verified, resumed):
        with pytest.raises(LogDamagedError, match=r"sequence number|damaged row") as caught:
            await attempt(path)
        # The frame itself, or the one that disagrees with it.
        assert caught.value.seq is not None
        assert abs(caught.value.seq - seq) <= 10


@pytest.mark.parametrize("sql", ["DELETE FROM head", "INSERT INTO head SELECT * FROM head"])
async def test_log_without_one_head_is_refused(path: Path, sql: str) -> None:
    query(path, sql)
    for attempt in (verified, resumed):
        with pytest.raises(LogDamagedError, match="no proper head"):
            await attempt(path)


async def test_damaged_segment_is_found_by_verify_and_by_readers(path: Path) -> None:
    change(path, "segments", "frames", "1", flip_middle)
    with pytest.raises(LogDamagedError, match="segment at sequence number 1") as caught:
        await verified(path)
    assert caught.value.seq == 1
    async with read_log(str(path)) as reader:
        with pytest.raises(LogDamagedError, match="segment at sequence number 1"):
            await events_of(reader, 5, 7)
        assert await events_of(reader, 40, 95) == story(EVENTS)[40:]


async def test_frames_beyond_the_head_are_no_part_of_the_log(path: Path) -> None:
    query(path, "INSERT INTO frames SELECT 96, count, at_us, term, chain, payload FROM frames "
                "WHERE first_seq = 91")  # fmt: skip
    for attempt in (verified, resumed):
        with pytest.raises(LogDamagedError, match="sequence number 96"):
            await attempt(path)


async def test_any_flipped_bit_of_the_file_is_refused_or_harmless(path: Path) -> None:
    """Goal: no damage passes. Method: flip a bit here and there, and compare what is read."""
    whole, report = content(path), await verified(path)
    places = random.Random(7).sample(range(len(whole)), 100)
    noticed = 0
    for place in places:
        put(path, whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        try:
            assert await verified(path) == report
            async with read_log(str(path)) as reader:
                assert await events_of(reader) == story(EVENTS)
        except LogError:
            noticed += 1
    assert noticed > 10


@pytest.mark.parametrize("share", [0.0, 0.001, 0.2, 0.5, 0.8])
async def test_file_that_was_cut_is_refused(path: Path, share: float) -> None:
    whole = content(path)
    put(path, whole[: int(len(whole) * share)])
    with pytest.raises(LogError):
        await verified(path)
