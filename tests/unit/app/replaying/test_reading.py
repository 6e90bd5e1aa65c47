"""Small parts: instants, words, places in a log, counting, folding, and traces from logs."""

import asyncio
import re
import time

import pytest
from hypothesis import given, strategies as st

from shunter.ask import (
    LogStatistics,
    allocation_in_words,
    because_in_words,
    clock,
    demand_in_words,
    fold_events,
    fold_log,
    instant_us,
    log_statistics,
    observed_trace,
    place_of,
    seq_of,
    span,
    span_up,
    state_at,
    state_document,
)
from shunter.core import State, state_digest
from shunter.errors import IllegalEventError, LogDamagedError, TraceError, UsageError
from shunter.events import (
    Because,
    Demand,
    GpuType,
    JobId,
    Level,
    QueueName,
    RoundPlanned,
    encode_record,
)
from shunter.events.log import Snapshot, open_log, read_log
from tests.factories import World, allocation, job_finished, servers, trace_job
from tests.replay.recording import reading, record

RUN = record(
    World(
        servers=servers(4),
        jobs=(trace_job(0, 4, lasts=100), trace_job(1, 4, at=30, lasts=4), trace_job(2, 9, at=50)),
    ),
    "las",
)


def at(text: str | None, origin: str | None = None, now_us: int | None = None) -> tuple[int, int]:
    async def found() -> tuple[int, int]:
        async with reading(RUN.events, 3) as reader:
            return await place_of(reader, text, origin, now_us)

    return asyncio.run(found())


ORIGIN = "2017-10-03T00:00:00+00:00"


@pytest.mark.parametrize(
    ("at_us", "text"),
    [
        (0, "T+00:00:00"),
        (11_560_000_000, "T+03:12:40"),
        (360_000_250_000, "T+100:00:00.25"),
        (1, "T+00:00:00.000001"),
    ],
)
def test_instants_are_written_and_read_back(at_us: int, text: str) -> None:
    assert clock(at_us) == text
    assert instant_us(text, None) == at_us


@pytest.mark.parametrize(
    ("text", "origin", "seconds"),
    [
        *(("90s", None, 90), ("1.5s", None, 1.5), ("90", None, 90), ("1m", None, 60)),
        *(("1.5h", None, 5400), ("2d", None, 172_800), ("T+00:01:00", None, 60)),
        ("2017-10-03T02:00:01+02:00", ORIGIN, 1),
    ],
)
def test_time_since_the_log_began_is_an_instant(
    text: str, origin: str | None, seconds: float
) -> None:
    """And dates count from the origin."""
    assert instant_us(text, origin) == seconds * 1_000_000


@pytest.mark.parametrize(
    ("text", "origin", "words"),
    [
        *((text, None, "no instant") for text in ("soon", "T+1:2", "2017-13-40")),
        ("2017-10-03T02:00:01", None, "names no origin"),
    ],
)
def test_what_is_no_instant_is_refused(text: str, origin: str | None, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        instant_us(text, origin)


def test_event_of_an_instant_is_the_last_one_up_to_it() -> None:
    instants = sorted({event.at_us for event in RUN.events})
    wanted = [near for at_us in instants for near in (at_us, at_us + 1) if near <= instants[-1]]
    for at_us in wanted:
        seq, _ = at(clock(at_us))
        assert seq == sum(event.at_us <= at_us for event in RUN.events)


def test_nothing_is_known_of_an_instant_after_the_last_event_unless_it_has_come() -> None:
    last_us = RUN.events[-1].at_us
    with pytest.raises(UsageError, match=f"the log ends at {re.escape(clock(last_us))}"):
        at(clock(last_us + 1))
    seq, at_us = at(clock(last_us + 1), now_us=last_us + 5)
    assert (seq, at_us) == (len(RUN.events), last_us + 1)
    with pytest.raises(UsageError, match=f"it is {re.escape(clock(last_us + 5))}"):
        at(clock(last_us + 6), now_us=last_us + 5)
    assert at(None, now_us=last_us + 5) == (len(RUN.events), last_us + 5)


def test_date_without_offset_is_of_the_time_zone_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        assert instant_us("2017-10-03 05:30:01", "2017-10-03T00:00:00+00:00") == 1_000_000
        assert instant_us("2017-10-03 00:00:01", "2017-10-03T00:00:00") == 1_000_000
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("us", "down", "up"),
    [
        (8_700_000, "8.7s", "8.7s"),
        (40_000_000, "40s", "40s"),
        (125_000_000, "2m 05s", "2m 05s"),
        (7_500_000_000, "2h 05m", "2h 05m"),
        (270_000_000_000, "3d 3h", "3d 3h"),
        (101_700_000, "1m 41s", "1m 42s"),
        (101_000_000, "1m 41s", "1m 41s"),
        (12_345_678, "12.3s", "12.4s"),
        (3_599_500_000, "59m 59s", "1h 00m"),
        (5_430_000_000, "1h 30m", "1h 31m"),
        (0, "0s", "0s"),
    ],
)
def test_durations_have_two_units_and_are_cut_or_rounded_up(us: int, down: str, up: str) -> None:
    assert (span(us), span_up(us)) == (down, up)


@given(st.integers(0, 10**13))
def test_what_is_rounded_up_is_never_less(us: int) -> None:
    units_us = {"d": 86_400_000_000, "h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000}
    told = sum(float(part[:-1]) * units_us[part[-1]] for part in span_up(us).split())
    assert told >= us - 1e-3


DEMAND = Demand(4, QueueName("q"), 8000, 100, (GpuType("v100"),), Level.server, ((2, 2),))


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (allocation_in_words(allocation(n0=0b10111, n1=0b1)), "n0[0-2,4] n1[0]"),
        (allocation_in_words(allocation(n0=0)), "n0"),
        (allocation_in_words(allocation(n0=1, n1=1, n2=1), 1), "n0[0] and 2 more"),
        (
            because_in_words(Because("outranked", (2, 0.5), (JobId("j1"),))),
            "outranked (2, 0.5), for j1",
        ),
        (
            demand_in_words(DEMAND),
            "4 GPUs, of type v100, 8 CPUs, 100 MB, within one server, as 2+2, in queue q",
        ),
    ],
)
def test_places_rules_and_classes_have_words(told: str, words: str) -> None:
    assert told == words


@pytest.mark.parametrize("text", ["7", "e7", "e0,007"])
def test_an_event_is_written_with_or_without_its_letter(text: str) -> None:
    assert seq_of(text, 10) == 7


def test_an_event_beyond_the_last_is_refused() -> None:
    with pytest.raises(UsageError, match="no event 11: the last one is 10"):
        seq_of("e11", 10)


def test_a_place_is_the_end_an_event_or_an_instant() -> None:
    last = len(RUN.events)
    assert at(None) == (last, RUN.events[-1].at_us)
    assert at("e4") == (4, RUN.at(4).at_us)
    seq, at_us = at("T+00:00:00.00003")
    assert (RUN.at(seq).at_us, RUN.at(seq + 1).at_us > 30, at_us) == (30, True, 30)


def test_statistics_count_every_event_once() -> None:
    async def counted() -> LogStatistics:
        async with reading(RUN.events, 3) as reader:
            return await log_statistics(reader)

    found = asyncio.run(counted())

    assert sum(found["kinds"].values()) == found["events"] == len(RUN.events)
    assert found["kinds"]["RoundPlanned"] == len(RUN.seqs(RoundPlanned))
    assert found["frames"] == -(-len(RUN.events) // 3)


def test_standing_counts_every_job_once() -> None:
    for seq in range(len(RUN.events) + 1):
        state = State()
        fold_events(state, RUN.events[:seq])
        jobs = state_document(state)["jobs"]
        assert sum(jobs.values()) == 2 * jobs["submitted"]


def test_the_digest_is_that_of_the_state_alone() -> None:
    one, other = State(), State()
    fold_events(one, RUN.events)
    fold_events(other, RUN.events[:-1])

    assert state_digest(one) == state_document(one)["state_digest"]
    assert state_digest(one) != state_digest(other)


def test_an_event_that_does_not_fit_names_its_number() -> None:
    with pytest.raises(IllegalEventError, match="the event 4 does not fit"):
        fold_events(State(), [*RUN.events[:3], job_finished("nobody")])


def test_time_never_goes_back() -> None:
    later = next(seq for seq, event in enumerate(RUN.events, 1) if event.at_us > 0)
    events = [*RUN.events[:later], RUN.events[0]]

    with pytest.raises(IllegalEventError, match=rf"event {later + 1} .* happened at 0 us, after"):
        fold_events(State(), events)


def folded_with(snapshot_seq: int, spoil: bytes = b"") -> int:
    """Fold the run with a snapshot in it; return how many agreed."""

    async def folded() -> int:
        state = State()
        fold_events(state, RUN.events[:snapshot_seq])
        encoded = encode_record(state) + spoil
        async with open_log("memory:", frame_events=3) as log:
            log.append(RUN.events)
            await log.save_snapshot(Snapshot.of(snapshot_seq, state.now_us, encoded, b""))
        async with read_log(log) as reader:
            by_snapshot = await state_at(reader, len(RUN.events))
            found = await fold_log(reader)
            assert state_digest(by_snapshot) == state_digest(found.state)
            return found.snapshots

    return asyncio.run(folded())


@pytest.mark.parametrize("seq", [1, 2, 3, 4, len(RUN.events)])
def test_a_snapshot_anywhere_is_compared(seq: int) -> None:
    assert folded_with(seq) == 1


def test_a_snapshot_that_tells_another_story_is_damage() -> None:
    with pytest.raises(LogDamagedError, match="snapshot at sequence number 4 is not the state"):
        folded_with(4, b" ")


def test_a_log_becomes_a_trace_again() -> None:
    async def observed() -> tuple[list[tuple[str, int, int]], int]:
        async with reading(RUN.events) as reader:
            trace, others = await observed_trace(reader)
            return [(job.job_id, job.submit_us, job.duration_us) for job in trace.jobs], others

    assert asyncio.run(observed()) == ([("j0", 0, 100), ("j1", 30, 4)], 1)


def test_a_log_in_which_nothing_ran_is_no_trace() -> None:
    async def observed() -> None:
        async with reading(RUN.events[:2]) as reader:
            await observed_trace(reader)

    with pytest.raises(TraceError, match="nothing to export"):
        asyncio.run(observed())
