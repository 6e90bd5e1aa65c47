"""What an attempt's records become, across terms and boots."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from shunter.backends.live import Inbox, Reading, Standing, Told, Watch
from shunter.backends.node import Known, Watched, boot_id
from shunter.core import AttemptExited, Input
from shunter.events import (
    AttemptLost,
    AttemptStarted,
    CheckpointSaved,
    JobId,
    LaunchFailed,
    SuspendAcknowledged,
)
from tests.unit.backends.node.orders import started_of, status_of

AT_US = 77
NOTES = [
    {"what": "requested", "mode": "cooperative", "at_ns": 1},
    {"what": "acknowledged", "at_ns": 2},
    {"what": "dropped", "file": "stdout.0", "bytes": 9, "at_ns": 3},
    {"what": "saved", "checkpoint": "c", "step": 4, "bytes": 5, "at_ns": 4},
]


def put(folder: Path, **records: Any) -> None:
    for name, record in records.items():
        (folder / name).write_text(json.dumps(record))


def told(folder: Path, watch: Watch, inbox: Inbox, noted: int = 0) -> list[Input]:
    """Return what the records of a folder become, of which a term has told some facts."""
    watched, reading = Watched(str(folder)), Reading(told=noted)
    probed, _ = watched.look()
    told = {**probed, **watched.journal(with_notes=True), "job": "j0", "attempt": 1}
    known = Known.decoded(told)
    notes = [Told(note, (), reading.was_told(note)) for note in reading.take(known)]
    standing = Standing(known.state, known.started, known.status, known.is_all)
    return [stamped(AT_US) for stamped in watch.tell(standing, notes, inbox)]


@pytest.fixture
def watch() -> Watch:
    return Watch(JobId("j0"), 1)


def test_end_before_a_boot_of_the_machine_has_the_instant_of_its_seeing(
    tmp_path: Path, watch: Watch
) -> None:
    put(tmp_path, started=started_of(boot="another boot"), status=status_of(code=3, ended_ns=5))
    assert told(tmp_path, watch, Inbox(start_us=50))[-1] == AttemptExited(
        AT_US, JobId("j0"), 1, 3, released=True, ended_us=AT_US
    )


def test_end_of_this_boot_has_its_own_instant(tmp_path: Path, watch: Watch) -> None:
    inbox = Inbox(start_us=50)
    put(
        tmp_path,
        started=started_of(boot=boot_id()),
        status=status_of(ended_ns=inbox._begun_ns + 60_000),
    )
    exited = told(tmp_path, watch, inbox)[-1]
    assert isinstance(exited, AttemptExited)
    assert exited.ended_us == 60


@pytest.mark.parametrize(
    ("boot", "at_us", "started_us"),
    [(boot_id(), 60, 60), (boot_id(), 90, None), ("other", 60, None)],
)
def test_start_of_this_boot_has_its_own_instant(
    tmp_path: Path, watch: Watch, boot: str, at_us: int, started_us: int | None
) -> None:
    """If it was seen later, that is."""
    inbox = Inbox(start_us=50)
    put(tmp_path, started=started_of(boot=boot, started_ns=inbox._begun_ns + at_us * 1000))
    began = told(tmp_path, watch, inbox)[0]
    assert isinstance(began, AttemptStarted)
    assert (began.at_us, began.started_us) == (AT_US, started_us)


def test_attempt_that_a_boot_cut_short_is_lost_once(tmp_path: Path, watch: Watch) -> None:
    put(tmp_path, started=started_of(boot="another boot"))
    assert [type(seen) for seen in told(tmp_path, watch, Inbox())] == [AttemptStarted, AttemptLost]
    assert told(tmp_path, watch, Inbox()) == []


def test_attempt_without_a_trace_never_began(tmp_path: Path, watch: Watch) -> None:
    assert [type(seen) for seen in told(tmp_path, watch, Inbox())] == [LaunchFailed]


def test_only_notes_that_become_facts_count_as_told(tmp_path: Path) -> None:
    put(tmp_path, started=started_of(boot=boot_id()))
    (tmp_path / "journal").write_text("".join(json.dumps(note) + "\n" for note in NOTES))
    kinds = []
    for noted in (0, 1, 2):
        watch = Watch(JobId("j0"), 1, told_start=True)
        kinds.append([type(seen) for seen in told(tmp_path, watch, Inbox(), noted)[:-1]])
    assert kinds == [[SuspendAcknowledged, CheckpointSaved], [CheckpointSaved], []]


def test_there_is_news_when_a_record_or_a_note_appears(tmp_path: Path) -> None:
    put(tmp_path, started=started_of(boot=boot_id()))
    (tmp_path / "journal").write_text(json.dumps(NOTES[0]) + "\n")
    watched = Watched(str(tmp_path))
    assert watched.may_have_news()
    watched.end = os.open("/dev/null", os.O_RDONLY)  # as if its supervisor's end were awaited
    watched.look()
    assert not watched.may_have_news()
    with (tmp_path / "journal").open("a") as file:
        file.write(json.dumps(NOTES[1]) + "\n")
    assert watched.may_have_news()
    os.close(watched.end)


def test_without_a_pidfd_every_look_may_bring_news(tmp_path: Path) -> None:
    watched = Watched(str(tmp_path))
    watched.look()
    assert watched.may_have_news()
