"""The functional core: inputs in, facts and effects out; no I/O, no clock, no logging.

`step` folds each fact as it emits it: a decision needs the observations of its own step.
Within one instant the order is: ends, failures, node changes, arrivals (as the backend hands them
over), then time limits, then ranks that change by themselves, then the round.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from shunter.core.fold import RULES, within_reach
from shunter.core.input_handlers import HANDLERS
from shunter.core.interfaces import (
    Effect,
    Input,
    Launch,
    Migrate,
    NothingComes,
    Observer,
    Observers,
    Policy,
    ReshapeAttempt,
    Resume,
    SuspendAttempt,
    Terminate,
)
from shunter.core.planning import Barrier, Planner, RoundRules, orders_of
from shunter.core.reactor import WATCHED, Reactor, holds, orders_end
from shunter.core.state import AT_WORK, NO_RESULT, Job, Rule, State
from shunter.core.view import View
from shunter.errors import IllegalEventError, PlanError
from shunter.events import JOB_ENDS, TRIALS, Event, MemoryPastJobs, PastJobs, facts

_ROUND, _EVENT, _WAKE = facts.Trigger  # members are slow to look up

ROUNDS_IN_VAIN = 1_000
"""So many rounds that change nothing may follow the end of the last job."""

WAITS_IN_VAIN = 100_000
"""So many rounds that change nothing may be planned while jobs wait and nothing else happens."""


class Asked(Policy[Any], Protocol):
    """A policy behind the barrier that checks it, here or in another process."""

    @property
    def is_lost(self) -> bool:
        """Whether its memory cannot be relied on, so that it must begin anew."""

    @property
    def aside(self) -> str:
        """Why it is not asked any more; empty: it is."""


class _Route(NamedTuple):
    """What is done with a kind of fact: fold it, let others observe it, react.

    `is_watched`: that depends on how its job was before.
    """

    fold: Rule
    observers: tuple[Observer, ...]
    reacts: bool
    is_watched: bool


class Scheduler:
    """One policy on one state."""

    __slots__ = (
        "_effects",
        "_events",
        "_listeners",
        "_often",
        "_routes",
        "asked",
        "fruitless",
        "memory",
        "nothing_comes",
        "past",
        "planner",
        "policy",
        "reactor",
        "replan_needed",
        "round_ended",
        "rules",
        "state",
        "view",
        "world_ended",
    )

    def __init__(
        self,
        policy: Policy[Any],
        rules: RoundRules,
        state: State | None = None,
        listeners: Iterable[Observers] = (),
        asked: Asked | None = None,
        past: PastJobs | None = None,
    ) -> None:
        self.state = State() if state is None else state
        self.past: PastJobs = MemoryPastJobs() if past is None else past
        self.rules = rules
        self.policy = policy
        self.view = rules.view(self.state, oracle=policy.oracle)
        barrier = Barrier(policy, rules.on_fault)
        self.asked: Asked = barrier if asked is None else asked
        self._often: Policy[Any] = policy if asked is None and barrier.is_direct else self.asked
        self.view.open()
        self.view.now_us = self.state.now_us
        self.memory = self.asked.start(self.view)
        self.view.close()
        self.planner = Planner(self.asked, self.memory, self.state, self.view, rules)
        self.reactor = Reactor(self.state, rules)
        self.world_ended = self.round_ended = self.nothing_comes = False
        self.fruitless, self.replan_needed = 0, True
        self._listeners = (_recording(self.past, self.state), *listeners)
        self._routes = self._routed()
        self._events: list[Event] = []
        self._effects: list[Effect] = []

    def step(self, now_us: int, inputs: Sequence[Input]) -> tuple[list[Event], list[Effect]]:
        """Take in what happened up to now, decide if due; return facts and effects.

        Raises:
            IllegalEventError: an input contradicts the state.
        """
        self.take_in(now_us, inputs)
        if self.is_due(now_us):
            self.decide(now_us)
        return self.hand_on()

    def take_in(self, now_us: int, inputs: Sequence[Input]) -> None:
        """Take in what happened up to now, and what follows from it and the time.

        Raises:
            IllegalEventError: an input contradicts the state.
        """
        self.view.open()
        for item in inputs:
            HANDLERS[type(item)](self, item)
        if inputs and type(inputs[-1]) is not NothingComes:
            self.replan_needed, self.nothing_comes, self.fruitless = True, False, 0
        timers = self.reactor.timers
        if timers.is_set:
            while (fact := timers.due(now_us)) is not None:
                self.derive(fact)
                if type(fact) is facts.JobReleased:
                    self.replan_needed = True
        self.view.close()

    def is_due(self, now_us: int) -> bool:
        """Say whether a decision is due after what was taken in."""
        if self._effects and not self.rules.is_live and self._ends_somebody():
            return False  # it may be gone at this very instant; processes never are
        if self.rules.backend_rounds:
            ended, self.round_ended = self.round_ended, False
            return ended
        if self.rules.round_us and not self._is_on_grid(now_us):
            return False
        if self.replan_needed and not self._often.settled(self.memory):
            return True
        wake_us = self._often.wake_at(self.memory)
        return wake_us is not None and wake_us <= now_us

    def decide(self, now_us: int) -> None:
        """Ask the policy for a plan, and make facts of it.

        Raises:
            PlanError: the policy failed, or asks for plans for ever.
        """
        self.view.open()
        self._plan(now_us)
        self.view.close()

    def hand_on(self) -> tuple[list[Event], list[Effect]]:
        """Return the facts and effects since the last call, to be carried out."""
        events, effects = self._events, self._effects
        self._events, self._effects = [], []
        if effects:
            self.world_ended = False  # what they do is still to come
        return events, effects

    @property
    def pending(self) -> Sequence[Event]:
        """The facts that have not been handed on."""
        return self._events

    def deadline_us(self, now_us: int) -> int | None:
        """Return the next instant at which the core must be asked though nothing happens."""
        rules, timed_us = self.rules, self.reactor.timers.next_us()
        if rules.backend_rounds:
            return timed_us
        wake_us = self._often.wake_at(self.memory)
        if self.replan_needed and not self._often.settled(self.memory):
            wake_us = now_us + 1 if wake_us is None else min(wake_us, now_us + 1)
        if wake_us is not None:
            wake_us = rules.grid_at(max(wake_us, now_us + 1))
        if wake_us is None or timed_us is None:
            return timed_us if wake_us is None else wake_us
        return min(wake_us, timed_us)

    def emit(self, event: Event) -> None:
        """Make a fact and what follows: fold it, let it be observed, log it."""
        state, view, at_us = self.state, self.view, event.at_us
        if at_us < state.now_us:
            raise IllegalEventError(f"{type(event).__name__} at {at_us} us comes too late")
        fold, observers, reacts, is_watched = self._routes[type(event)]
        before = self.reactor.look(event) if is_watched else None
        result = fold(state, event) or NO_RESULT
        state.now_us = view.now_us = at_us
        state.seq += 1
        self._events.append(event)
        view.result = result
        for observe in observers:
            observe(event, view)
        for job in result.launched:
            self._launch(job)
        if reacts:
            for fact in self.reactor.react(event, result, before):
                self.derive(fact)

    def derive(self, fact: Event) -> None:
        """Make a fact that follows from others, with the order that goes with it."""
        if not holds(fact, self.state):
            return
        if orders_end(fact):
            self.terminate(self.state.jobs[fact.job_id])  # type: ignore[union-attr]  # all have one
        if type(fact) is facts.AllocationChanged:
            self.carry_out(fact)
        else:
            self.emit(fact)

    def order(self, effect: Effect) -> None:
        """Have something done to a job's attempt, once this step is durable."""
        self._effects.append(effect)

    def terminate(self, job: Job) -> None:
        """Ask for the end of a job's attempt."""
        self._effects.append(Terminate(job.job_id, job.attempt))

    def adopt(self, memory: Any, *, replan_needed: bool) -> None:
        """Go on with what this policy knew on this state."""
        self.memory = self.planner.memory = memory
        self.replan_needed, self._routes = replan_needed, self._routed()

    def ask_instead(self, asked: Asked) -> None:
        """Ask somebody else from now on, who goes on with the same memory."""
        self.asked = self._often = self.planner.policy = asked

    def _is_on_grid(self, now_us: int) -> bool:
        """Say whether a round begins now that has not been planned yet."""
        number, rest_us = divmod(now_us, self.rules.round_us)
        return not rest_us and number != self.state.round_number

    def _plan(self, now_us: int) -> None:
        trigger = (_ROUND if self.rules.round_us else _EVENT) if self.replan_needed else _WAKE
        if self.asked.is_lost:
            self._begin_anew(now_us)
        targets = self.planner.targets(now_us)
        if targets is not None:
            self.emit(targets)
        self.replan_needed = False
        self.fruitless += 1
        decisions = self.planner.decisions(now_us, trigger)
        if self.asked.aside:
            return  # it was set aside meanwhile, and decides nothing
        for event in decisions:
            if type(event) is facts.AllocationChanged:
                self.fruitless = 0
                self.carry_out(event)
            elif type(event) is facts.JobReshaped:
                self.fruitless = 0
                self._reshape(event)
            else:
                if isinstance(event, TRIALS):
                    self._effects.extend(orders_of(event, self.state))
                self.emit(event)
                if self.rules.round_us and leaves_work(event):
                    self.replan_needed = True  # without rounds, the next event is soon enough
        if self.fruitless >= ROUNDS_IN_VAIN and self.nothing_comes:
            self._refuse_rounds_for_ever()

    def _refuse_rounds_for_ever(self) -> None:
        """End a run in which nothing will happen, and the policy is asked on and on."""
        jobs, name = self.state.jobs, self.policy.name
        if not jobs:
            raise PlanError(
                f"policy {name} failed in wake_at: {self.fruitless:,} rounds were planned after "
                "the last job ended, and it asks for more; expected None once nobody waits"
            )
        if self.fruitless >= WAITS_IN_VAIN:
            raise PlanError(
                f"policy {name} failed in plan: in {self.fruitless:,} rounds it started nothing "
                f"and nothing else will happen; {len(jobs):,} jobs wait, first {next(iter(jobs))}"
            )

    def _begin_anew(self, now_us: int) -> None:
        """Give a policy that lost its memory a new one, as if it had just begun."""
        self.view.now_us = now_us
        self.adopt(self.asked.start(self.view), replan_needed=self.replan_needed)

    def _routed(self) -> dict[type[Event], _Route]:
        """Return what is done with each kind of fact, with the observers of today."""
        ours = self._often is self.policy
        asked = policy_observers(self.asked, self.memory, is_ours=ours)
        observers = merged([asked, *self._listeners])
        reacts = self.reactor.kinds
        return {
            kind: _Route(fold, observers.get(kind, ()), kind in reacts, kind in WATCHED)
            for kind, fold in RULES.items()
        }

    def carry_out(self, event: facts.AllocationChanged) -> None:
        """Change what a job is given, with the order that follows from it."""
        job = self.state.jobs[event.job_id]
        target = event.allocation
        if job.phase in AT_WORK and not job.stays_for(target):
            self._effects.append(
                Migrate(job.job_id, job.attempt, target)
                if target.shares
                else SuspendAttempt(job.job_id, job.attempt)
            )
        self.emit(event)

    def _reshape(self, event: facts.JobReshaped) -> None:
        """Change the CPUs and memory of a job, with the order that goes with it."""
        job = self.state.jobs[event.job_id]
        if job.since_us is not None:
            self._effects.append(ReshapeAttempt(job.job_id, job.attempt, event.allocation))
        self.emit(event)

    def _launch(self, job: Job) -> None:
        """Order the launch of an attempt that has begun."""
        self._effects.append(launch_of(job))
        if job.spec.time_limit_us is not None:
            self.reactor.timers.began(job)

    def _ends_somebody(self) -> bool:
        """Say whether this step asked a job to end that is not leaving already."""
        told = [effect.job_id for effect in self._effects if isinstance(effect, Terminate)]
        jobs = [self.state.jobs[job_id] for job_id in told if job_id in self.state.jobs]
        return any(job.allocation == job.held for job in jobs)


def launch_of(job: Job) -> Launch | Resume:
    """Return the order to start an attempt, from checkpoints that can be had."""
    if job.attempt == 1:
        return Launch(job.job_id, 1, job.held, job.spec_now)
    return Resume(job.job_id, job.attempt, job.held, job.spec_now, checkpoints=within_reach(job))


def leaves_work(event: Event) -> bool:
    """Say whether a fact of a round makes the next one due, whatever happens."""
    if type(event) is facts.RoundPlanned:
        return bool(event.fault)
    return type(event) is facts.PlanRejected


def policy_observers(policy: Policy[Any], memory: Any, *, is_ours: bool = False) -> Observers:
    """Return what a policy observes, without run times unless it is an oracle.

    One that is our own code throughout asks the view for them, which refuses.
    """
    observers = dict(policy.observers(memory))
    submitted = observers.get(facts.JobSubmitted)
    if submitted is not None and not policy.oracle and not is_ours:
        observers[facts.JobSubmitted] = _redacted(submitted)
    return observers


def merged(parts: Iterable[Observers]) -> dict[type[Event], tuple[Observer, ...]]:
    """Return who observes each kind of event, in order."""
    found: dict[type[Event], tuple[Observer, ...]] = {}
    for part in parts:
        for kind, observe in part.items():
            found[kind] = (*found.get(kind, ()), observe)
    return found


def _recording(past: PastJobs, state: State) -> Observers:
    """Return what keeps past jobs up to date."""

    def submitted(event: facts.JobSubmitted, view: View) -> None:
        if event.dedupe_key:
            past.take(state.seq, event)

    def ended(event: Event, view: View) -> None:
        past.take(state.seq, event)

    return {facts.JobSubmitted: submitted, **dict.fromkeys(JOB_ENDS, ended)}


def _redacted(observe: Observer) -> Callable[[facts.JobSubmitted, View], None]:
    def observe_without_duration(event: facts.JobSubmitted, view: View) -> None:
        observe(facts.JobSubmitted(event.at_us, event.job_id, event.spec), view)

    return observe_without_duration
