"""A policy that fails on a live cluster: noted, asked again, and decided again the same way."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from shunter.ask import Verifier
from shunter.core import Policy
from shunter.core.planning import TEXT_MOST, OnFault, told_of
from shunter.errors import PlanError
from shunter.events import Event, JobFinished, RoundPlanned, SchedulerStarted
from tests.factories import World, policy, run, servers, trace_job
from tests.replay.recording import rebuilt

PLACES = ("start", "observers", "observer", "advance", "target", "plan", "wake_at", "settled")
JOBS = tuple(trace_job(number, 2, at=10 * number, lasts=25) for number in range(6))
WORLD = World(servers=servers(4), jobs=JOBS, round_us=10, on_fault=OnFault.isolate)
EVENTFUL = replace(WORLD, round_us=0)


class Faulty:
    """FIFO that raises at one place for some calls."""

    def __init__(self, place: str, calls: range) -> None:
        self._policy: Policy[Any] = policy()
        self._place, self._calls, self._count = place, calls, 0
        self.name, self.version, self.oracle = "fifo", "1", False

    def start(self, view: Any) -> Any:
        self._pass("start")
        return self._policy.start(view)

    def observers(self, memory: Any) -> Any:
        self._pass("observers")
        found = self._policy.observers(memory)
        return {kind: self._heard(tell) for kind, tell in found.items()}

    def advance(self, memory: Any, view: Any) -> None:
        self._pass("advance")
        self._policy.advance(memory, view)

    def target(self, memory: Any, view: Any) -> Any:
        self._pass("target")
        return self._policy.target(memory, view)

    def plan(self, memory: Any, view: Any, rng: Any) -> Any:
        self._pass("plan")
        return self._policy.plan(memory, view, rng)

    def wake_at(self, memory: Any) -> int | None:
        self._pass("wake_at")
        return self._policy.wake_at(memory)

    def settled(self, memory: Any) -> bool:
        self._pass("settled")
        return self._policy.settled(memory)

    def _heard(self, tell: Callable[..., None]) -> Callable[..., None]:
        def tell_or_fail(event: Event, view: Any) -> None:
            self._pass("observer")
            tell(event, view)

        return tell_or_fail

    def _pass(self, place: str) -> None:
        if place == self._place:
            self._count += 1
            if self._count in self._calls:
                raise KeyError(object())


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("world", [WORLD, EVENTFUL], ids=["rounds", "events"])
def test_cluster_outlives_a_policy_that_fails_for_a_while(world: World, place: str) -> None:
    outcome = run(world, Faulty(place, range(3)))
    assert len(outcome.of(JobFinished)) == len(JOBS)


@pytest.mark.parametrize("place", ["start", "observer", "advance", "target", "plan"])
def test_what_failed_is_in_the_log_and_comes_out_the_same_again(place: str) -> None:
    calls = range(2) if place == "start" else range(3, 5)
    outcome = run(WORLD, Faulty(place, calls))
    faults = [one.fault for one in outcome.of(RoundPlanned) if one.fault]
    assert faults
    assert all(fault.startswith(place) for fault in faults)
    assert all("KeyError: <object object at 0x…>" in fault for fault in faults)

    events = [
        replace(event, simulated=True) if isinstance(event, SchedulerStarted) else event
        for event in outcome.events
    ]
    again = rebuilt(Faulty(place, calls), WORLD.rules(instant=True))
    assert Verifier(again).take(events) is None


@pytest.mark.parametrize("place", ["start", "observer", "advance", "target", "plan"])
def test_next_round_tells_that_all_is_well_again(place: str) -> None:
    """Also where nothing waits: then no round would follow otherwise."""
    world = replace(WORLD, jobs=(trace_job(0, 2, lasts=1000),), until_us=500)
    outcome = run(world, Faulty(place, range(2)))
    faults = [one.fault for one in outcome.of(RoundPlanned)]
    assert faults[0]
    assert faults[-1] == outcome.state.policy_fault == ""


def test_policy_that_always_fails_starts_nothing_and_ends_nothing() -> None:
    outcome = run(replace(WORLD, until_us=200), Faulty("plan", range(1 << 30)))
    assert all(one.fault for one in outcome.of(RoundPlanned))
    assert len(outcome.state.jobs) == len(JOBS)
    assert outcome.state.policy_fault.startswith("plan: KeyError")


def test_simulation_ends_with_the_fault_of_its_policy() -> None:
    with pytest.raises(
        PlanError, match=r"^policy fifo failed in plan: KeyError: <object object at 0x…>"
    ):
        run(replace(WORLD, on_fault=OnFault.stop), Faulty("plan", range(3)))


def test_fault_is_one_line_of_bounded_length() -> None:
    told = told_of("plan", ValueError("two\nlines " + "x" * 1000))
    assert told.startswith("plan: ValueError: two lines xxx")
    assert len(told) == TEXT_MOST
