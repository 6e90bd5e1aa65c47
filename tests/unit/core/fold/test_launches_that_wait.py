"""Attempts that wait in a queue that is not ours: until then nothing counts for them."""

import pytest

from shunter.ask import Verifier
from shunter.core import Scheduler, State
from shunter.core.fold import replay
from shunter.errors import IllegalEventError
from shunter.events import AttemptStarted, decode_record, encode_record, facts
from tests.behaviour.waits_scenes import Row, answer, check, played, row, rows
from tests.factories import job_id, policy

J0 = job_id(0)
JOB = "j0: 2 GPUs, time_limit_us=100; launches take 5000; ending takes 9"
WAITS = f"live, launches_wait=yes; servers 4; {JOB}"
HERE = f"live; servers 4; {JOB}"

TABLE = [
    *rows(f"""
the time limit counts from the start that was observed
    {WAITS}; j0 has started at 1000, seen at 1000; until 1200
    => j0, log: 0: submitted, gets n0[0,1]; 1000: attempt 1 starts; 1100: over its limit;
       1109: exits with 143, failed (timeout)
elsewhere it counts from the launch
    {HERE}; until 120
    => j0, then: 100: over its limit; 109: exits with 143, failed (timeout)
a start that was seen late counts from when it was
    {WAITS}; j0 has started at 990, seen at 1000; until 1200
    => j0, log: 0: submitted, gets n0[0,1]; 1000: attempt 1 starts; 1090: over its limit;
       1099: exits with 143, failed (timeout)
a limit that was over by then ends the job at once
    {WAITS}; j0 has started at 500, seen at 1000; until 1200
    => j0, log: 0: submitted, gets n0[0,1]; 1000: attempt 1 starts, over its limit;
       1009: exits with 143, failed (timeout)
an attempt that never starts goes back into the queue
    {WAITS}; j0 is not launched at 1000
    => j0, log: 0: submitted, gets n0[0,1]; 1000: launch 1 fails, waits
and so does one that is displaced before it starts
    {WAITS}; leaving takes 9; strangers take n0[0-3] at 1000
    => j0, log: 0: submitted, gets n0[0,1]; 1000: displaced
"""),
    row(
        "it holds nothing while it waits in a queue that is not ours",
        f"{WAITS}; j0 has started at 1000, seen at 1000; until 1050",
        "j0 at 900",
        timeline=[("wait", 0, 0), ("launch", 0, None)],
    ),
    row(
        "and holds its GPUs once it has started",
        f"{WAITS}; j0 has started at 1000, seen at 1000; until 1050",
        "j0",
        timeline=[("wait", 0, 0), ("launch", 0, 1000), ("run", 1000, None)],
    ),
    row(
        "if it never starts it has held nothing",
        f"{WAITS}; j0 is not launched at 1000; until 1050",
        "j0",
        timeline=[("launch", 0, 1000), ("wait", 1000, None)],
    ),
]


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_launches_wait_as_the_row_says(case: Row) -> None:
    check(case)


@pytest.mark.parametrize(
    ("scene", "now_us", "service_us", "occupied_us"),
    [
        (f"{WAITS}; j0 has started at 1000, seen at 1000", 1010, 20, 10),
        (f"{WAITS}; j0 has started at 990, seen at 1000", 1010, 40, 20),
        (f"{WAITS}; j0 has started at 0, seen at 10", 10, 20, 10),  # none is before its launch
        (f"{HERE}; j0 has started at 20, seen at 50", 60, 120, 60),
        (f"{WAITS}; j0 is not launched at 1000", 1010, 0, 0),
        (f"{WAITS}; leaving takes 9; strangers take n0[0-3] at 1000; until 1000", 1000, 0, 0),
    ],
    ids=["at once", "late", "by another clock", "as it does not wait", "never", "displaced"],
)
def test_service_counts_from_the_start(
    scene: str, now_us: int, service_us: int, occupied_us: int
) -> None:
    job = replay(played(scene).events).jobs[J0]
    assert (job.service_us(now_us), job.occupied_us(now_us)) == (service_us, occupied_us)
    totals = answer(scene, J0, now_us).said["totals"]
    assert (totals["held_s"], totals["wait_s"]) == (occupied_us / 1e6, (now_us - occupied_us) / 1e6)


def test_where_launches_do_not_wait_the_start_is_when_it_is_seen() -> None:
    events = played(f"{HERE}; j0 has started at 20, seen at 50").events
    (started,) = [event for event in events if isinstance(event, AttemptStarted)]
    assert started.started_us is None
    assert replay(events).jobs[J0].working_since_us == 50


def test_a_start_after_it_was_seen_is_illegal() -> None:
    with pytest.raises(IllegalEventError, match="expected before"):
        played(f"{WAITS}; j0 has started at 1001, seen at 1000")


@pytest.mark.parametrize(
    ("more", "now_us", "limits"),
    [("; j0 has started at 1000, seen at 1000", 1100, [1100]), ("; until 400", 500, [])],
    ids=["after the start", "before it"],
)
def test_a_daemon_that_comes_back_goes_on_counting(
    more: str, now_us: int, limits: list[int]
) -> None:
    recorded = played(WAITS + more)
    state = decode_record(State, encode_record(replay(recorded.events)))
    _, rules = recorded.rebuild(recorded.events[0])  # type: ignore[arg-type]  # a log begins so
    told, _ = Scheduler(policy(), rules, state).step(now_us, [])
    assert [one.at_us for one in told if isinstance(one, facts.TimeLimitReached)] == limits


def test_log_with_starts_that_were_seen_late_verifies() -> None:
    """The one whose limit was over by then ends with the step in which that was seen."""
    second = "j1: 2 GPUs, time_limit_us=100; j1 has started at 950, seen at 1000"
    recorded = played(f"{WAITS}; {second}; j0 has started at 500, seen at 1000; until 1050")
    limits = [one.at_us for one in recorded.events if isinstance(one, facts.TimeLimitReached)]
    assert limits == [1000, 1050]
    assert Verifier(recorded.rebuild).take(recorded.events) is None
