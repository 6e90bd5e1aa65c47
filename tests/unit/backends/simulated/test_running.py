"""Jobs that arrive, run and end where nothing costs anything: by hand, to the microsecond."""

import pytest

from shunter.backends.simulated import Costs, SimulatedBackend
from shunter.core import SubmitJob, WorldEnded
from shunter.core.speeds import SpeedModel
from shunter.events import GpuType
from tests.factories import configuration, drive, job_id, job_spec, node_name, trace_job
from tests.unit.backends.simulated.driving import Case, Hand, cases, launch, suspend

TEN = "j0: 1 GPU for 10; 0: launch j0"
NODES = {
    node_name(0): configuration(1, gpu_type="k80"),
    node_name(1): configuration(1, gpu_type="v100"),
}
QUARTER = SpeedModel(NODES, relative={GpuType("k80"): 0.25, GpuType("v100"): 2.0})
ODD = SpeedModel(NODES, relative={GpuType("k80"): 0.3})

TABLE = [
    *cases(f"""
a job ends as long after its launch as it lasts
    j0: 1 GPU for 10; 5: launch j0
    => 15: j0 ends
one that is not launched never ends
    j0: 1 GPU for 10 at 3
    => 3: j0 comes
one of no length ends at its launch
    j0: 1 GPU for 0; 4: launch j0
    => 4: j0 ends
one that fails exits with 1 after its duration
    j0: 1 GPU for 10, ends=failed; 0: launch j0
    => 10: j0 exits with 1
one that its user cancels is gone at once, by SIGTERM (128 + 15)
    j0: 1 GPU for 10, ends=cancelled, user=ada; 0: launch j0; 10: terminate j0
    => 10: j0 is cancelled by ada, j0 exits with 143
one that is suspended goes on where it stopped: 4 of 10 are done
    {TEN}; 4: suspend j0; 100: resume j0 on n1
    => 106: j0 ends #2
and so does one that moves
    {TEN}; 4: migrate j0 on n1, resume j0 on n1
    => 10: j0 ends #2
one that runs is terminated at once
    {TEN}; 4: terminate j0
    => 4: j0 exits with 143
one that waits is forgotten
    j0: 1 GPU for 10; 0: terminate j0
    =>
one that is suspended is forgotten
    {TEN}; 4: suspend j0, terminate j0
    =>
termination of an earlier attempt leaves the present one alone
    {TEN}; 4: suspend j0, resume j0, terminate j0 #1
    => 10: j0 ends #2
termination is done once however often it is ordered
    {TEN}; 4: terminate j0, terminate j0
    => 4: j0 exits with 143
jobs end in their own time beside each other: j0 has 25 left from 20 on
    j0: 1 GPU for 30; j1: 1 GPU for 12; 0: launch j0, launch j1 on n1; 5: suspend j0;
    20: resume j0
    => 12: j1 ends; 45: j0 ends #2
"""),
    *cases(
        """
40 at a quarter of the speed are 10 of 100, and 90 take 45 at twice the speed
    j0: 1 GPU for 100; 0: launch j0; 40: suspend j0, resume j0 on n1
    => 0: j0 starts at 0.25; 40: j0 leaves, j0 is gone, j0 starts at 2 #2; 85: j0 ends #2
""",
        QUARTER,
    ),
    *cases(
        f"""
work ends at the first microsecond at which it is done: 33 at 0.3 are 9.9, 34 are 10.2
    {TEN}
    => 0: j0 starts at 0.3; 34: j0 ends
a fraction of a microsecond is lost with a suspension, and is no loss to the scheduler: 9 at 0.3
count as 2, and 8 take 27
    {TEN}; 9: suspend j0, resume j0
    => 0: j0 starts at 0.3; 9: j0 leaves, j0 is gone, j0 starts at 0.3 #2; 36: j0 ends #2
""",
        ODD,
    ),
]


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_jobs_run_as_the_row_says(case: Case) -> None:
    assert case.seen() == case.sees


def test_job_is_submitted_with_what_the_trace_says() -> None:
    hand = Hand(SimulatedBackend([trace_job(0, gpus=2, at=7, lasts=10)]))
    assert hand.until(6) == []
    assert hand.until(7) == [SubmitJob(7, job_id(0), job_spec(2), 10)]


def test_world_ends_at_the_last_instant_at_which_anything_happened() -> None:
    backend = SimulatedBackend([trace_job(0, at=10)])
    Hand(backend).goes_on()
    assert drive(backend.observe(None)) == (10, (WorldEnded(10),))


@pytest.mark.parametrize(
    ("arrivals", "until_us", "gather_us", "seen"),
    [
        ([50], 49, 0, (49, [])),
        ([3, 3, 4], 100, 0, (3, [3, 3])),
        ([13, 20, 21], None, 10, (20, [13, 20])),  # the round in which 13 lies is over at 20
        ([13, 16, 17], 16, 10, (16, [13, 16])),
    ],
    ids=["to its deadline", "an instant", "a round", "no longer than to its deadline"],
)
def test_observation_brings(
    arrivals: list[int], until_us: int | None, gather_us: int, seen: tuple[int, list[int]]
) -> None:
    backend = SimulatedBackend([trace_job(number, at=at) for number, at in enumerate(arrivals)])
    at_us, inputs = drive(backend.observe(until_us, gather_us=gather_us))
    assert (at_us, [one.at_us for one in inputs]) == seen


def test_only_one_instant_is_observed_while_a_job_leaves() -> None:
    """Its GPUs are free at 1 + 8: whoever waits for them must not be kept waiting till 10."""
    jobs = [trace_job(number, at=at) for number, at in enumerate((0, 5, 6))]
    hand = Hand(SimulatedBackend(jobs, costs=Costs(suspend_us=8)))
    hand.until(0)
    hand.orders(launch())
    hand.until(1)
    hand.orders(suspend())
    instants = [drive(hand.backend.observe(None, gather_us=10))[0] for _ in range(4)]
    assert instants == [1, 5, 6, 9]


@pytest.mark.parametrize(
    ("costs", "instant"),
    [(Costs(), True), (Costs(start_us=1), False), (Costs(migrate_us=1), False)],
)
def test_world_without_costs_is_instant(costs: Costs, instant: bool) -> None:
    assert SimulatedBackend([], costs=costs).instant is instant
