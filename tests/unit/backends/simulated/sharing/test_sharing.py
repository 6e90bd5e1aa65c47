"""Jobs that share GPUs on the virtual clock: by hand, to the microsecond."""

import pytest

from shunter.backends.simulated import Costs, Lease, Progress, RoundEnds, SimulatedBackend
from shunter.core import Input, SubmitJob
from shunter.core.speeds import JobKind, SpeedModel, ThroughputTable
from shunter.events import Allocation, AttemptStarted, GpuType, JobSuspended, SpeedChanged
from tests.factories import configuration, job_id, node_name, packed, trace_job
from tests.unit.backends.simulated.driving import (
    Hand,
    dies,
    ends,
    launch,
    migrate,
    mishaps,
    resume,
    suspend,
    terminate,
)

J0, J1, J2 = (job_id(number) for number in range(3))
NODES = {node_name(number): configuration(4) for number in range(2)}
V100 = GpuType("v100")
SLOW, FAST, BIG = JobKind("slow", 1), JobKind("fast", 1), JobKind("big", 1)
TABLE = ThroughputTable(
    {V100: {SLOW: 1.0, FAST: 4.0, BIG: 1.0}},
    {
        V100: {
            (SLOW, FAST): (0.8, 1.0),
            (FAST, SLOW): (1.0, 0.8),
            (BIG, SLOW): (0.0, 0.0),
            (SLOW, BIG): (0.0, 0.0),
        }
    },
    V100,
)
HALVES = SpeedModel(NODES)
RATES = SpeedModel(NODES, throughput=TABLE)
HERE, THERE, BOTH = packed(n0=1), packed(n1=1), packed(n0=0b11)


def hand(*lasts: int, speeds: SpeedModel = HALVES, **options: object) -> Hand:
    """Return a world of jobs that last so long alone, all of them there."""
    jobs = [trace_job(number, lasts=one) for number, one in enumerate(lasts)]
    backend = SimulatedBackend(jobs, speeds=speeds, **options)  # type: ignore[arg-type]  # by name
    world = Hand(backend)
    world.until(0)
    return world


def speeds(seen: list[Input], job: str = "j0") -> list[tuple[int, float]]:
    return [
        (one.at_us, one.speed)
        for one in seen
        if isinstance(one, AttemptStarted | SpeedChanged) and one.job_id == job
    ]


def test_pair_of_which_nobody_knows_more_takes_turns() -> None:
    world = hand(10, 20)
    world.orders(launch(0, where=HERE), launch(1, where=HERE))
    seen = world.goes_on()
    assert ends(seen) == {"j0": 20, "j1": 30}
    assert speeds(seen, "j0") == [(0, 0.5)]
    assert speeds(seen, "j1") == [(0, 0.5), (20, 1.0)]


def test_job_slows_down_when_a_partner_comes_and_not_before() -> None:
    world = hand(10, 20)
    world.orders(launch(0, where=HERE))
    world.until(4)
    world.orders(launch(1, where=HERE))
    seen = world.goes_on()
    assert ends(seen) == {"j0": 16, "j1": 30}
    assert [one for one in seen if isinstance(one, SpeedChanged)] == [
        SpeedChanged(4, J0, 1, 0.5),
        SpeedChanged(16, J1, 1, 1.0),
    ]


def test_each_further_partner_takes_its_part() -> None:
    world = hand(10, 10, 10)
    world.orders(*(launch(number, where=HERE) for number in range(3)))
    assert ends(world.goes_on()) == {"j0": 40, "j1": 40, "j2": 40}


def test_pair_runs_at_the_rates_of_the_table() -> None:
    jobs = [trace_job(0, lasts=8, model="slow"), trace_job(1, lasts=8, model="fast")]
    world = Hand(SimulatedBackend(jobs, speeds=RATES))
    world.until(0)
    world.orders(launch(0, where=HERE), launch(1, where=HERE))
    seen = world.goes_on()
    assert speeds(seen, "j0") == [(0, 0.8)]
    assert speeds(seen, "j1") == [(0, 0.25), (10, 1.0)]
    assert ends(seen) == {"j0": 10, "j1": 10 + 8 - 2}


def test_pair_that_does_not_fit_gets_nothing_done_until_one_leaves() -> None:
    jobs = [trace_job(0, lasts=8, model="slow"), trace_job(1, lasts=8, model="big")]
    world = Hand(SimulatedBackend(jobs, speeds=RATES))
    world.until(0)
    world.orders(launch(0, where=HERE), launch(1, where=HERE))
    assert ends(world.until(50)) == {}
    world.orders(suspend(1))
    assert ends(world.goes_on()) == {"j0": 58}


def test_jobs_on_other_gpus_of_the_server_go_on_as_before() -> None:
    world = hand(10, 10)
    world.orders(launch(0, where=HERE), launch(1, where=packed(n0=2)))
    assert ends(world.goes_on()) == {"j0": 10, "j1": 10}


def test_gang_is_slowed_by_a_partner_on_one_of_its_gpus() -> None:
    world = hand(10, 20)
    world.orders(launch(0, where=BOTH), launch(1, where=packed(n0=2)))
    assert ends(world.goes_on()) == {"j0": 20, "j1": 30}


@pytest.mark.parametrize("order", [suspend(1), migrate(1), terminate(1)], ids=str)
def test_job_is_as_fast_as_before_once_its_partner_leaves(order: object) -> None:
    world = hand(10, 20)
    world.orders(launch(0, where=HERE), launch(1, where=HERE))
    world.until(6)
    world.orders(order)  # type: ignore[arg-type]  # each of them is an order
    assert ends(world.goes_on())["j0"] == 6 + 7


def test_work_beside_a_partner_is_kept_when_a_job_leaves() -> None:
    world = hand(10, 20)
    world.orders(launch(0, where=HERE), launch(1, where=HERE))
    world.until(6)
    world.orders(suspend(0))
    seen = world.until(10)
    assert [one.lost_us for one in seen if isinstance(one, JobSuspended)] == [0]
    world.orders(resume(0, attempt=2, where=THERE))
    assert ends(world.goes_on()) == {"j0": 10 + 7, "j1": 6 + 17}


def test_partner_counts_from_its_launch_though_it_starts_slowly() -> None:
    world = hand(10, 10, costs=Costs(start_us=4))
    world.orders(launch(0, where=HERE))
    seen = world.until(6)
    world.orders(launch(1, where=HERE))
    seen += world.goes_on()
    assert speeds(seen, "j0") == [(4, 1.0), (6, 0.5)]
    assert ends(seen)["j0"] == 6 + 16


def test_start_is_told_with_the_speed_of_that_instant() -> None:
    """The partner comes and goes while the job is still starting."""
    world = hand(10, 1, costs=Costs(start_us=4))
    world.orders(launch(0, where=HERE), launch(1, where=HERE))
    world.until(2)
    world.orders(terminate(1))
    assert speeds(world.goes_on()) == [(4, 1.0)]


def test_partner_of_a_job_lost_with_another_server_speeds_up() -> None:
    """Job 1 is on both servers, and dies with n1; job 0 is on n0 alone."""
    world = hand(20, 40, failures=mishaps(dies(1, 6)))
    world.orders(launch(0, where=HERE), launch(1, where=packed(n0=1, n1=1)))
    assert ends(world.until(6 + 17)) == {"j0": 6 + 17}


def rounds(*steps: int, together: Allocation = HERE) -> Hand:
    """Return jobs of a step every 2 us alone, 4 beside another, in rounds of up to 10 us."""
    jobs = [
        trace_job(number, lasts=2 * many, total_steps=many) for number, many in enumerate(steps)
    ]
    lease = Lease(Progress.whole_steps, round_ends=RoundEnds.last_gang, round_us=10)
    world = Hand(SimulatedBackend(jobs, speeds=HALVES, lease=lease))
    world.until(0)
    world.orders(*(launch(number, where=together) for number in range(len(steps))))
    return world


def test_pair_in_rounds_of_gangs_ends_with_its_slower_half() -> None:
    """One step takes job 0 until 4, two take job 1 until 8: both are one gang."""
    assert ends(rounds(1, 2).until(8)) == {"j0": 8, "j1": 8}


def test_half_left_alone_is_faster_from_the_next_round_on() -> None:
    """Round one: a step for job 0, two of five for job 1. Then three, at 2 us each."""
    seen = rounds(1, 5).until(30)
    assert ends(seen) == {"j0": 8, "j1": 8 + 6}
    assert speeds(seen, "j1") == [(0, 0.5), (8, 1.0)]


def test_nobody_shares_in_a_world_without_speeds() -> None:
    jobs = [trace_job(number, lasts=10) for number in range(2)]
    world = Hand(SimulatedBackend(jobs))
    assert [type(seen) for seen in world.until(0)] == [SubmitJob] * 2
    world.orders(launch(0, where=HERE), launch(1, where=HERE))
    assert ends(world.goes_on()) == {"j0": 10, "j1": 10}
