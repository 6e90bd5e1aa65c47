"""A frame knows its bounds and refuses a payload that is not what its row says."""

import pytest

from shunter.errors import LogDamagedError
from shunter.events import JobFinished, JobId, encode_payload
from shunter.events.log import Frame, Snapshot, snapshot_digest
from shunter.events.log.frames import GENESIS, next_chain

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
    assert snapshot_digest(b"ab", b"c") != snapshot_digest(b"a", b"bc")
    Snapshot.of(3, 5, b"state", b"memory").check()
