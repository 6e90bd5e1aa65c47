"""What becomes of a pilot, by what squeue, its connection and Slurm's signals say."""

import pytest

from shunter.backends.slurm import Phase, Pilot
from shunter.events import NodeName
from tests.unit.backends.slurm.jobs.queue import queued

LIMIT_S = 3600.0


def pilot() -> Pilot:
    return Pilot("n1.a", NodeName("n1"), 0.0, LIMIT_S)


def after(*changes: str) -> Pilot:
    """Return a pilot after some changes, in their order."""
    found = pilot()
    for change in changes:
        if change == "dials in":
            found.dial_in("one", "")
        elif change == "hangs up":
            found.note("hangs up")
        elif change == "is to end":
            found.begin_drain("why")
        elif change == "is gone":
            found.note("is gone")
        elif change == "is not listed":
            found.see(None)
        elif change == "runs again":
            found.see(queued("any", state="PENDING", restarts=1))
        else:
            found.see(queued("any", state=change))
    return found


@pytest.mark.parametrize(
    ("changes", "phase"),
    [
        ((), "requested"),
        (("is not listed",), "requested"),
        (("PENDING",), "queued"),
        (("PENDING", "RUNNING"), "granted"),
        (("PENDING", "RUNNING", "PENDING"), "queued"),  # requeued by an administrator
        (("dials in",), "connected"),  # sooner than squeue shows it
        (("RUNNING", "dials in", "PENDING"), "connected"),  # by an answer that is late
        (("dials in", "is not listed"), "connected"),
        (("dials in", "hangs up"), "granted"),
        (("PENDING", "hangs up"), "queued"),
        (("PENDING", "is to end"), "draining"),
        (("dials in", "is to end", "hangs up", "RUNNING", "dials in"), "draining"),
        (("RUNNING", "is to end", "PENDING"), "draining"),
        (("RUNNING", "is to end", "runs again"), "queued"),
        (("RUNNING", "is gone", "PENDING", "dials in", "is to end"), "ended"),
    ],
)
def test_phase_follows_from_what_has_become_of_it(changes: tuple[str, ...], phase: str) -> None:
    found = after(*changes)
    assert found.phase == phase
    assert found.has_begun == (phase in ("granted", "connected", "draining"))


def test_first_reason_of_its_end_counts_and_is_gone_once_slurm_runs_it_again() -> None:
    found = after("RUNNING", "is to end")
    found.begin_drain("another")
    assert found.drain == "the pilot on node n1 (Slurm job 1) is about to end: why"
    found.dial_in("one", "")
    assert found.drain, "its signal may be on the way"
    found.dial_in("another", "")
    assert (found.drain, found.phase) == ("", Phase.connected)
    found.begin_drain("again")
    found.see(queued("any", state="RUNNING", restarts=1))
    assert found.phase is Phase.draining, "the run that squeue shows is the one that drains"


def test_squeue_says_more_of_it_than_was_asked() -> None:
    found = pilot()
    found.see(queued("any", submit_s=5, reason="Resources", time_limit_s=60))
    assert (found.asked_at_s, found.limit_s, found.reason) == (5.0, 60.0, "Resources")
    found.see(queued("any", state="RUNNING", start_s=9, time_limit_s=60))
    assert (found.started_at_s, found.ends_at_s, found.reason) == (9.0, 69.0, "")
