"""Compressed logs, and questions in SQL: the answers of a plain log, and nothing changed."""

import asyncio
import sqlite3
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from shunter.errors import LogDamagedError, UsageError
from shunter.events.log import open_log, query_log, read_log, seal
from tests.contracts.event_logs import events_of, query, snapshot, story

EVENTS = 10_000
DAMAGE = "UPDATE frames SET payload = {} WHERE first_seq = 1001"
BY_KIND = "SELECT kind, count(*), min(seq), max(at_us) FROM events GROUP BY kind ORDER BY kind"


async def written(path: Path, *, compressed: bool) -> str:
    """Write a log of some frames; return its digest."""
    async with open_log(str(path), compressed=compressed) as log:
        log.append(story(EVENTS))
    return log.digest


def asked(path: Path, question: str) -> list[Sequence[Any]]:
    with query_log(str(path), question) as answered:
        return [tuple(row) for row in answered.rows]


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    asyncio.run(written(tmp_path / "packed.db", compressed=True))
    return tmp_path / "packed.db"


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    asyncio.run(written(tmp_path / "plain.db", compressed=False))
    return tmp_path / "plain.db"


@pytest.mark.asyncio
async def test_compressed_log_has_the_events_and_the_digest_of_a_plain_one(tmp_path: Path) -> None:
    one, other = tmp_path / "packed.db", tmp_path / "plain.db"
    digests = [await written(one, compressed=True), await written(other, compressed=False)]
    assert digests[0] == digests[1]
    async with read_log(str(one)) as reader:
        assert (await reader.verify()).digest == digests[0]
        assert await events_of(reader) == story(EVENTS)
    assert 3 * one.stat().st_size < other.stat().st_size


def test_plain_sql_on_a_compressed_log_says_what_to_use_instead(packed: Path) -> None:
    with pytest.raises(sqlite3.OperationalError, match="compressed: ask it by `shunter log sql`"):
        query(packed, "SELECT count(*) FROM events")


@pytest.mark.parametrize("question", [BY_KIND, "SELECT * FROM events WHERE job_id = 'j7'"])
def test_question_is_answered_alike_of_both(packed: Path, plain: Path, question: str) -> None:
    expected = query(plain, question)
    assert asked(packed, question) == asked(plain, question) == expected
    assert expected


@pytest.mark.asyncio
async def test_question_reads_sealed_events_too(tmp_path: Path, plain: Path) -> None:
    path = tmp_path / "sealed.db"
    async with open_log(str(path), frame_events=10) as log:
        log.append(story(EVENTS))
        await log.flush()
        await log.save_snapshot(snapshot(EVENTS))
        await log.flush()
        assert await seal(log, EVENTS - 100)
    assert asked(path, BY_KIND) == query(plain, BY_KIND) != query(path, BY_KIND)


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("SELECT nought FROM events", "no such column: nought"),
        ("SELEC 1", "syntax error"),
        ("SELECT 1; SELECT 2", "one statement at a time"),
        ("", "expected a SELECT"),
        ("DELETE FROM frames", "readonly"),
        ("PRAGMA user_version = 7", "not authorized"),
        ("SELECT * FROM pragma_user_version", "not authorized"),
        ("ATTACH 'other.db' AS other", "not authorized"),
        ("VACUUM INTO 'other.db'", "authorization denied"),
        ("CREATE TEMP TABLE mine (a)", "readonly"),
        ("SELECT json_extract('[', '$') FROM events", "malformed JSON"),
    ],
)
def test_what_is_no_question_is_refused(
    packed: Path, question: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It changes no log, and makes no file: ATTACH does so where a log may only be read."""
    monkeypatch.chdir(packed.parent)
    before = packed.read_bytes()
    with pytest.raises(UsageError, match=said):
        asked(packed, question)
    assert packed.read_bytes() == before
    assert sorted(each.name for each in packed.parent.iterdir()) == ["packed.db"]


def test_columns_of_a_table_may_be_asked_for(packed: Path) -> None:
    names = [row[1] for row in asked(packed, "PRAGMA table_info(events)")]
    assert names == ["seq", "at_us", "kind", "job_id", "payload"]


ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT {} FROM c"


def test_question_without_end_may_be_left(packed: Path) -> None:
    with query_log(str(packed), ENDLESS.format("x")) as answered:
        assert list(islice(answered.rows, 3)) == [(1,), (2,), (3,)]
    with pytest.raises(StopIteration):
        next(answered.rows)


@pytest.mark.parametrize(
    "kept",
    [
        *("x'78da00'", "zeroblob(40)", "'['", "substr(payload, 1, length(payload) - 1)"),
        "CAST(payload || x'00' AS BLOB)",
    ],
)
@pytest.mark.asyncio
async def test_damaged_frame_is_named(packed: Path, kept: str) -> None:
    query(packed, DAMAGE.format(kept))
    async with read_log(str(packed)) as reader:
        with pytest.raises(LogDamagedError, match="1001"):
            await reader.verify()


def test_question_about_a_damaged_frame_names_it(packed: Path) -> None:
    query(packed, DAMAGE.format("x'78da00'"))
    with pytest.raises(LogDamagedError, match="the frame at sequence number 1001 is damaged"):
        asked(packed, BY_KIND)
    assert asked(packed, "SELECT max(seq) FROM head") == [(EVENTS,)]
