"""How it is known that Slurm is about to end a job, and what is said of it."""

import pytest

from shunter.backends.slurm import Phase, Pilot, announced_end
from shunter.events import NodeName
from tests.unit.backends.slurm.jobs.queue import queued

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
