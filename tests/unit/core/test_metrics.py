"""Measures of a run, against the standard library and against what is worked out by hand."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, quantiles

import pytest
from hypothesis import given, strategies as st

from shunter.backends.simulated import Costs
from shunter.core import (
    NO_GUARDS,
    Distribution,
    JobLedger,
    JobResult,
    State,
    View,
    distribution,
    distribution_of,
    finish_time_fairness,
    percentile,
    size_class,
)
from shunter.core.fold import apply
from shunter.events import Event, Reason, facts
from tests.factories import (
    World,
    attempt_started,
    granted,
    job_finished,
    job_id,
    job_submitted,
    node_added,
    node_name,
    policy,
    revoked,
    run,
    servers,
    trace_job,
)

N0 = node_name(0)
samples = st.lists(st.integers(0, 10**12), min_size=2, max_size=60)


@given(sample=samples, q=st.integers(1, 99))
def test_percentile_is_that_of_the_standard_library(sample: list[int], q: int) -> None:
    expected = quantiles(sample, n=100, method="inclusive")[q - 1]
    assert percentile(sorted(sample), q) == pytest.approx(expected, rel=1e-12)


def test_percentiles_of_one_value_are_that_value() -> None:
    assert distribution([3_000_000]) == Distribution(3.0, 3.0, 3.0, 3.0, 3.0, 3.0)


def test_distribution_of_nothing_is_nothing() -> None:
    assert distribution([]) == Distribution(None, None, None, None, None, None)


@given(sample=samples)
def test_distribution_is_in_seconds_and_in_order(sample: list[int]) -> None:
    found = distribution(sample)
    values = (found.p50, found.p90, found.p95, found.p99, found.max)
    assert found.mean == pytest.approx(fmean(sample) / 1e6)
    assert found.max == max(sample) / 1e6
    assert all(
        low is not None and high is not None and low <= high * (1 + 1e-12)
        for low, high in pairwise(values)
    )


def test_percentile_lies_between_the_two_nearest() -> None:
    assert distribution_of([10, 20, 30, 40, 50]).p90 == 46.0
    assert percentile([10, 20, 30, 40, 50], 50) == 30.0


@pytest.mark.parametrize(
    ("gpus", "name"),
    [
        (0, "cpu"),
        (1, "1"),
        (2, "2-4"),
        (4, "2-4"),
        (5, "5-8"),
        (8, "5-8"),
        (9, "9-16"),
        (17, "17+"),
    ],
)
def test_size_class_names_its_bounds(gpus: int, name: str) -> None:
    assert size_class(gpus) == name


def unheard(event: Event, view: View) -> None:
    """Hear what the ledger does not want to hear of."""


def ledger_of(*events: Event) -> tuple[JobLedger, State]:
    """Fold events with a ledger beside them."""
    state, ledger = State(), JobLedger()
    view = View(state, NO_GUARDS, oracle=False, all_reasons=False)
    told = ledger.observers()
    view.open()
    for event in events:
        view.now_us, view.result = event.at_us, apply(state, event)
        told.get(type(event), unheard)(event, view)
    return ledger, state


LIFE = (
    node_added(0, 4),
    job_submitted(0, 2, at=10, user="ann"),
    granted(0, 15, n0=0b11),
    attempt_started(0, 17),
    revoked(0, 25),
    facts.JobSuspended(25, job_id(0), 1),
    facts.GpusReleased(30, job_id(0), 1),
    granted(0, 50, n0=0b11),
    attempt_started(0, 50, 2),
)


def test_story_of_a_job_is_what_happened_to_it() -> None:
    ledger, _ = ledger_of(*LIFE, job_finished(0, 70))
    result = JobResult(job_id(0), "ann", 2, 10, 15, 70, 35, 70, 1, 0, "finished", 0)
    assert ledger.results() == [result]
    assert (result.jct_us, result.wait_us) == (60, 25)


def test_end_seen_late_ends_the_job_when_its_processes_did() -> None:
    """What is held between end and seeing counts as used, but neither as JCT nor as held."""
    ledger, state = ledger_of(*LIFE, job_finished(0, 80, ended=70))
    [result] = ledger.results()
    assert (result.end_us, result.jct_us, result.held_us, result.wait_us) == (70, 60, 35, 25)
    assert result.service_gpu_us == 90
    assert ledger.last_end_us == 70
    assert ledger.utilisation(state) == 90 / (4 * 80)


def test_gpus_that_are_still_held_after_the_end_count_until_they_are_free() -> None:
    ended = (facts.AttemptEnded(70, job_id(0), 2, 0), facts.GpusReleased(74, job_id(0), 2))
    ledger, _ = ledger_of(*LIFE, *ended, job_finished(0, 74))
    [result] = ledger.results()
    assert (result.end_us, result.held_us, result.service_gpu_us) == (74, 39, 78)


@pytest.mark.parametrize(
    ("end", "status", "end_us"),
    [
        (facts.JobFailed(70, job_id(0), "exit"), "failed", 70),
        (facts.JobFailed(70, job_id(0), "timeout"), "timeout", 70),
        (facts.JobCancelled(70, job_id(0)), "cancelled", 70),
        (facts.JobRejected(70, job_id(0), Reason.infeasible), "rejected", None),
    ],
)
def test_status_says_how_a_job_ended(end: Event, status: str, end_us: int | None) -> None:
    ledger, _ = ledger_of(*LIFE, end)
    [result] = ledger.results()
    assert (result.status, result.end_us) == (status, end_us)
    assert ledger.last_end_us == (end_us or 0)


def test_job_that_never_started_has_no_start_and_waits_all_its_life() -> None:
    ledger, _ = ledger_of(node_added(), job_submitted(0, at=5), facts.JobCancelled(9, job_id(0)))
    [result] = ledger.results()
    assert (result.first_start_us, result.wait_us, result.jct_us) == (None, 4, 4)


def test_unfinished_job_is_told_as_far_as_it_came() -> None:
    ledger, state = ledger_of(*LIFE, job_submitted(1, at=60))
    first, second = ledger.unfinished(state)
    assert (first.held_us, first.service_gpu_us, first.status) == (25, 50, "unfinished")
    assert (first.jct_us, first.wait_us, first.end_us) == (None, None, None)
    assert (second.first_start_us, second.held_us, second.ordinal) == (None, 0, 1)


@pytest.mark.parametrize(("gpus", "migrations"), [(0b11, 0), (0b110, 1), (0b1100, 1)])
def test_job_that_comes_back_on_other_gpus_has_migrated(gpus: int, migrations: int) -> None:
    back = (granted(0, 50, n0=gpus), attempt_started(0, 50, 2))
    ledger, state = ledger_of(*LIFE[:7], *back)
    [so_far] = ledger.unfinished(state)
    assert (so_far.preemptions, so_far.migrations) == (1, migrations)
    ledger, _ = ledger_of(*LIFE[:7], *back, job_finished(0, 70))
    assert [result.migrations for result in ledger.results()] == [migrations]


def test_job_that_takes_the_gpus_of_one_that_ends_has_migrated() -> None:
    """Goal: attempts that begin with the end of another job are seen too."""
    other = (job_submitted(1, 2, at=30), granted(1, 31, n0=0b1100), attempt_started(1, 31))
    leaves = (revoked(1, 40), granted(0, 41, n0=0b1100))
    ledger, state = ledger_of(*LIFE[:7], *other, *leaves, facts.JobCancelled(45, job_id(1)))
    [so_far] = ledger.unfinished(state)
    assert (so_far.migrations, so_far.service_gpu_us) == (1, 30)


PAIR = (granted(0, 10, n0=0b11, instant=True),)
END = job_finished(0, 50)
FULL = (granted(0, 0, n0=0b1111, instant=True), granted(1, 0, n1=0b11, instant=True))
DRAINED = (*FULL, facts.NodeDrained(10, N0), job_finished(0, 30))


@pytest.mark.parametrize(
    ("events", "utilisation"),
    [
        ((*PAIR, facts.NodeDrained(20, N0), END), 80 / (4 * 20 + 2 * 30)),
        ((*PAIR, facts.NodeUnreachable(20, N0), END), 80 / (4 * 20 + 2 * 30)),
        ((*PAIR, facts.NodeLost(20, N0), END), 80 / (4 * 20 + 2 * 30)),
        ((*PAIR, facts.GpuQuarantined(20, N0, 3), END), 80 / (4 * 20 + 3 * 30)),
        ((*PAIR, facts.GpuQuarantined(20, N0, 0), END), 80 / (4 * 50)),
        ((*PAIR, node_added(2, 8, at=20), END), 80 / (4 * 50 + 8 * 30)),
        (
            (*PAIR, facts.NodeLost(20, N0), facts.NodeReachable(30, N0), END),
            80 / (4 * 40 + 2 * 10),
        ),
        ((*PAIR, END, facts.NodeDrained(90, N0), node_added(2, 8, at=95)), 80 / (4 * 50)),
    ],
    ids=["drained", "silent", "lost", "bad", "bad and held", "joins", "back", "after the end"],
)
def test_utilisation_is_of_the_gpus_that_were_up_or_held(
    events: Sequence[Event], utilisation: float
) -> None:
    ledger, state = ledger_of(node_added(0, 4), job_submitted(0, 2), *events)
    assert ledger.utilisation(state) == utilisation


@pytest.mark.parametrize("events", [DRAINED, (*DRAINED, job_finished(1, 50))], ids=len)
def test_gpus_of_a_drained_server_count_until_their_jobs_leave(events: Sequence[Event]) -> None:
    before = (node_added(0, 4), node_added(1, 2), job_submitted(0, 4), job_submitted(1, 2))
    ledger, state = ledger_of(*before, *events)
    assert ledger.utilisation(state) == 1.0


def test_utilisation_counts_unfinished_jobs_up_to_the_last_end() -> None:
    jobs = (node_added(0, 4), job_submitted(0, 2), job_submitted(1, 1), job_submitted(2, 1))
    starts: list[Event] = [
        granted(0, 0, n0=0b11, instant=True),
        granted(1, 10, n0=0b100, instant=True),
    ]
    ends: list[Event] = [job_finished(0, 20), granted(2, 30, n0=1, instant=True)]
    ledger, state = ledger_of(*jobs, *starts, *ends)
    assert ledger.utilisation(state) == (2 * 20 + 1 * 10) / (4 * 20)


def test_utilisation_of_no_capacity_is_none() -> None:
    assert JobLedger().utilisation(State()) is None


def test_ledger_of_a_run_agrees_with_its_arithmetic() -> None:
    """Two jobs of 4 GPUs one after the other, each with 2 us to start and 10 us of work."""
    ledger = JobLedger()
    world = World(
        servers=servers(4),
        jobs=(trace_job(0, 4, lasts=10), trace_job(1, 4, at=5, lasts=10)),
        costs=Costs(start_us=2),
    )
    outcome = run(world, policy("fifo"), listeners=[ledger.observers()])
    assert [(r.jct_us, r.wait_us, r.held_us) for r in ledger.results()] == [
        (12, 0, 12),
        (19, 7, 12),
    ]
    assert ledger.utilisation(outcome.state) == 1.0


def test_fairness_is_jct_over_run_time_alone_of_finished_jobs() -> None:
    ledger, _ = ledger_of(
        *LIFE, job_finished(0, 70), job_submitted(1, at=70), facts.JobCancelled(75, job_id(1))
    )
    first, second = ledger.results()
    assert finish_time_fairness(first, 40) == 1.5
    assert finish_time_fairness(first, 0) is None
    assert finish_time_fairness(second, 5) is None
