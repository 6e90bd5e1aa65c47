"""What is said of a pilot that Slurm is about to end."""

import pytest

from shunter.backends.slurm.pilots.allocation_reasons import announced_end
from shunter.backends.slurm.pilots.allocation_view import Pilot, PilotState

NOW_S = 10_000.0
LIMIT = "its time limit of 1 h in Slurm"
HANDLERS = " to programs that handle it"


@pytest.mark.parametrize(
    ("signal", "started_at_s", "why", "whom"),
    [
        ("SIGUSR1", NOW_S - 3500, LIMIT, ""),
        ("SIGTERM", NOW_S - 100, "scancel or preemption", HANDLERS),
        ("SIGTERM", NOW_S - 3600, f"scancel, preemption or {LIMIT}", HANDLERS),
        ("SIGTERM", None, f"scancel, preemption or {LIMIT}", HANDLERS),
    ],
)
def test_signal_is_told_with_what_it_means(
    signal: str, started_at_s: float | None, why: str, whom: str
) -> None:
    pilot = Pilot("n1.a", "n1", PilotState.HELD, 0.0, 3600.0, started_at_s)
    told = announced_end(signal, 25.0, pilot, NOW_S)
    assert told == f"Slurm has sent it {signal} ({why}), which leaves 25 s{whom}"
