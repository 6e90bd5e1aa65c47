"""Values that violate the schema are found: in an event, in a frame, and by `log verify`."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from shunter.errors import LogDamagedError
from shunter.events import CheckpointSaved, JobId, encode_payload, fault_in, fault_of
from shunter.events.log import open_log, read_log
from tests.replay.specimens import specimens


def saved(step: Any, checkpoint: str = "c") -> CheckpointSaved:
    return CheckpointSaved(5, JobId("j1"), 1, checkpoint, step)


def test_every_kind_has_the_types_that_it_is_written_with() -> None:
    assert [fault_of(event) for event in specimens() if fault_of(event)] == []
    assert fault_in(encode_payload(specimens())) is None


@pytest.mark.parametrize("step", ["x", [1], True, 1.5, 10**26, 2**63, {"a": 1}])
def test_value_of_a_wrong_type_is_named(step: Any) -> None:
    assert fault_of(saved(step)).startswith("CheckpointSaved")


def test_text_that_cannot_be_encoded_is_found() -> None:
    assert "surrogates" in fault_of(saved(1, "\ud800"))


@pytest.mark.parametrize(
    ("row", "what"),
    [
        (["CheckpointSaved", 5, "j1", 1, "c", "x"], "CheckpointSaved.step: expected int"),
        (["CheckpointSaved", 5, None, 1, "c"], "CheckpointSaved.job_id: expected str"),
        (["NodeDrained", 5, "j1", "n0"], "NodeDrained.job_id: expected null"),
        (["CheckpointSaved", 5, "j1"], "at least length"),
        (["CheckpointSaved", 5, "j1", 1, "c", 1, 1, [], 1], "at most length"),
        (["Sesame", 5], "invalid value"),
        ([], "at least length"),
        ({}, "expected array"),
    ],
)
def test_row_that_is_wrong_is_named_with_its_number(row: Any, what: str) -> None:
    good = orjson.loads(encode_payload([saved(1)]))[0]
    fault = fault_in(orjson.dumps([good, row]))
    assert fault is not None
    assert what in fault.what
    assert fault.number in (0, 1)


@pytest.mark.parametrize("payload", [b"x", b"7", b"[" * 5000, b"[" * 900 + b"]" * 900])
def test_payload_that_is_no_frame_is_refused(payload: bytes) -> None:
    assert fault_in(payload) is not None


@pytest.mark.asyncio
@pytest.mark.parametrize("step", ["x", [1]])
async def test_verify_names_an_event_that_violates_its_schema(tmp_path: Path, step: Any) -> None:
    """Under a valid chain, as a daemon of an earlier version wrote it."""
    path = str(tmp_path / "log.db")
    async with open_log(path, frame_events=3) as log:
        log.append([saved(1), saved(2), saved(3), saved(4), saved(step), saved(6)])
    async with read_log(path) as reader:
        with pytest.raises(LogDamagedError, match=r"the event 5 .*CheckpointSaved\.step") as found:
            await reader.verify()
        assert found.value.seq == 5
        assert len([event async for event in reader.events()]) == 6, "it can still be read"
