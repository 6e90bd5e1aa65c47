"""What an answer may say: of one instant, of this job, necessary or sufficient, and in words."""

import asyncio
from typing import Any

import pytest

from shunter.ask import gpu_time_in_words, ordinal_in_words, score_in_words, used_in_words
from shunter.ask.why import document, explain
from shunter.core.planning import PLACEMENTS
from shunter.core.ranking import Aged, Measure, RankedPolicy
from shunter.events import AllocationChanged, Event, JobId, JobSubmitted, RoundPlanned
from shunter.policies import AttainedService, FeedbackQueues
from tests.factories import World, run, servers, trace_job
from tests.replay.recording import Recorded, asked, reading, rebuilt, record

PREEMPTED = World(
    servers=servers(4), jobs=(trace_job(0, 4, lasts=100), trace_job(1, 4, at=30, lasts=4))
)
CROWDED = World(
    servers=servers(4),
    jobs=(
        trace_job(0, 4, lasts=100),
        *(trace_job(number, 4, at=number, lasts=50) for number in range(1, 7)),
    ),
)


def said(recorded: Recorded, job: str, seq: int) -> dict[str, Any]:
    """Return the answer at an event."""

    async def answered() -> dict[str, Any]:
        at_us = recorded.at(seq).at_us
        async with reading(recorded.events) as reader:
            return document(await explain(reader, JobId(job), seq, at_us, recorded.rebuild))

    return asyncio.run(answered())


def played(world: World, chosen: RankedPolicy) -> Recorded:
    return Recorded(run(world, chosen).events, rebuilt(chosen, world.rules(instant=True)))


def test_an_event_within_a_decision_is_told_as_of_its_end() -> None:
    """Of the decision that starts j0 again, only the round is asked for."""
    recorded = record(PREEMPTED, "las")
    starts = [s for s in recorded.seqs(AllocationChanged) if recorded.at(s).job_id == "j0"][-1]
    planned = max(seq for seq in recorded.seqs(RoundPlanned) if seq < starts)

    found = said(recorded, "j0", planned)

    assert (found["at"]["asked_seq"], found["at"]["seq"]) == (planned, starts)
    assert found["phase"] == "running"


def test_the_decision_that_preempts_is_told_whole_from_its_first_event() -> None:
    recorded = record(PREEMPTED, "las")
    left = recorded.seqs(AllocationChanged)[1]

    found = said(recorded, "j0", left - 1)

    assert found["phase"] == "waiting"
    assert [each["id"] for each in found["evidence"]["blockers"]] == ["j1"]


def test_an_event_outside_decisions_is_told_as_it_is() -> None:
    recorded = record(PREEMPTED, "las")
    came = recorded.seqs(JobSubmitted)[1]

    found = said(recorded, "j1", came)

    assert found["at"]["asked_seq"] == found["at"]["seq"] == came
    assert found["would_start_if"] == [
        "nothing changes until the plan at T+00:00:00.00003, which starts it"
    ]
    assert found["needs_at_least"] == []


def test_work_that_nobody_knows_is_counted_as_unknown() -> None:
    recorded = record(CROWDED)
    events: list[Event] = [
        JobSubmitted(event.at_us, event.job_id, event.spec)
        if isinstance(event, JobSubmitted) and event.job_id in ("j1", "j2")
        else event
        for event in recorded.events
    ]

    found = said(Recorded(events, recorded.rebuild), "j6", 12)

    assert found["rank"]["waiting_ahead"]["unknown"] == 2
    assert any("; of 2 of them nobody knows it" in line for line in found["details"])


def test_a_score_says_what_was_used_and_which_queue_that_makes() -> None:
    hour_us = 3_600_000_000

    words = score_in_words([Measure.queue], [2], 20 * hour_us)

    assert words == "has used 20 GPU-hours, so it is in the third queue"


def test_work_that_is_left_is_told_as_at_base_speed() -> None:
    hours_us = 7_200_000_000
    for measure, words in (
        (Measure.remaining_us, "needs 2h 00m more at base speed"),
        (Measure.remaining_gpu_us, "needs 2 GPU-hours more at base speed"),
        (Measure.duration_us, "needs 2h 00m at base speed in all"),
    ):
        assert score_in_words([measure], [hours_us]) == words


def test_use_just_below_a_threshold_does_not_look_as_if_it_were_reached() -> None:
    assert used_in_words(20 * 3_600_000_000 - 1) == "19.99 GPU-hours"
    assert used_in_words(3_599_999_999) == "3,599 GPU-seconds"
    assert used_in_words(3_600_000_000) == "1 GPU-hour"


@pytest.mark.parametrize(
    ("gpu_us", "words"),
    [
        (33_000_120_000, "9.17 GPU-hours"),  # 9.1667
        (32_979_600_000, "9.16 GPU-hours"),  # 9.161
        (3_600_000_000, "1 GPU-hour"),
        (3_617_999_999, "1 GPU-hour"),
        (3_618_000_000, "1.01 GPU-hours"),
        (359_982_000_000, "100 GPU-hours"),  # 99.995
        (1_000_500 * 3_600_000, "1,001 GPU-hours"),
        (1_000_000, "1 GPU-second"),
        (300_000, "0.3 GPU-seconds"),
        (0, "0 GPU-seconds"),
    ],
)
def test_work_that_is_left_is_rounded_to_the_nearest(gpu_us: int, words: str) -> None:
    assert gpu_time_in_words(gpu_us) == words


def test_queues_beyond_the_tenth_are_counted_in_digits() -> None:
    assert [ordinal_in_words(each) for each in (0, 9, 10, 11, 12, 20, 21, 110)] == [
        *("first", "tenth", "11th", "12th", "13th", "21st", "22nd", "111th")
    ]


def test_a_promotion_is_not_said_to_follow_from_use() -> None:
    """Under tiresias a job that waited long is back in the first queue, whatever it has used."""
    chosen = RankedPolicy(FeedbackQueues((20, 60), 1.0), PLACEMENTS["consolidated"]())
    jobs = (trace_job(0, 2, lasts=40), *(trace_job(n, 2, at=10 * n, lasts=15) for n in range(1, 5)))
    recorded = played(World(servers=servers(2), jobs=jobs), chosen)
    promoted = next(
        event
        for event in recorded.events
        if isinstance(event, AllocationChanged)
        and event.allocation.shares
        and event.because.scores[:1] == (0,)
        and event.because.scores[1] > 0
        and event.job_id == "j0"
    )

    found: Any = document(asyncio.run(asked(recorded, "j0", promoted.at_us)))

    used = found["decision"]["scores_in_words"]
    assert used.startswith("was in the first queue since T+00:00:00.0000")
    assert "so it" not in used


def test_an_aged_score_says_how_far_it_has_risen() -> None:
    chosen = RankedPolicy(Aged(AttainedService((20, 60)), 9, 3), PLACEMENTS["consolidated"]())
    recorded = played(CROWDED, chosen)

    found: Any = document(asyncio.run(asked(recorded, "j6", 18)))
    words = found["rank"]["score_in_words"]

    assert (
        words == "has risen 1 level by waiting, has used 0 GPU-seconds, so it is in the first queue"
    )
