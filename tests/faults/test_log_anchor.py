"""The end of a log that was acknowledged and is gone is known, with the numbers that are lost.

A daemon that is killed leaves a write-ahead log. SQLite takes it up to its first damaged place and
drops the rest, in silence; so it does when the file is missing.
"""

import io
import os
import random
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from shunter.errors import LogDamagedError, LogError
from shunter.events import EventsLost
from shunter.events.log import (
    SLOT_BYTES,
    Anchor,
    VerifyReport,
    WithoutLost,
    anchor_path,
    export_jsonl,
    import_jsonl,
    open_log,
    open_past_jobs,
    read_anchor,
    read_log,
    reindex_log,
)
from tests.contracts.event_logs import content, events_of, files_in, put, query, remove, story
from tests.faults.test_log_crash import killed_after

pytestmark = [pytest.mark.asyncio, pytest.mark.live]

COMMITS = 60
TRIES = 20
WAL_HEADER, FRAME_HEADER, PAGE = 32, 24, 4096


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a killed process leaves: the folder of its log, all of whose events it acknowledged.

    One that was killed after a commit and before it could note that is killed once more.
    """
    for _ in range(TRIES):
        folder = tmp_path_factory.mktemp("killed")
        killed_after(folder / "run.db", COMMITS)
        if left(folder / "run.db") == anchored(folder / "run.db"):
            return folder
    raise AssertionError(f"killed {TRIES} times between a commit and its anchor")


@pytest.fixture
def path(killed: Path, tmp_path: Path) -> Path:
    """A log of a killed process, for one test."""
    for file in sorted(killed.iterdir()):
        shutil.copy(file, tmp_path)
    return tmp_path / "run.db"


def wal(path: Path) -> Path:
    return path.with_name("run.db-wal")


def anchored(path: Path) -> int:
    head = read_anchor(path)
    assert head is not None
    return head.seq


def left(path: Path) -> int:
    """Return where a log ends that has lost its end, as SQLite sees it."""
    copy = path.parent / "look"
    copy.mkdir()
    for file in (path, wal(path)):
        if file.exists():
            shutil.copy(file, copy)
    try:
        seq = query(copy / "run.db", "SELECT seq FROM head")[0][0]
    except sqlite3.OperationalError:
        seq = 0
    shutil.rmtree(copy)
    assert isinstance(seq, int)
    return seq


async def verified(path: Path) -> VerifyReport:
    async with read_log(str(path)) as reader:
        return await reader.verify()


async def resumed(path: Path) -> tuple[int, str]:
    async with open_log(str(path), durable=True, frame_events=None, resume=True) as log:
        return log.seq, log.warning


async def exported(path: Path) -> int:
    async with read_log(str(path)) as reader:
        return await export_jsonl(reader, io.BytesIO())


async def refuse_lost(path: Path, first: int, last: int) -> None:
    """Whoever reads or goes on with the log is told the numbers."""
    for use in (verified, exported, resumed):
        with pytest.raises(LogDamagedError, match=rf"sequence numbers {first} to {last}:"):
            await use(path)


async def test_log_of_a_killed_process_is_whole(path: Path) -> None:
    report = await verified(path)
    assert report.events == report.anchor_seq == anchored(path)
    assert await resumed(path) == (report.events, "")
    assert (await verified(path)).term == 2


@pytest.mark.parametrize("share", [0.001, 0.07, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.99])
@pytest.mark.parametrize("damage", ["flipped", "zeros", "cut"])
async def test_damage_in_the_write_ahead_log_is_told_with_the_lost_numbers(
    path: Path, share: float, damage: str
) -> None:
    whole, last = content(wal(path)), anchored(path)
    place = int(len(whole) * share)
    put(
        wal(path),
        {
            "flipped": whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :],
            "zeros": whole[:place] + bytes(PAGE) + whole[place + PAGE :],
            "cut": whole[:place],
        }[damage],
    )
    seq = left(path)
    assert seq < last, "the damage shortens the log"
    await refuse_lost(path, seq + 1, last)


async def test_damage_anywhere_is_known_or_harmless(path: Path) -> None:
    """Goal: no damage passes. Method: flip a bit in fifty places and compare what is read."""
    whole, last, report = content(wal(path)), anchored(path), await verified(path)
    put(wal(path), whole)
    lost = 0
    for place in random.Random(11).sample(range(len(whole)), 50):
        put(wal(path), whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
        try:
            assert await verified(path) == report
        except LogError:
            lost += 1
        assert anchored(path) == last
    assert lost > 40


async def test_missing_write_ahead_log_is_told(path: Path) -> None:
    last = anchored(path)
    remove(wal(path))
    seq = left(path)
    assert seq < last, "what is lost was there alone"
    await refuse_lost(path, seq + 1, last)
    assert (left(path), anchored(path)) == (seq, last), "a refusal changes nothing"


async def test_log_that_is_gone_is_not_begun_anew(path: Path) -> None:
    """Not even where the whole log was in the write-ahead log, and the file has no table."""
    last = anchored(path)
    remove(wal(path))
    for remains in (b"", None):
        remove(path) if remains is None else put(path, remains)
        with pytest.raises(LogDamagedError, match=f"sequence numbers 1 to {last}:"):
            await resumed(path)
    assert files_in(path.parent) == ["run.db-shm", "run.db.anchor"]


async def test_anchor_that_is_behind_by_a_commit_is_sound(path: Path) -> None:
    """A process that dies between the two syncs leaves that, and has acknowledged nothing."""
    whole = content(anchor_path(path))
    slots = [whole[:SLOT_BYTES], whole[SLOT_BYTES:]]
    last = anchored(path)
    behind = min(slots, key=lambda slot: int(slot.partition(b'"seq":')[2].partition(b",")[0]))
    put(anchor_path(path), behind * 2)
    assert anchored(path) == last - 7
    report = await verified(path)
    assert (report.events, report.anchor_seq) == (last, last - 7)
    assert await resumed(path) == (last, "")
    assert anchored(path) == last


async def test_torn_write_of_the_anchor_leaves_the_one_before(path: Path) -> None:
    whole, last = content(anchor_path(path)), anchored(path)
    found = set()
    for slot in (0, 1):
        place = slot * SLOT_BYTES
        put(anchor_path(path), whole[:place] + bytes(SLOT_BYTES) + whole[place + SLOT_BYTES :])
        found.add(anchored(path))
        assert (await verified(path)).events == last
    assert found == {last, last - 7}


@pytest.mark.parametrize("held", [b"", b"nothing like it", bytes(2 * SLOT_BYTES)])
async def test_anchor_that_says_nothing_is_told(path: Path, held: bytes) -> None:
    put(anchor_path(path), held)
    for use in (verified, exported, resumed):
        with pytest.raises(LogDamagedError, match=r"anchor .*run\.db\.anchor is damaged"):
            await use(path)


async def test_anchor_of_another_log_is_told(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    async with open_log(str(other), durable=True, frame_events=None) as log:
        log.append(story(3))
    for seq in (3, anchored(path)):
        head = read_anchor(other)
        assert head is not None
        Anchor.at(path, replace(head, seq=seq), None).close()
        for use in (verified, resumed):
            with pytest.raises(LogDamagedError, match=f"disagree at sequence number {seq}"):
                await use(path)


async def test_deleted_anchor_is_told_and_made_anew(path: Path) -> None:
    last = anchored(path)
    remove(anchor_path(path))
    report = await verified(path)
    assert (report.events, report.lacks_anchor) == (last, True)
    async with read_log(str(path)) as reader:
        assert "run.db.anchor, which is not there" in reader.warning
    seq, warning = await resumed(path)
    assert (seq, warning) == (last, reader.warning)
    assert anchored(path) == last
    assert not (await verified(path)).lacks_anchor


async def test_copy_without_write_ahead_log_and_anchor_is_known_for_one(
    path: Path, tmp_path: Path
) -> None:
    """What a backup of the one file gives while a daemon runs: an old log, and it says so."""
    copy = tmp_path / "copy" / "run.db"
    copy.parent.mkdir()
    async with open_log(str(path), durable=True, frame_events=None, resume=True) as log:
        log.append(story(5))
        await log.commit()
        shutil.copy(path, copy)
    async with read_log(str(copy)) as reader:
        assert (await reader.head()).seq < log.seq
        assert "which is not there" in reader.warning


async def test_closed_log_can_do_without_its_anchor(path: Path, tmp_path: Path) -> None:
    """Closed, it is one file again, and that file says where it ended."""
    last, _ = await resumed(path)
    assert files_in(tmp_path) == ["run.db", "run.db.anchor"]
    copy = tmp_path / "copy" / "run.db"
    copy.parent.mkdir()
    shutil.copy(path, copy)
    assert not (await verified(copy)).lacks_anchor
    assert await resumed(copy) == (last, "")
    assert anchored(copy) == last


async def test_older_copy_that_is_put_back_is_told(path: Path, tmp_path: Path) -> None:
    await resumed(path)
    copy = tmp_path / "copy.db"
    shutil.copy(path, copy)
    async with open_log(str(path), durable=True, frame_events=None, resume=True) as log:
        before = log.seq
        log.append(story(5))
    shutil.copy(copy, path)
    assert left(path) == before
    await refuse_lost(path, before + 1, before + 5)
    assert anchored(path) == before + 5, "a refusal changes nothing"


async def test_start_of_a_term_that_is_lost_is_told(path: Path, tmp_path: Path) -> None:
    await resumed(path)
    copy = tmp_path / "copy.db"
    shutil.copy(path, copy)
    await resumed(path)
    shutil.copy(copy, path)
    for use in (verified, resumed):
        with pytest.raises(LogDamagedError, match="lost the start of term 3"):
            await use(path)


async def test_who_moves_the_anchor_away_goes_on_without_what_is_lost(path: Path) -> None:
    whole = content(wal(path))
    put(wal(path), whole[: len(whole) // 2])
    seq = left(path)
    anchor_path(path).rename(path.with_name("away"))
    report = await verified(path)
    assert (report.events, report.lacks_anchor) == (seq, True)
    assert (await resumed(path))[0] == seq
    assert anchored(path) == seq


async def accepting(path: Path, first: int, record: bool = True) -> tuple[int, int]:
    """Go on without the events from a number on; return the first and the last that are lost."""
    resume = WithoutLost(first)
    async with open_log(str(path), durable=True, frame_events=None, resume=resume) as log:
        assert log.lost is not None
        async with read_log(log) as reader:
            assert (await reader.head()).seq == first - 1
        if record:
            log.append([EventsLost(0, *log.lost, last_number=1_000)])
        return log.lost


async def test_accepted_loss_is_recorded_and_the_log_is_whole_from_there(path: Path) -> None:
    last = anchored(path)
    put(wal(path), content(wal(path))[: len(content(wal(path))) // 2])
    seq = left(path)
    assert await accepting(path, seq + 1) == (seq + 1, last)
    report = await verified(path)
    assert (report.events, report.anchor_seq) == (seq + 1, seq + 1)
    async with read_log(str(path)) as reader:
        (recorded,) = await events_of(reader, seq)
    assert recorded == EventsLost(0, seq + 1, last, 1_000)
    async with open_log(str(path), durable=True, frame_events=None, resume=True) as log:
        assert log.lost is None
        with closing(open_past_jobs(log)) as past:
            assert past.last_number == 1_000
    await reindex_log(str(path))
    await verified(path)


async def test_loss_that_was_accepted_and_not_recorded_is_refused_again(path: Path) -> None:
    last = anchored(path)
    put(wal(path), content(wal(path))[: len(content(wal(path))) // 2])
    seq = left(path)
    await accepting(path, seq + 1, record=False)
    await refuse_lost(path, seq + 1, last)
    assert await accepting(path, seq + 1) == (seq + 1, last)


@pytest.mark.parametrize("named", [-1, 1])
async def test_only_the_loss_that_is_named_is_accepted(path: Path, named: int) -> None:
    last = anchored(path)
    put(wal(path), content(wal(path))[: len(content(wal(path))) // 2])
    seq = left(path)
    with pytest.raises(LogDamagedError, match=f"sequence numbers {seq + 1} to {last}:"):
        await accepting(path, seq + 1 + named)
    await refuse_lost(path, seq + 1, last)


async def test_term_after_a_loss_is_later_than_the_lost_one(path: Path, tmp_path: Path) -> None:
    """Servers take orders of no term that is older than one they know."""
    seq, _ = await resumed(path)
    copy = tmp_path / "copy.db"
    shutil.copy(path, copy)
    for _ in range(3):
        await resumed(path)
    shutil.copy(copy, path)
    with pytest.raises(LogDamagedError, match=f"--accept-loss {seq + 1}`"):
        await resumed(path)
    assert await accepting(path, seq + 1) == (seq + 1, seq)
    assert (await verified(path)).term == 6


async def test_log_on_a_medium_that_cannot_be_written_is_held_to_its_anchor(
    path: Path, tmp_path: Path
) -> None:
    await resumed(path)
    last = anchored(path)
    for file in (path, anchor_path(path)):
        file.chmod(0o444)
    assert (await verified(path)).anchor_seq == last
    assert files_in(tmp_path) == ["run.db", "run.db.anchor"]


async def test_export_and_import_carry_events_and_no_anchor(path: Path, tmp_path: Path) -> None:
    async with read_log(str(path)) as reader:
        lines = io.BytesIO()
        await export_jsonl(reader, lines)
        events = await events_of(reader)
    copy = tmp_path / "copy.db"
    async with open_log(str(copy)) as log:
        await import_jsonl(lines.getvalue().splitlines(keepends=True), log)
    report = await verified(copy)
    assert (report.events, report.anchor_seq, report.lacks_anchor) == (len(events), None, False)


async def test_simulations_have_no_anchor(tmp_path: Path) -> None:
    async with open_log(str(tmp_path / "run.db")) as log:
        log.append(story(30))
    assert files_in(tmp_path) == ["run.db"]
    assert not (await verified(tmp_path / "run.db")).lacks_anchor


async def test_log_that_is_overwritten_takes_its_anchor_with_it(path: Path) -> None:
    async with open_log(str(path), overwrite=True) as log:
        log.append(story(2))
    assert not anchor_path(path).exists()
    assert (await verified(path)).events == 2


async def test_anchor_has_the_mode_of_its_log(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    async with open_log(str(path), durable=True, frame_events=None, mode=0o640) as log:
        log.append(story(1))
        await log.commit()
        assert [anchor_path(path).stat().st_mode & 0o777, path.stat().st_mode & 0o777] == [
            0o640
        ] * 2


async def test_anchor_that_cannot_be_written_stops_the_writer(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_log(str(path), durable=True, frame_events=None, resume=True) as log:
        before = log.seq
        monkeypatch.setattr(os, "pwrite", _full)
        log.append(story(1))
        with pytest.raises(LogError, match=r"anchor .*run\.db\.anchor cannot be written"):
            await log.commit()
        with pytest.raises(LogError, match="cannot be written"):
            await log.commit()
    monkeypatch.undo()
    assert (await verified(path)).events == before + 1


def _full(_file: int, _data: bytes, _place: int) -> None:
    raise OSError(28, "No space left on device")
