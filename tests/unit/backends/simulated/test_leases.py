"""Three switches of a lease on the grid of fixed rounds: progress, credit, and ends seen."""

import pytest

from shunter.backends.simulated import Credit, EndSeen, Lease, Progress, SimulatedBackend, StepRate
from shunter.core.speeds import SpeedModel
from shunter.events import GpuType
from tests.factories import configuration, node_name
from tests.unit.backends.simulated.driving import Case, cases

STEPS = "lease progress=whole_steps, round_us=10; 0: launch j0"
GRANTED = "lease credit=at_grant, round_us=10; 0: launch j0"
LATE = "lease end_seen=at_lease_end, round_us=10; 0: launch j0"
SEVEN = "j0: 1 GPU for 28, total_steps=7"


def slow(relative: float) -> SpeedModel:
    nodes = {node_name(0): configuration(1, gpu_type="k80")}
    return SpeedModel(nodes, relative={GpuType("k80"): relative})


TABLE = [
    *cases(f"""
2 steps of 4 fit into a lease of 10: 6 by 30, and the seventh takes 4
    {SEVEN}; {STEPS}
    => 0: j0 starts; 34: j0 ends
steps that fill their leases lose no time
    j0: 1 GPU for 25, total_steps=5; {STEPS}
    => 0: j0 starts; 25: j0 ends
the first lease of a late start is what is left of it: 1 step by 10, and then 2 each
    {SEVEN}; costs start_us=3; {STEPS}
    => 3: j0 starts; 38: j0 ends
a job without steps works continuously
    j0: 1 GPU for 28; {STEPS}
    => 0: j0 starts; 28: j0 ends
a step that fits into no lease is never done
    j0: 1 GPU for 24, total_steps=2; {STEPS}
    => 0: j0 starts
a begun step is lost with a suspension: 3 of 4 count of 17, and 4 are left
    {SEVEN}; {STEPS}; 17: suspend j0; 20: resume j0
    => 0: j0 starts; 17: j0 leaves losing 5, j0 is gone; 20: j0 starts #2; 38: j0 ends #2
"""),
    *cases(
        f"""
a step of 3 takes 6 at half the speed, and one fits into a lease
    j0: 1 GPU for 12, total_steps=4; {STEPS}
    => 0: j0 starts at 0.5; 36: j0 ends
""",
        slow(0.5),
    ),
    *cases(
        f"""
a step that takes 2.5 / 0.7 ends at the next whole microsecond: 2 by 10, 2 in 8 more
    j0: 1 GPU for 10, total_steps=4; {STEPS}
    => 0: j0 starts at 0.7; 18: j0 ends
""",
        slow(0.7),
    ),
    *cases(f"""
a lease is credited as a whole when it was granted: the one up to 20 counts at 12
    j0: 1 GPU for 25; {GRANTED}; 12: suspend j0, resume j0
    => 0: j0 starts; 12: j0 leaves, j0 is gone, j0 starts #2; 17: j0 ends #2
it is credited as run if nothing is said
    j0: 1 GPU for 25; lease round_us=10; 0: launch j0; 12: suspend j0, resume j0
    => 25: j0 ends #2
leaving at the end of a lease is credited exactly
    j0: 1 GPU for 25; {GRANTED}; 20: suspend j0; 30: resume j0
    => 0: j0 starts; 20: j0 leaves, j0 is gone; 30: j0 starts #2; 35: j0 ends #2
one whose grant covers its work ends when it is told to leave
    j0: 1 GPU for 15; {GRANTED}; 12: suspend j0
    => 0: j0 starts; 12: j0 ends
"""),
    *(
        Case(
            f"an end at {at_us} is seen when its lease is over",
            f"j0: 1 GPU for {at_us}; {LATE}",
            sees,
        )
        for at_us, sees in (
            (1, "10: j0 ends as it did at 1"),
            (13, "20: j0 ends as it did at 13"),
            (20, "20: j0 ends"),
            (21, "30: j0 ends as it did at 21"),
        )
    ),
    *cases(f"""
granted work has no end of its own
    j0: 1 GPU for 13; lease credit=at_grant, end_seen=at_lease_end, round_us=10; 0: launch j0
    => 0: j0 starts; 20: j0 ends
a user who cancels is seen at once
    j0: 1 GPU for 13, ends=cancelled; {LATE}
    => 13: j0 is cancelled, j0 exits with 143
one with all its work done ends when it is told to leave
    j0: 1 GPU for 13; {LATE}; 16: suspend j0
    => 16: j0 ends as it did at 13
one terminated after its unseen end counts as killed
    j0: 1 GPU for 13; {LATE}; 16: terminate j0
    => 16: j0 exits with 143
"""),
]


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_leases_count_as_the_row_says(case: Case) -> None:
    assert case.seen() == case.sees


@pytest.mark.parametrize(
    ("lease", "instant"),
    [
        (Lease(round_us=10), True),
        (Lease(end_seen=EndSeen.at_lease_end, round_us=10), True),
        (Lease(progress=Progress.whole_steps, round_us=10), False),
        (Lease(credit=Credit.at_grant, round_us=10), False),
    ],
)
def test_world_is_instant_where_work_done_is_time_worked(lease: Lease, instant: bool) -> None:
    assert SimulatedBackend([], lease=lease).instant is instant


@pytest.mark.parametrize("speed", [5e-324, 1e-300, 1e-20])
@pytest.mark.parametrize(
    ("units", "rate"), [(10**8, None), (1000, None), (1000, 5e-324), (1000, 1e-300)]
)
def test_what_takes_longer_than_time_can_tell_is_never_done(
    speed: float, units: int, rate: float | None
) -> None:
    """No float is too large, and nobody counts up to such an instant."""
    assert StepRate(speed, units, 10**8, rate).time_for(units) is None
