"""What a policy may answer: whatever else it returns, it is named and stops nobody."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from shunter.core import Plan, Policy, Reservation, Start, Suspend
from shunter.core.planning import OnFault, is_our_own
from shunter.errors import PlanError
from shunter.events import (
    NO_SUCH_JOB,
    Allocation,
    Because,
    ClassWait,
    Demand,
    JobId,
    Reason,
    Wait,
    facts,
)
from tests.factories import World, allocation, las_policy, policy, run, servers, trace_job

JOBS = tuple(trace_job(number, 2, at=10 * number, lasts=25) for number in range(3))
WORLD = World(servers=servers(4), jobs=JOBS, round_us=10)
BECAUSE = Because("mine")
J0, GHOST = JobId("j0"), JobId("ghost")
LIST: Any = []
FIVE: Any = 5
TEXT: Any = "text"
PAIR: Any = ("n0", 3)


class Odd:
    """FIFO with another answer of one hook from its second call on."""

    name, version, oracle = "odd", "1", False

    def __init__(self, hook: str, answer: Callable[[Any], Any], upto: int = 1 << 30) -> None:
        self._policy: Policy[Any] = policy()
        self._hook, self._answer, self._upto, self._calls = hook, answer, upto, 0
        self._now_us = 0

    def start(self, view: Any) -> Any:
        return self._policy.start(view)

    def observers(self, memory: Any) -> Any:
        return self._instead("observers", self._policy.observers(memory))

    def advance(self, memory: Any, view: Any) -> None:
        self._now_us = view.now_us
        self._policy.advance(memory, view)

    def target(self, memory: Any, view: Any) -> Any:
        return self._instead("target", self._policy.target(memory, view))

    def plan(self, memory: Any, view: Any, rng: Any) -> Any:
        return self._instead("plan", self._policy.plan(memory, view, rng))

    def wake_at(self, memory: Any) -> Any:
        return self._instead("wake_at", self._policy.wake_at(memory))

    def settled(self, memory: Any) -> Any:
        return self._instead("settled", self._policy.settled(memory))

    def _instead(self, hook: str, usual: Any) -> Any:
        if hook != self._hook:
            return usual
        self._calls += 1
        return self._answer(self._now_us) if self._calls <= self._upto else usual


def changing(change: Any) -> Callable[[Any], Any]:
    return lambda _: Plan((change,))


ODD: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "no plan": ("plan", lambda _: None, "expected a Plan, not None"),
    "a list": ("plan", lambda _: [], "expected a Plan, not [] of type list"),
    "changes in a list": ("plan", lambda _: Plan(LIST), "changes: expected a tuple, not []"),
    "changes of text": ("plan", changing("j0"), "changes[0]: expected Start or Suspend"),
    "a job id that is a number": (
        "plan", changing(Suspend(FIVE, BECAUSE)), "Expected `str`, got `int` - at `$.job_id`"),
    "GPUs that are text": (
        "plan",
        changing(Start(J0, allocation(n0=TEXT), BECAUSE)),
        "Expected `int`, got `str` - at `$.allocation.shares[0].gpu_mask`",
    ),
    "a share that is a tuple": (
        "plan",
        changing(Start(J0, Allocation((PAIR,)), BECAUSE)),
        "changes[0].allocation.shares[0]: expected Share, not ('n0', 3)",
    ),
    "a blocker that is a number": (
        "plan",
        lambda _: Plan(waits=(ClassWait(Demand(2), Wait(Reason.outranked, 2, 0, (FIVE,))),)),
        "Expected `str`, got `int` - at `$.wait.blockers[0]`",
    ),
    "GPUs beyond 64 bits": (
        "plan", changing(Start(J0, allocation(n0=1 << 70), BECAUSE)), "exceeds 64-bit range"),
    "a name that no log can hold": (
        "plan", changing(Start(J0, allocation(n0=3), Because("\ud800"))), "not valid UTF-8"),
    "a score that is not finite": (
        "plan",
        changing(Start(J0, allocation(n0=3), Because("r", (float("nan"),)))),
        "a score of job j0 is not finite",
    ),
    "a fault of its own": ("plan", lambda _: Plan(fault="mine"), "it is not for a policy to say"),
    "a wait without a job": ("plan", lambda _: Plan(job_waits=(TEXT,)), "expected JobWait"),
    "text as an instant": ("wake_at", lambda _: "soon", "expected an instant in microseconds"),
    "half an instant": ("wake_at", lambda _: 0.5, "expected an instant in microseconds"),
    "the past": ("wake_at", lambda _: -5, "expected an instant to come or None, not -5 us"),
    "an instant beyond all": ("wake_at", lambda _: 1 << 80, "expected an instant up to"),
    "neither settled nor not": ("settled", lambda _: None, "expected True or False, not None"),
    "targets of text": ("target", lambda _: "all", "expected a tuple of Target"),
    "a target that is text": ("target", lambda _: ("all",), "targets[0]: expected Target"),
    "targets of another time": (
        "target", lambda now: facts.TargetsSet(now + 1, ()), "expected targets of"),
    "sizes of another time": (
        "target", lambda now: facts.SizesSet(now + 1, (), 1.0, 1.0), "expected sizes of"),
    "sizes without a bound": (
        "target", lambda now: facts.SizesSet(now, (), 1.0, float("inf")), "is not finite"),
    "sizes that are text": (
        "target", lambda now: facts.SizesSet(now, (TEXT,), 1.0, 1.0), "expected Size"),
    "a share that is not finite": (
        "target", lambda _: (facts.Target((J0,), TEXT, float("inf")),), "is not finite"),
    "observers that are none": ("observers", lambda _: None, "expected a mapping"),
    "observers of text": ("observers", lambda _: {"x": print}, "expected a kind of event"),
    "an observer that is none": (
        "observers",
        lambda _: {facts.JobFinished: 5},
        "expected a function that observes JobFinished",
    ),
}  # fmt: skip
each = pytest.mark.parametrize(("hook", "answer", "words"), ODD.values(), ids=ODD)


@each
def test_simulation_ends_with_one_line_that_names_policy_hook_and_answer(
    hook: str, answer: Callable[[Any], Any], words: str
) -> None:
    with pytest.raises(PlanError) as caught:
        run(WORLD, Odd(hook, answer))
    line = str(caught.value)
    assert line.startswith(f"policy odd failed in {hook}: ")
    assert words in line
    assert "\n" not in line


@each
def test_cluster_outlives_an_odd_answer(
    hook: str, answer: Callable[[Any], Any], words: str
) -> None:
    outcome = run(replace(WORLD, on_fault=OnFault.isolate), Odd(hook, answer, upto=3))
    assert len(outcome.of(facts.JobFinished)) == len(JOBS)
    told = [one.fault for one in outcome.of(facts.RoundPlanned) if one.fault]
    assert told
    assert all(fault.startswith(hook) and words in fault for fault in told)


@pytest.mark.parametrize("raised", [SystemExit(0), KeyboardInterrupt(), RecursionError("deep")])
def test_simulation_ends_in_words_whatever_a_policy_raises(raised: BaseException) -> None:
    def fail(_: Any) -> Any:
        raise raised

    with pytest.raises(PlanError, match=f"policy odd failed in plan: {type(raised).__name__}"):
        run(WORLD, Odd("plan", fail))


@pytest.mark.parametrize("is_drafted", [False, True])
def test_plan_for_jobs_that_do_not_exist_is_refused_and_recorded(is_drafted: bool) -> None:
    """Also of a policy that says it needs no approval, since it is not our own."""
    ghosts = Plan(
        (Start(GHOST, allocation(n0=3), BECAUSE), Suspend(GHOST, BECAUSE)),
        job_waits=((GHOST, Wait(Reason.no_capacity)),),
        reservations=(Reservation(GHOST, 5, 1),),
        is_drafted=is_drafted,
    )
    outcome = run(WORLD, Odd("plan", lambda _: ghosts, upto=2))
    refused = outcome.of(facts.PlanRejected)
    assert len(refused) == 8
    assert {(one.job_id, one.detail) for one in refused} == {(GHOST, NO_SUCH_JOB)}
    assert len(outcome.of(facts.JobFinished)) == len(JOBS)


@pytest.mark.parametrize("round_us", [0, 10])
def test_policy_that_wants_rounds_for_ever_ends_with_an_error(round_us: int) -> None:
    with pytest.raises(PlanError, match="1,000 rounds were planned after the last job ended"):
        run(replace(WORLD, round_us=round_us), Odd("wake_at", lambda now: now + 7))


@pytest.mark.parametrize("round_us", [0, 10])
def test_policy_that_is_always_asked_at_once_ends_with_an_error(round_us: int) -> None:
    world = replace(WORLD, round_us=round_us, jobs=(trace_job(0, 2, lasts=1 << 40),))
    with pytest.raises(PlanError, match="1,000 plans in a row were asked for at once"):
        run(world, Odd("wake_at", lambda _: 0))


def test_policy_that_never_starts_a_job_ends_with_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shunter.core.scheduler.WAITS_IN_VAIN", 2_000)

    class Idle(Odd):
        def plan(self, memory: Any, view: Any, rng: Any) -> Any:
            return Plan()

    with pytest.raises(PlanError, match=r"2,000 rounds it started nothing .* 3 jobs wait"):
        run(WORLD, Idle("wake_at", lambda now: now + 7))


def test_rounds_while_a_job_runs_or_is_to_come_are_no_error() -> None:
    jobs = (trace_job(0, 2, lasts=30_000), trace_job(1, 2, at=60_000))
    outcome = run(replace(WORLD, jobs=jobs, until_us=60_500), Odd("wake_at", lambda now: now + 7))
    assert len(outcome.of(facts.JobFinished)) == 2


def test_policies_of_ours_are_known_as_such_and_others_are_not() -> None:
    assert is_our_own(policy())
    assert is_our_own(las_policy())
    assert not is_our_own(Odd("plan", lambda _: None))

    class Mine:
        pass

    mine: Any = Mine()
    assert not is_our_own(replace(las_policy(), placement=mine))
