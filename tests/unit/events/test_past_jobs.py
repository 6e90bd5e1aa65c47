"""What a log says of past jobs: kept as it is read, and held to what submissions say of it."""

from dataclasses import replace

import pytest

from shunter.errors import IllegalEventError
from shunter.events import (
    Dependency,
    Event,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobId,
    JobRejected,
    JobSubmitted,
    MemoryPastJobs,
    Outcome,
    PastRows,
    Reason,
    number_of,
)
from tests.factories import job_id, job_submitted

J0, J1, J2 = job_id(0), job_id(1), job_id(2)
ENDS: dict[Outcome, Event] = {
    Outcome.finished: JobFinished(5, J0),
    Outcome.failed: JobFailed(5, J0, "exit", 1),
    Outcome.timeout: JobFailed(5, J0, "timeout"),
    Outcome.cancelled: JobCancelled(5, J0),
    Outcome.rejected: JobRejected(5, J0, Reason.infeasible),
}
NEEDS_BOTH = job_submitted(2, depends_on=(Dependency(J0), Dependency(J1), Dependency(J0)))


def known(*events: Event) -> MemoryPastJobs:
    past = MemoryPastJobs()
    for seq, event in enumerate(events, 1):
        past.take(seq, event)
    return past


def with_key(event: JobSubmitted, key: str) -> JobSubmitted:
    return replace(event, dedupe_key=key)


@pytest.mark.parametrize("outcome", Outcome)
def test_every_end_has_its_outcome(outcome: Outcome) -> None:
    past = known(job_submitted(0), ENDS[outcome])
    assert (past.outcome(J0), past.outcome(J1)) == (outcome, None)


def test_submission_of_an_old_log_learns_how_its_dependencies_had_ended() -> None:
    past = known(ENDS[Outcome.failed])
    assert past.completed(NEEDS_BOTH) == replace(NEEDS_BOTH, ended=((J0, Outcome.failed),))


def test_submission_that_says_it_itself_stays_as_it_is() -> None:
    said = replace(NEEDS_BOTH, ended=((J0, Outcome.failed),))
    assert known(ENDS[Outcome.failed]).completed(said) is said


@pytest.mark.parametrize(
    "ended", [((J0, Outcome.finished),), ((J1, Outcome.finished),), ((J0, Outcome.failed),) * 2]
)
def test_submission_that_says_otherwise_than_the_log_is_illegal(
    ended: tuple[tuple[JobId, Outcome], ...],
) -> None:
    with pytest.raises(IllegalEventError, match="by the log j0 has failed"):
        known(ENDS[Outcome.failed]).completed(replace(NEEDS_BOTH, ended=ended))


def test_id_of_a_job_that_ended_is_not_used_again() -> None:
    with pytest.raises(IllegalEventError, match="job j0 was submitted twice"):
        known(ENDS[Outcome.finished]).completed(job_submitted(0))


def test_key_that_an_old_log_forgot_and_took_again_is_of_the_newest_job() -> None:
    first, other = with_key(job_submitted(0), "a"), with_key(job_submitted(1), "b")
    again = with_key(job_submitted(2), "a")
    assert [*known(first, other, again).keys.items()] == [
        (f"{other.spec.user}/b", J1),
        (f"{again.spec.user}/a", J2),
    ]


def test_rows_are_of_ends_and_keys_alone() -> None:
    rows = PastRows()
    rows.add(1, job_submitted(0))
    assert not rows
    rows.add(2, with_key(job_submitted(1), "a"))
    rows.add(3, ENDS[Outcome.cancelled])
    assert [(each.seq, each.job_id, each.outcome) for each in rows.ended] == [(3, J0, "cancelled")]
    assert [(seq, job) for seq, _, job in rows.keys] == [(2, J1)]


@pytest.mark.parametrize(
    ("name", "number"),
    [("j12", 12), ("j0", 0), ("12", 0), ("job12", 0), ("j1x", 0), ("j" + "9" * 40, 0)],
)
def test_only_ids_of_live_clusters_have_a_number(name: str, number: int) -> None:
    assert number_of(name) == number
