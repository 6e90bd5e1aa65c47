"""A frame knows its bounds and refuses a payload that is not what its row says."""

from dataclasses import replace
from typing import Any

import pytest

from shunter.errors import LogDamagedError
from shunter.events import JobFinished, JobId, encode_payload
from shunter.events.log import GENESIS, Frame, Snapshot, next_chain

EVENTS = [JobFinished(place, JobId(f"{place}")) for place in range(5)]
PAYLOAD = encode_payload(EVENTS)


def frame(*, count: int = 5, at_us: int = 0, payload: bytes = PAYLOAD) -> Frame:
    return Frame(11, count, at_us, 1, next_chain(GENESIS, payload), payload)


@pytest.mark.parametrize(
    ("after", "to", "expected"),
    [(0, None, EVENTS), (10, 15, EVENTS), (12, None, EVENTS[2:]), (12, 13, EVENTS[2:3])],
)
def test_frame_cuts_its_events(after: int, to: int | None, expected: list[JobFinished]) -> None:
    assert frame().last_seq == 15
    assert frame().events(after, to) == expected


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        (frame(count=4), "holds 5 events where its row says 4"),
        (frame(at_us=7), "begins at 0 us, its row says 7"),
        (frame(payload=PAYLOAD[:-1]), "not JSON"),
    ],
)
def test_frame_that_is_not_what_its_row_says_is_refused(damaged: Frame, message: str) -> None:
    with pytest.raises(LogDamagedError, match=message) as caught:
        damaged.events()
    assert caught.value.seq == 11


def test_snapshot_digest_tells_state_and_memory_apart() -> None:
    assert Snapshot.of(3, 5, b"ab", b"c").digest != Snapshot.of(3, 5, b"a", b"bc").digest
    Snapshot.of(3, 5, b"state", b"memory").check()


@pytest.mark.parametrize("change", [{"seq": 4}, {"at_us": 6}, {"ended": 1}, {"memory": b"x"}])
def test_snapshot_digest_is_over_all_of_it(change: dict[str, Any]) -> None:
    with pytest.raises(LogDamagedError, match="does not match its digest"):
        replace(Snapshot.of(3, 5, b"state", b"memory"), **change).check()


@pytest.mark.parametrize("change", [{"seq": 4}, {"at_us": 6}, {"state": b"[3,5,8]"}])
def test_old_snapshot_is_held_to_the_place_that_its_state_names(change: dict[str, Any]) -> None:
    """The digest of version 1 is over state and memory alone."""
    digest = "163e83527c213ade7a24a9d295c5792f470763fabb178c45fe5251d8779f6990"
    old = Snapshot(3, 5, b"[3,5,7]", b"memory", digest)
    old.check()
    with pytest.raises(LogDamagedError, match="does not match its digest"):
        replace(old, **change).check()
