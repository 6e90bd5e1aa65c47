"""What is taken for the work of a job that nobody knows: drawn, bounded, and the same again."""

from collections.abc import Collection

import pytest
from hypothesis import given, strategies as st

from shunter.ask import Fitted, ObservedAttempt, ObservedJob, Pace, Slowed
from shunter.ask.forks import UNSEEN_US, Worked, WorkEstimates, resampled
from shunter.core import Job
from shunter.core.speeds import MeasuredRate
from shunter.events import JobId, JobSubmitted, NodeName, Share, UserName
from tests.factories import job_spec

ANA, BO = UserName("ana"), UserName("bo")
SPEC = job_spec(1, user="ana")


SHARES = (Share(NodeName("n1"), 1),)
RUNS = ObservedAttempt(
    1, shares=SHARES, ordered_us=-40, launched_us=-40, seen_us=-40, paces=[Pace(-40, 0.5)]
)
TOLD = ObservedJob(JobSubmitted(0, JobId("j1"), SPEC), seen=[RUNS])
HALF = Slowed({TOLD.job_id: TOLD}, Fitted({}, {}, None, 0))
"""That job has run at half speed for 40 us."""


def begun(done_us: int, **fields: object) -> Job:
    """Return a job that has done some work and runs no more."""
    spec = job_spec(1, user="ana", **fields)
    return Job(JobId("j1"), 0, spec, spec.demand(), 0, work_us=done_us, held_us=done_us)


def total_us(estimates: WorkEstimates, job: Job | None = None) -> int:
    spec = SPEC if job is None else job.spec
    return estimates.work_of(JobId("j1"), spec, job, 0).total_us


@given(
    worked=st.lists(
        st.builds(
            Worked,
            st.sampled_from([ANA, BO]),
            st.integers(1, 2),
            st.integers(0, 99),
            st.sampled_from(["", "bert"]),
            st.booleans(),
            st.just(1),
            st.sampled_from([None, 1, 50, 200]),
        )
    ),
    done_us=st.integers(0, 120),
    seed=st.integers(0, 9),
)
def test_work_is_more_than_was_done_and_one_that_a_job_had_or_more_than_all_had(
    worked: list[Worked], done_us: int, seed: int
) -> None:
    found = total_us(WorkEstimates(worked, seed), begun(done_us))

    whole = {each.work_us for each in worked if each.is_whole}
    longest_us = max((done_us, *(each.work_us for each in worked)))
    assert found > done_us
    assert found in whole or found >= min(longest_us, UNSEEN_US)
    assert found == total_us(WorkEstimates(worked, seed), begun(done_us))


def drawn(worked: list[Worked], job: Job | None = None, seeds: int = 300) -> list[int]:
    """Return what is taken for the work of a job, once for each seed."""
    return [total_us(WorkEstimates(worked, seed), job) for seed in range(seeds)]


def share_of(works: Collection[int], found: list[int]) -> float:
    return sum(each in works for each in found) / len(found)


MINE = [Worked(ANA, 1, 10 + number) for number in range(5)]
OTHERS = [Worked(BO, 1, 500)] * 50


def test_jobs_of_the_same_user_and_size_come_first() -> None:
    """Five of six gaps between five known jobs of a kind end at one of them."""
    found = drawn([*MINE, *OTHERS])

    own = {each.work_us for each in MINE}
    assert set(found) <= own | {each for each in found if each >= 500}
    assert 0.76 < share_of(own, found) < 0.9


def test_job_that_did_more_than_all_of_its_kind_is_like_one_of_a_wider_kind() -> None:
    found = drawn([*MINE, *OTHERS], begun(20))

    assert min(found) == 500
    assert share_of({500}, found) > 0.9


def test_job_that_did_more_than_all_may_have_a_lot_left() -> None:
    """It was taken to have as much again: then nine of ten do not end within P90."""
    worked = [Worked(BO, 1, 2**number) for number in range(12)]

    found = sorted(drawn(worked, begun(3_000), 200))

    assert len({*found}) > 100
    assert found[100] < 9_000 < 15_000 < found[180]


def test_some_job_is_longer_than_all_that_are_known() -> None:
    """One of n + 1 is, where all are alike; so nobody's P90 is the longest of a few."""
    found = drawn(MINE[:4])

    assert 0.1 < share_of({each for each in found if each > 13}, found) < 0.32


def test_jobs_that_are_all_alike_tell_that_none_is_far_longer() -> None:
    alike = [Worked(ANA, 1, 600)] * 40
    unlike = [Worked(ANA, 1, 2**number) for number in range(40)]

    one, other = (
        sorted(us / worked[-1].work_us for us in drawn(worked, begun(worked[-1].work_us), 100))
        for worked in (alike, unlike)
    )

    assert one[90] < 2 < 4 < other[90]


@pytest.mark.parametrize("are_parts", [True, False])
def test_time_limits_tell_the_work_where_works_are_parts_of_them(are_parts: bool) -> None:
    """All work half of their limits, or the same; nobody had so long a limit as this job."""
    worked = [
        Worked(BO, 1, (limit_us // 2 if are_parts else 500) + number, limit_us=limit_us)
        for number, limit_us in enumerate((1_000, 4_000, 9_000, 30_000) * 5)
    ]

    found = sorted(drawn(worked, begun(0, time_limit_us=1_000_000), 100))

    assert found[50] in (range(500_000, 520_000) if are_parts else range(500, 520))
    assert found[-1] <= 1_000_000


def test_jobs_of_the_same_limit_come_before_those_of_others() -> None:
    """Short limits are used less than long ones, and that is told by those of the same limit."""
    short = [Worked(BO, 1, 10 + number, limit_us=1_000) for number in range(40)]
    long = [Worked(BO, 1, 80_000 + number, limit_us=100_000) for number in range(40)]

    found = drawn([*short, *long], begun(0, time_limit_us=100_000))

    assert sum(each >= 80_000 for each in found) > 280


def test_jobs_of_the_same_model_come_before_those_of_the_same_user() -> None:
    same, others = [Worked(ANA, 1, 10, "bert")] * 9, [Worked(ANA, 1, 500, "gpt")] * 50

    assert 0.84 < share_of({10}, drawn([*same, *others], begun(0, model="bert"))) < 0.95


@given(st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=5, max_size=12))
def test_work_that_was_cut_off_weighs_as_kaplan_and_meier_say(cut: list[tuple[int, bool]]) -> None:
    """The share of draws above a work is the product-limit estimate, with one job more at risk.

    Method: the estimate is computed by its own formula, and compared with the exact probability of
    the redistribution, found by following every branch of the draw.
    """
    ordered = sorted(cut, key=lambda each: (each[0], not each[1]))  # whole ones first, in a tie
    left, survival = len(ordered), 1.0
    expected: dict[int, float] = {}
    for work_us, is_whole in ordered:
        if is_whole:
            survival *= 1 - 1 / (left + 1)
        left -= 1
        expected[work_us] = survival

    for work_us, above in expected.items():
        assert abs(_probability_above(ordered, 0, work_us) - above) < 1e-9

    of = [Worked(ANA, 1, work_us, "", is_whole) for work_us, is_whole in cut]
    if sum(is_whole for _, is_whole in cut) >= 5:
        estimates = drawn(of, seeds=400)
        share = sum(us > ordered[0][0] for us in estimates) / len(estimates)
        assert abs(share - expected[ordered[0][0]]) < 0.1


def _probability_above(ordered: list[tuple[int, bool]], first: int, above_us: int) -> float:
    """Return with which probability a draw among the rest is above; beyond all it is."""
    rest = ordered[first:]
    return (
        1.0
        + sum(
            float(work_us > above_us)
            if is_whole
            else _probability_above(ordered, first + place + 1, above_us)
            for place, (work_us, is_whole) in enumerate(rest)
        )
    ) / (len(rest) + 1)


def test_as_many_are_drawn_anew_and_the_same_again() -> None:
    worked = [Worked(ANA, 1, number) for number in range(50)]

    found = resampled(worked, 3)

    assert len(found) == 50
    assert set(found) < set(worked)
    assert found == resampled(worked, 3) != resampled(worked, 4)


def test_time_limit_bounds_the_work() -> None:
    estimates = WorkEstimates([Worked(BO, 1, 5_000)], 3)

    assert total_us(estimates, begun(40, time_limit_us=100)) == 100


def test_steps_that_are_told_leave_nothing_to_draw() -> None:
    job = begun(40, total_steps=100)
    job.measured_rate = MeasuredRate(step=30, batch_us=2, at_us=0)
    estimates = WorkEstimates([Worked(BO, 1, 5_000)], 3)

    assert total_us(estimates, job) == 40 + 70 * 2
    assert not estimates.drawn


def test_what_a_contract_took_is_no_work_that_others_are_held_to() -> None:
    """Of 40 us at half speed 20 are work: a job with 30 did more, and 10 us are left of its 30."""
    estimates = WorkEstimates([Worked(BO, 1, 30)], 3, slowed=HALF)

    assert total_us(estimates, begun(40)) == 40 + 10


def test_steps_are_taken_to_be_as_slow_as_where_the_job_is() -> None:
    job = begun(40, total_steps=100)
    job.measured_rate = MeasuredRate(step=30, batch_us=2, at_us=0)
    estimates = WorkEstimates([], 3, slowed=HALF)

    assert total_us(estimates, job) == 40 + 70 * 2 // 2


def test_other_seeds_draw_otherwise() -> None:
    ended = [Worked(BO, 1, work_us) for work_us in range(100)]

    assert len({*drawn(ended, seeds=20)}) > 5
