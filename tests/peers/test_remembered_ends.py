"""Jobs that were to end with an arrival: the table of the page on the peer setting."""

import pytest
from pydantic import ValidationError

from shunter.backends.simulated import SimulatedBackend
from shunter.config import SimulationSection, make_config
from shunter.core import AttemptExited, Backend, Input, SubmitJob
from shunter.errors import ConfigError
from shunter.run import load_jobs, set_up
from shunter.workloads import TraceJob
from shunter_peers.remembered_ends import RememberedEnds
from tests.factories import job_id, trace_job
from tests.unit.backends.simulated.driving import Hand, launch, resume, suspend

J0, J1, J2 = job_id(0), job_id(1), job_id(2)
JOBS = (trace_job(0, lasts=10), trace_job(1, at=10))


def world_of(jobs: tuple[TraceJob, ...], *, remembers: bool = True) -> Backend:
    inside = SimulatedBackend(jobs)
    return RememberedEnds().around(inside, 0) if remembers else inside


def hand(jobs: tuple[TraceJob, ...] = JOBS, *, remembers: bool = True) -> Hand:
    """Return a hand that has launched j0 and then looked at what comes."""
    found = Hand(world_of(jobs, remembers=remembers))
    found.until(0)
    found.orders(launch())
    found.until(4)
    return found


def exits(inputs: list[Input]) -> list[tuple[int, str, int]]:
    return [(i.at_us, i.job_id, i.attempt) for i in inputs if isinstance(i, AttemptExited)]


@pytest.mark.parametrize("remembers", [True, False])
def test_job_that_goes_on_ends_once_and_before_the_arrival(remembers: bool) -> None:
    seen = hand(remembers=remembers).goes_on()
    assert [type(item) for item in seen] == [AttemptExited, SubmitJob]
    assert exits(seen) == [(10, J0, 1)]


def test_job_that_has_left_ends_with_the_arrival_before_it() -> None:
    world = hand()
    world.orders(suspend())
    seen = world.goes_on()
    assert [type(item) for item in seen] == [AttemptExited, SubmitJob]
    assert exits(seen) == [(10, J0, 1)]


def test_job_that_has_left_waits_where_nothing_is_remembered() -> None:
    world = hand(remembers=False)
    world.orders(suspend())
    assert exits(world.goes_on()) == []


@pytest.mark.parametrize(("remembers", "end_us"), [(True, 10), (False, 12)])
def test_job_that_is_back_ends_with_the_arrival(remembers: bool, end_us: int) -> None:
    world = hand(remembers=remembers)
    world.orders(suspend())
    world.until(6)
    world.orders(resume())
    assert exits(world.goes_on()) == [(end_us, J0, 2)]


def test_another_end_at_that_instant_takes_its_place() -> None:
    world = hand((trace_job(0, lasts=10), trace_job(2, lasts=6), trace_job(1, at=10)))
    world.orders(suspend(), launch(2))
    assert exits(world.goes_on()) == [(10, J2, 1)]


def test_job_is_remembered_only_if_somebody_looked_while_it_ran() -> None:
    world = Hand(world_of(JOBS))
    world.until(0)
    world.orders(launch(), suspend())
    assert exits(world.goes_on()) == []


@pytest.mark.parametrize(
    "other",
    [
        {"policy": {"trigger": "round"}},
        {"policy": {"trigger": "event"}, "simulation": {"costs": {"suspend": 1}}},
        {"policy": {"trigger": "event"}, "simulation": {"speeds": {"relative": {"gpu": 2.0}}}},
    ],
)
def test_config_refuses_what_it_cannot_go_with(other: dict[str, dict[str, object]]) -> None:
    simulation = {"world": "remembered_ends"} | other.get("simulation", {})
    tree = {
        "schema": 1,
        "cluster": {"nodes": [{"name": "n1", "gpus": 1}]},
        "workload": {"generate": {"kind": "philly-like"}},
        **other,
        "simulation": simulation,
    }
    loaded = make_config(tree)

    with pytest.raises(ConfigError, match=r"remembered_ends: expected policy\.trigger = 'event'"):
        set_up(loaded, load_jobs(loaded))


@pytest.mark.parametrize(("old", "world"), [(True, "remembered_ends"), (False, "")])
def test_the_key_of_before_means_the_same(*, old: bool, world: str) -> None:
    assert SimulationSection.model_validate({"remembered_ends": old}).world == world
    with pytest.raises(ValidationError, match="remembered_ends"):
        SimulationSection.model_validate({"remembered_ends": "yes"})
