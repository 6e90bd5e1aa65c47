"""Golden logs: what was written once is read for ever, and written again to the same bytes.

`golden/` has four files a version: rows, their events as objects, a log file as SQL, and digests.
Those of a released version never change; what is added since gets files of a version more
(`python -m tests.replay.specimens tests/replay/golden VERSION`).
"""

import os
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from shunter.events import (
    KINDS,
    decode_event,
    decode_payload,
    encode_event,
    encode_payload,
    from_object,
    row_fields,
    to_object,
)
from shunter.events.log import open_log, read_log
from tests.replay.specimens import digest_of

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).with_name("golden")

PRINT_DIGEST = """
import sys
from shunter.events import decode_payload, encode_payload
from tests.replay.specimens import digest_of
print(digest_of(encode_payload(decode_payload(sys.stdin.buffer.read()))))
"""


@dataclass(frozen=True, slots=True)
class Golden:
    """The golden files of one version."""

    version: int
    rows: list[bytes]
    objects: list[bytes]
    digests: dict[str, str]
    sql: str

    @property
    def payload(self) -> bytes:
        """All rows as one payload."""
        return b"[" + b",".join(self.rows) + b"]"


def golden(version: int) -> Golden:
    return Golden(
        version,
        (FOLDER / f"events-{version}.jsonl").read_bytes().splitlines(),
        (FOLDER / f"events-{version}.objects.jsonl").read_bytes().splitlines(),
        orjson.loads((FOLDER / f"digests-{version}.json").read_bytes()),
        (FOLDER / f"log-{version}.sql").read_text(encoding="utf-8"),
    )


VERSIONS = [golden(place) for place, _ in enumerate(sorted(FOLDER.glob("log-*.sql")), 1)]

every_version = pytest.mark.parametrize("old", VERSIONS, ids=lambda old: f"version {old.version}")


@every_version
def test_golden_payload_is_written_again_to_the_same_bytes(old: Golden) -> None:
    assert digest_of(old.payload) == old.digests["payload"]
    assert encode_payload(decode_payload(old.payload)) == old.payload


@every_version
def test_golden_rows_say_what_their_objects_say(old: Golden) -> None:
    for row, named in zip(old.rows, old.objects, strict=True):
        event = decode_event(orjson.loads(row))
        assert orjson.dumps(encode_event(event)) == row
        assert orjson.dumps(to_object(event)) == named
        assert from_object(orjson.loads(named)) == event


@pytest.mark.parametrize("name", KINDS)
def test_newest_golden_rows_have_every_kind_with_all_its_fields(name: str) -> None:
    """A kind or field that is missing was added since the newest golden files."""
    rows = [row for row in map(orjson.loads, VERSIONS[-1].rows) if row[0] == name]
    assert len(rows) == 2, "once with its defaults left out, and once with none"
    assert len(rows[1]) == len(row_fields(KINDS[name]))


@every_version
@pytest.mark.rotating("seed")
@pytest.mark.parametrize("seed", ["0", "1", "2"])
def test_bytes_do_not_depend_on_the_hash_seed(old: Golden, seed: str) -> None:
    printed = subprocess.run(
        [sys.executable, "-c", PRINT_DIGEST],
        input=old.payload,
        capture_output=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed},
    )
    assert printed.stdout.decode().strip() == old.digests["payload"]


def load(old: Golden, path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(old.sql)
    connection.close()


@every_version
@pytest.mark.asyncio
async def test_golden_log_is_read_and_continued(old: Golden, tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    load(old, path)
    async with read_log(str(path)) as reader:
        report = await reader.verify(schema=True)
        assert (report.segments, report.snapshots) == (1, 1)
        assert report.digest == old.digests["log"]
        events = [event async for event in reader.events()]
    assert encode_payload(events) == old.payload
    async with open_log(str(path), resume=True) as log:
        log.append(events[:1])
    async with read_log(str(path)) as reader:
        assert (await reader.verify()).events == len(events) + 1
