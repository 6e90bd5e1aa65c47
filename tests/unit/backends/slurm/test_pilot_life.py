"""What becomes of a pilot, by what squeue, its connection and Slurm's signals say."""

import pytest

from shunter.backends.slurm import Phase, Pilot, announced_end
from shunter.events import NodeName
from tests.unit.backends.slurm.jobs.queue import queued

LIMIT_S = 3600.0


def pilot() -> Pilot:
    return Pilot("n1.a", NodeName("n1"), 0.0, LIMIT_S)


def after(*changes: str) -> Pilot:
    """Return a pilot after some changes, one a second; "late" are answers asked for before all."""
    found = pilot()
    for now_s, change in enumerate(changes, 1):
        state, _, restarts = change.removeprefix("late ").partition(" run ")
        if state == "dials in":
            found.dial_in(f"of run {restarts or 0}", "", now_s)
        elif state == "hangs up":
            found.note("hangs up")
        elif state == "is to end":
            found.begin_drain("why", now_s)
        elif state == "is gone":
            found.note("is gone")
        else:
            asked_s = 0 if change.startswith("late ") else now_s
            job = queued("any", state=state, restarts=int(restarts or 0))
            found.see(None if state == "is not listed" else job, asked_s)
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
        (("RUNNING", "is to end", "late PENDING"), "draining"),
        (("RUNNING", "is to end", "PENDING run 1"), "queued"),
        (("dials in", "is to end", "PENDING run 1"), "queued"),  # squeue had not shown it before
        (("dials in", "is to end", "RUNNING run 1"), "draining"),  # whichever run dialled in
        (("RUNNING", "dials in run 1", "is to end", "RUNNING run 1"), "draining"),
        (("RUNNING", "dials in", "is to end", "late RUNNING run 1"), "draining"),
        (
            ("RUNNING", "dials in", "dials in run 1", "is to end", "late RUNNING", "RUNNING run 1"),
            "draining",
        ),
        (("RUNNING", "dials in", "hangs up", "late PENDING"), "granted"),
        (("RUNNING", "is gone", "PENDING", "dials in", "is to end"), "ended"),
    ],
)
def test_phase_follows_from_what_has_become_of_it(changes: tuple[str, ...], phase: str) -> None:
    found = after(*changes)
    assert found.phase == phase
    assert found.has_begun == (phase in ("granted", "connected", "draining"))


def test_first_reason_of_its_end_counts_and_is_gone_once_slurm_runs_it_again() -> None:
    found = after("RUNNING", "is to end")
    found.begin_drain("another", 3.0)
    assert found.drain == "the pilot on node n1 (Slurm job 1) is about to end: why"
    found.dial_in("of run 0", "", 4.0)
    assert found.drain, "its signal may be on the way"
    found.dial_in("another", "", 5.0)
    assert (found.drain, found.phase) == ("", Phase.connected)
    found.begin_drain("again", 6.0)
    found.see(queued("any", state="RUNNING", restarts=1), 7.0)
    assert found.phase is Phase.draining, "the run that squeue shows is the one that drains"


def test_squeue_says_more_of_it_than_was_asked() -> None:
    found = pilot()
    found.see(queued("any", submit_s=5, reason="Resources", time_limit_s=60), 1.0)
    assert (found.asked_at_s, found.limit_s, found.reason) == (5.0, 60.0, "Resources")
    found.see(queued("any", state="RUNNING", start_s=9, time_limit_s=60), 2.0)
    assert (found.started_at_s, found.ends_at_s, found.reason) == (9.0, 69.0, "")


def test_late_answer_names_the_job_and_nothing_else() -> None:
    """Its number is that of all runs, and what is listed can be told to end."""
    found = after("dials in")
    assert not found.see(queued("any", state="RUNNING", start_s=9, restarts=3), 0.0)
    assert (found.number, found.is_listed) == (1, True)
    assert (found.started_at_s, found.restarts) == (None, None)
    assert not found.see(None, 0.0)
    assert found.is_listed


NOW_S = 10_000.0
N1 = NodeName("n1")
LIMIT = "its time limit of 1 h in Slurm"
HANDLERS = " to programs that handle it"


@pytest.mark.parametrize(
    ("signal", "started_at_s", "why", "whom"),
    [
        ("SIGUSR1", NOW_S - 3500, LIMIT, ""),
        ("SIGUSR1", NOW_S - 3420, LIMIT, ""),  # up to a minute too early
        ("SIGUSR1", NOW_S - 100, "scancel or preemption", ""),
        ("SIGUSR1", None, f"scancel, preemption or {LIMIT}", ""),
        ("SIGTERM", NOW_S - 100, "scancel or preemption", HANDLERS),
        ("SIGTERM", NOW_S - 3600, f"scancel, preemption or {LIMIT}", HANDLERS),
        ("SIGTERM", None, f"scancel, preemption or {LIMIT}", HANDLERS),
    ],
)
def test_signal_is_told_with_what_it_means(
    signal: str, started_at_s: float | None, why: str, whom: str
) -> None:
    pilot = Pilot("n1.a", N1, 0.0, 3600.0, Phase.connected, started_at_s)
    told = announced_end(signal, 25.0, pilot, NOW_S)
    assert told == f"Slurm has sent it {signal} ({why}), which leaves 25 s{whom}"


def test_pilot_submitted_a_moment_ago_is_not_near_its_limit_whenever_it_started() -> None:
    """The last answer of squeue was before its start."""
    pilot = Pilot("n1.a", N1, NOW_S - 10, 3600.0)
    told = announced_end("SIGUSR1", 25.0, pilot, NOW_S)
    assert told == "Slurm has sent it SIGUSR1 (scancel or preemption), which leaves 25 s"


@pytest.mark.parametrize(
    ("state", "end_s", "limit_s", "is_being_preempted"),
    [
        ("RUNNING", 4_600, 3_600, False),
        ("RUNNING", 4_598, 3_600, False),  # by seconds that are whole
        ("RUNNING", 1_090, 3_600, True),
        ("RUNNING", 4_700, 3_600, False),  # it was suspended for a while
        ("RUNNING", None, 3_600, False),
        ("RUNNING", 1_090, None, False),
        ("COMPLETING", 1_090, 3_600, False),
        ("CANCELLED", 1_090, 3_600, False),
    ],
)
def test_job_is_being_preempted_whose_end_has_moved_before_its_limit(
    state: str, end_s: int | None, limit_s: int | None, is_being_preempted: bool
) -> None:
    job = queued("any", state=state, start_s=1_000, end_s=end_s, time_limit_s=limit_s)
    assert job.is_being_preempted is is_being_preempted
