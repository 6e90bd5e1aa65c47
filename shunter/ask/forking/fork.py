"""A fork: a scheduler on a state of the past or the present, and a simulated world that goes on.

    fork point ─▶ state, policy with its memory ─┐
                                                 ├─▶ round loop, into no log
    future     ─▶ jobs that come, orders, losses ┘   (or one of its own)

What-if, ETA, counterfactuals and dry runs are all a fork with a change in it. A fork writes nothing
but its own state, and the log that it came from is not touched.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from shunter.ask.forking.fork_point import ForkPoint
from shunter.ask.forking.future import Future
from shunter.backends.simulated.resuming import Resumed, TotalWork
from shunter.core.interfaces import (
    AnyPolicy,
    Backend,
    CancelJob,
    DrainNode,
    Effect,
    EventLog,
    Input,
    Observers,
    SubmitJob,
)
from shunter.core.planning.planner import RoundRules
from shunter.core.planning.proposals import CanPropose
from shunter.core.round_loop import run_rounds
from shunter.core.scheduler import Scheduler
from shunter.core.state import Job, State
from shunter.events.codec import decode_record
from shunter.events.facts.cluster import NodeAdded
from shunter.events.facts.jobs import JobSubmitted
from shunter.events.facts.run import SchedulerStarted
from shunter.events.kinds import Event
from shunter.events.past_jobs import MemoryPastJobs
from shunter.events.values.configuration_set import ConfigurationSet
from shunter.events.values.ids import JobId, NodeName, UserName
from shunter.events.values.job_spec import JobSpec
from shunter.gc_control import collector_off
from shunter.workloads.trace import JobEnd, TraceJob

WorkOf = Callable[[JobId, JobSpec, Job | None, int], TotalWork]
"""Tells the whole work of a job of which the future does not: its id, what it asks for, what it has
become if it is there already, and the instant."""

MakeWorld = Callable[[Sequence[TraceJob], Resumed | None], Backend]
"""Makes the simulated world in which some jobs come, and go on from where they are."""

Run = tuple[AnyPolicy, RoundRules]


@dataclass(frozen=True)
class Change:
    """What is otherwise than it was, from the fork on; by default nothing.

    `started` and `run` are who decides instead, with the chance of `seed`.
    `orders` come in at the moment of the fork, after `facts` that are nobody's order.
    """

    started: SchedulerStarted | None = None
    run: Run | None = None
    seed: int | None = None
    added: Sequence[tuple[NodeName, ConfigurationSet]] = ()
    removed: Sequence[NodeName] = ()
    without: Sequence[UserName] = ()
    orders: Sequence[Input] = ()
    facts: Sequence[Event] = ()

    def is_without(self, spec: JobSpec) -> bool:
        """Say whether a job is one of those that are left out."""
        return spec.user in self.without


@dataclass(frozen=True)
class Standing:
    """A state with its world, and what its policy knows; used up by one fork.

    `memory` is None where the policy begins anew on the state. `core` is the scheduler that was at
    work, with its listeners, if it can go on: it knows what losses it has counted. `now_us` is
    the instant it is, up to which nothing has happened since the state.
    """

    state: State
    past: MemoryPastJobs
    world: Backend
    run: Run
    memory: Any
    replan_needed: bool
    now_us: int
    core: Scheduler | None = None


@dataclass
class Discarding:
    """A log that keeps nothing."""

    seq: int = 0

    def append(self, events: Sequence[Event]) -> int:
        """Count events."""
        self.seq += len(events)
        return self.seq

    async def commit(self) -> None:
        """Keep nothing."""


@dataclass
class Fork:
    """A scheduler and its world, to be run on."""

    core: Scheduler
    world: Backend
    now_us: int
    opening: list[Event] = field(default_factory=list)

    async def run(
        self,
        until_us: int | None = None,
        log: EventLog | None = None,
        is_enough: Callable[[], bool] | None = None,
    ) -> int:
        """Run on, up to an instant or until nothing can happen; return the last instant.

        Raises:
            PlanError: the policy failed, and that is to end a run.
        """
        into = log or Discarding()
        if self.opening:
            into.append(self.opening)
            self.opening = []
        with collector_off():
            return await run_rounds(
                self.core,
                self.world,
                into,
                self.now_us,
                until_us,
                is_enough=is_enough,
            )


class ForkedWorld:
    """Hands in what people ordered, and hides of jobs what the log does not tell."""

    __slots__ = ("_inputs", "_next", "_told", "_world", "instant")

    def __init__(
        self,
        world: Backend,
        inputs: Sequence[Input],
        told: Mapping[JobId, JobSubmitted] = MappingProxyType({}),
    ) -> None:
        self.instant = world.instant
        self._world = world
        self._inputs = inputs
        self._next = 0
        self._told = told

    async def perform(self, effects: Sequence[Effect], now_us: int) -> None:
        """Carry orders out, as the world behind does."""
        await self._world.perform(effects, now_us)

    async def observe(
        self, until_us: int | None, gather_us: int = 0
    ) -> tuple[int, Sequence[Input]]:
        """Return what happens next, with the orders of people at its end."""
        at_us = self._inputs[self._next].at_us if self._next < len(self._inputs) else None
        if at_us is None or (until_us is not None and until_us < at_us):
            now_us, inputs = await self._world.observe(until_us, gather_us)
            return now_us, self._as_told(inputs)
        now_us, inputs = await self._world.observe(at_us, gather_us)
        first = self._next
        while self._next < len(self._inputs) and self._inputs[self._next].at_us <= now_us:
            self._next += 1
        return now_us, (*self._as_told(inputs), *self._inputs[first : self._next])

    def _as_told(self, inputs: Sequence[Input]) -> Sequence[Input]:
        if not any(type(each) is SubmitJob for each in inputs):
            return inputs
        return [_as_submitted(each, self._told) for each in inputs]


def _as_submitted(given: Input, told: Mapping[JobId, JobSubmitted]) -> Input:
    if type(given) is not SubmitJob or (known := told.get(given.job_id)) is None:
        return given
    return SubmitJob(
        given.at_us,
        given.job_id,
        given.spec,
        known.duration_us,
        known.dedupe_key,
        known.environment,
    )


def standing_at(
    point: ForkPoint,
    make_world: MakeWorld,
    future: Future | None,
    work_of: WorkOf,
    change: Change,
    now_us: int = 0,
) -> Standing:
    """Return the state of a moment, and a world that goes on from it alone.

    Args:
        point: the moment.
        make_world: makes the simulated world.
        future: what came after the moment; None: nothing comes any more.
        work_of: tells the work of jobs of which the future does not.
        change: whose jobs do not come.
        now_us: the instant it is, if that is later; nothing has happened in between, so that what
            was under way at the moment still is.
    """
    state = point.state()
    now_us = max(state.now_us, now_us)
    known = {} if future is None else future.work
    submitted = [] if future is None else future.submissions
    coming = [
        coming_job(
            each, known.get(each.job_id) or work_of(each.job_id, each.spec, None, each.at_us)
        )
        for each in submitted
        if not change.is_without(each.spec)
    ]
    work = {
        job.job_id: known.get(job.job_id) or work_of(job.job_id, job.submitted_spec, job, now_us)
        for job in state.jobs.values()
    }
    policy, rules, memory = _who_decides(point)
    is_simulated = point.started.simulated
    world = make_world(coming, Resumed(state, work, is_simulated and rules.instant, now_us))
    past = MemoryPastJobs({} if future is None else future.ended_before(state))
    if not is_simulated:
        rules = replace(rules, is_live=False, live_reactions=True, instant=False, keeps_homes=True)
    orders = [] if future is None else future.inputs
    return Standing(
        state,
        past,
        ForkedWorld(world, orders, {each.job_id: each for each in submitted}),
        (policy, rules),
        memory,
        point.replan_needed,
        now_us,
    )


def _who_decides(point: ForkPoint) -> tuple[AnyPolicy, RoundRules, Any]:
    """Return the policy of a moment, its rules, and its memory; None: it begins anew.

    Nobody calls in a fork: where callers proposed, jobs have schedulers of their own there.
    """
    policy, rules, scheme = point.policy, point.rules, point.rules.decentralised
    if scheme is not None and not scheme.built_in:
        assert isinstance(policy, CanPropose), "callers propose under no other"
        scheme = replace(scheme, built_in=True)
        return policy.with_scheme(scheme), replace(rules, decentralised=scheme), None
    if not point.encoded_memory:
        return policy, rules, None
    return policy, rules, decode_record(point.memory_type, point.encoded_memory)


def fork_at(standing: Standing, change: Change, listeners: Iterable[Observers] = ()) -> Fork:
    """Return a fork, ready to be run.

    Args:
        standing: where it begins; it is the fork's from now on.
        change: what is otherwise.
        listeners: told of each fact once it is folded; a core that goes on has its own.
    """
    now_us = standing.now_us
    core = standing.core if change.run is None and change.seed is None else None
    if core is None:
        core = _scheduler(standing, change, listeners)
    opening: list[Event] = []
    if change.started is not None:
        term = standing.state.term + 1
        opening.append(replace(change.started, at_us=now_us, term=term))
    opening += [NodeAdded(now_us, name, where) for name, where in change.added]
    opening += change.facts
    core.view.open()
    for fact in opening:
        core.emit(fact)
    core.view.close()
    opening, _ = core.hand_on()
    if opening:
        core.replan_needed = True
    orders = _orders(change, standing.state, now_us)
    world = ForkedWorld(standing.world, orders) if orders else standing.world
    return Fork(core, world, now_us, opening)


def _scheduler(standing: Standing, change: Change, listeners: Iterable[Observers]) -> Scheduler:
    """Return a scheduler on a state, with the memory of its policy if that stays."""
    policy, rules = standing.run if change.run is None else change.run
    seed = rules.seed if change.seed is None else change.seed
    rules = replace(rules, instant=standing.world.instant, seed=seed)
    standing.state.now_us = standing.now_us  # who begins anew begins then, not at the last event
    core = Scheduler(policy, rules, standing.state, listeners=listeners, past=standing.past)
    if change.run is None and standing.memory is not None:
        core.adopt(standing.memory, replan_needed=standing.replan_needed)
    return core


def coming_job(submitted: JobSubmitted, work: TotalWork) -> TraceJob:
    """Return a job of a log as the simulated world takes it."""
    ends = JobEnd(work.ends)
    return TraceJob(submitted.job_id, submitted.at_us, submitted.spec, work.total_us, ends)


def _orders(change: Change, state: State, now_us: int) -> Sequence[Input]:
    """Return what is ordered at the moment of a fork."""
    first: list[Input] = [DrainNode(now_us, name) for name in change.removed]
    first += [
        CancelJob(now_us, job.job_id, "what-if")
        for job in state.jobs.values()
        if change.is_without(job.spec)
    ]
    return [*first, *change.orders]
