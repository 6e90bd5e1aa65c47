"""Past jobs of a live cluster: memory answers until the tables do, and forgets then."""

from collections.abc import Sequence
from dataclasses import replace

from shunter.daemon import LivePastJobs
from shunter.events import EndedJob, JobCancelled, JobFinished, JobId, Outcome
from tests.factories import job_submitted

J7 = JobId("j7")


class Tables:
    """Tables that say how one job ended, and count how often they are asked."""

    last_number = 3

    def __init__(self) -> None:
        self.asked: list[str] = []

    def outcome(self, job_id: JobId) -> Outcome | None:
        self.asked.append(job_id)
        return Outcome.failed if job_id == "j3" else None

    def job_of(self, key: str) -> JobId | None:
        self.asked.append(key)
        return None

    def ended_before(self, seq: int, most: int) -> Sequence[EndedJob]:
        return []

    def close(self) -> None:
        self.asked.append("close")


def test_what_is_not_durable_yet_is_known() -> None:
    past = LivePastJobs(Tables())
    submitted = replace(job_submitted(1), dedupe_key="key")
    past.take(4, submitted)
    past.take(5, JobFinished(9, J7))
    assert (past.outcome(J7), past.outcome(JobId("j3"))) == (Outcome.finished, Outcome.failed)
    assert past.job_of(f"{submitted.spec.user}/key") == submitted.job_id
    assert past.last_number == 7


def test_what_is_durable_is_asked_of_the_tables() -> None:
    tables = Tables()
    past = LivePastJobs(tables)
    past.take(5, JobFinished(9, J7))
    past.take(6, JobCancelled(9, JobId("j8")))
    past.durable(5)
    assert past.outcome(JobId("j8")) is Outcome.cancelled
    assert tables.asked == []
    assert past.outcome(J7) is None, "these tables do not say it"
    assert tables.asked == [J7]
