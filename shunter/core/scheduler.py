"""The functional core: inputs in, facts and effects out; no I/O, no clock, no logging.

`step` folds each fact as it emits it: a decision needs the observations of its own step.
Within one instant the order is: ends, failures, node changes, arrivals (as the backend hands them
over), then time limits, then ranks that change by themselves, then the round.

First the scheduler, then what each input becomes: one function a kind, from command or observation
to facts (`HANDLERS`).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from shunter.core.cluster import Health
from shunter.core.fold import RULES, can_begin, can_end, given_up, job_of, within_reach
from shunter.core.interfaces import (
    AttemptExited,
    CancelJob,
    ChangePriority,
    Continue,
    DiscardCheckpoint,
    DrainNode,
    Effect,
    HoldJob,
    Input,
    Launch,
    Migrate,
    NothingComes,
    Observer,
    Observers,
    Policy,
    ProposeGang,
    QuarantineGpu,
    ReleaseGpu,
    ReleaseJob,
    ReshapeAttempt,
    ResizeJob,
    RestoreNode,
    Resume,
    RoundEnded,
    SetAside,
    SetAttemptAside,
    ShareTurns,
    Stop,
    SubmitJob,
    SuspendAttempt,
    SuspendJob,
    Terminate,
    Weigh,
    WorldEnded,
)
from shunter.core.planning import Barrier, Planner, Refused, RoundRules, looked_at, orders_of
from shunter.core.reactor import WATCHED, Reactor, holds, orders_end
from shunter.core.state import AT_WORK, ENDING, NO_RESULT, Job, Rule, State
from shunter.core.view import View
from shunter.errors import IllegalEventError, PlanError
from shunter.events import (
    CALLER,
    GIVEN_UP,
    HELD,
    JOB_ENDS,
    NOTHING,
    TRIALS,
    Event,
    MemoryPastJobs,
    PastJobs,
    Sharing,
    SuspendMode,
    ended_before,
    facts,
    key_of,
)

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
        # What the world said last: it has ended, a round of its own has, nothing comes by itself.
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
        if self.rules.round_us:  # a round begins on the grid, and only once
            number, rest_us = divmod(now_us, self.rules.round_us)
            if rest_us or number == self.state.round_number:
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

    def _plan(self, now_us: int) -> None:
        trigger = (_ROUND if self.rules.round_us else _EVENT) if self.replan_needed else _WAKE
        if self.asked.is_lost:  # it begins with a new memory, as if it had just started
            self.view.now_us = now_us
            self.adopt(self.asked.start(self.view), replan_needed=self.replan_needed)
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


# What each input becomes.


def submit_job(core: Scheduler, order: SubmitJob) -> None:
    """Accept a job, unless it was under the same key."""
    past, spec = core.past, order.spec
    if order.key and past.job_of(key_of(spec.user, order.key)) is not None:
        return
    if past.outcome(order.job_id) is not None:
        raise IllegalEventError(f"job {order.job_id} was submitted twice")
    core.emit(
        facts.JobSubmitted(
            order.at_us,
            order.job_id,
            spec,
            order.duration_us,
            order.key,
            order.environment,
            ended_before(spec.depends_on, past) if spec.depends_on else (),
        )
    )


def cancel_job(core: Scheduler, order: CancelJob) -> None:
    """Ask a job to end; one that holds nothing has ended with that."""
    job = core.state.jobs.get(order.job_id)
    if job is None or job.phase is ENDING:
        return
    core.terminate(job)
    core.emit(facts.JobCancelRequested(order.at_us, order.job_id, order.by, order.group))


def hold_job(core: Scheduler, order: HoldJob) -> None:
    """Keep a job from starting; one that has ended meanwhile needs no order any more."""
    if order.job_id in core.state.jobs:
        core.emit(facts.JobHeld(order.at_us, order.job_id, order.by))


def suspend_job(core: Scheduler, order: SuspendJob) -> None:
    """Keep a job from starting, and take back what it was given if it can leave that.

    One of mode `stop` that runs keeps its GPUs, and stands still on them.
    """
    job = core.state.jobs.get(order.job_id)
    if job is None or job.phase is ENDING:
        return
    core.emit(facts.JobHeld(order.at_us, order.job_id, order.by))
    if core.rules.reacts_as_live and stays_in_place(job):
        core.order(Stop(job.job_id, job.attempt))
        return
    stays = job.since_us is not None and job.spec.suspend_mode is SuspendMode.never
    if job.allocation.shares and not stays:
        core.carry_out(
            facts.AllocationChanged(
                order.at_us, order.job_id, NOTHING, HELD, instant=core.rules.instant
            )
        )


def stays_in_place(job: Job) -> bool:
    """Say whether a job that somebody suspends is to stand still on its GPUs."""
    return job.phase in AT_WORK and job.spec.suspend_mode is SuspendMode.stop


def release_job(core: Scheduler, order: ReleaseJob) -> None:
    """Let a held job start."""
    job = core.state.jobs.get(order.job_id)
    if job is not None and job.is_on_hold:
        core.emit(facts.JobReleased(order.at_us, order.job_id, order.by))
        if core.rules.reacts_as_live and job.since_us is not None and stays_in_place(job):
            core.order(Continue(job.job_id, job.attempt))


def resize_job(core: Scheduler, order: ResizeJob) -> None:
    """Give a job another size; one that runs leaves, and goes on from its checkpoint.

    The size it has already is none, and one that is about to end needs no other.
    """
    job = core.state.jobs.get(order.job_id)
    if job is None or job.end_cause or job.phase is ENDING or job.spec.gpus == order.gpus:
        return
    core.emit(facts.JobResized(order.at_us, order.job_id, order.gpus, order.by))


def change_priority(core: Scheduler, order: ChangePriority) -> None:
    """Give a job another priority, and other turns if it takes any; its own is none."""
    job = core.state.jobs.get(order.job_id)
    if job is None or job.priority == order.priority:
        return
    core.emit(
        facts.JobPriorityChanged(order.at_us, order.job_id, order.priority, order.by, order.group)
    )
    if job.since_us is not None and job.held.sharing is Sharing.sliced:
        core.order(Weigh(job.job_id, job.attempt, job.turn_weight))


def set_attempt_aside(core: Scheduler, order: SetAttemptAside) -> None:
    """Believe nothing more of a job's attempt, and hold the job until it is released."""
    job = core.state.jobs.get(order.job_id)
    if job is None or job.since_us is None or job.set_aside == job.attempt:
        return
    if job.phase is not ENDING:
        core.emit(facts.JobHeld(order.at_us, order.job_id, order.by))
    core.emit(facts.AttemptSetAside(order.at_us, order.job_id, job.attempt, order.by))
    core.order(SetAside(job.job_id, job.attempt))


def discard_checkpoint(core: Scheduler, order: DiscardCheckpoint) -> None:
    """Let a job wait no more for the servers that do not answer."""
    job, cluster = core.state.jobs.get(order.job_id), core.state.cluster
    while job is not None and (found := given_up(job, cluster)) is not None:
        core.emit(
            facts.CheckpointDiscarded(
                order.at_us, job.job_id, found.attempt, found.nodes, found.step, GIVEN_UP, order.by
            )
        )


def attempt_started(core: Scheduler, seen: facts.AttemptStarted) -> None:
    """Note that an attempt runs, and what its checkpoints depend on if it is live.

    What could not be brought from lost servers is discarded with that.
    """
    for lost in core.reactor.discards(seen):
        core.emit(lost)
    core.emit(core.reactor.completed(seen))


def launch_failed(core: Scheduler, seen: facts.LaunchFailed) -> None:
    """Note that an attempt never started."""
    core.emit(core.reactor.unstarted(seen))


def attempt_exited(core: Scheduler, seen: AttemptExited) -> None:
    """Note that processes are gone; where that takes no time, it ends their job."""
    job = core.state.jobs.get(seen.job_id) or job_of(core.state, seen.job_id, "AttemptExited")
    rules, reactor = core.rules, core.reactor
    if rules.instant and seen.released and not reactor.may_retry(job):
        core.emit(reactor.end_of(job, seen.at_us, seen.exit_code, seen.ended_us))
        return
    gone_us = seen.ended_us if rules.is_live else None
    unused_us = reactor.unused_us(job, seen.at_us, seen.exit_code, gone_us)
    what = (seen.exit_code, gone_us, seen.memory_kills, seen.signal, unused_us)
    core.emit(facts.AttemptEnded(seen.at_us, seen.job_id, seen.attempt, *what))
    if seen.released:
        reactor.gone_us = seen.ended_us
        core.emit(facts.GpusReleased(seen.at_us, seen.job_id, seen.attempt))


def node_unreachable(core: Scheduler, seen: facts.NodeUnreachable) -> None:
    """Note that a server does not answer; of a lost one that is nothing new."""
    if core.state.cluster.server(seen.node).health is not Health.lost:
        core.emit(seen)


def world_ended(core: Scheduler, seen: WorldEnded) -> None:
    """Note that nothing more will come; whoever waits gets a last round."""
    core.world_ended = True
    if core.rules.backend_rounds and core.state.jobs:
        core.round_ended = True


def nothing_comes(core: Scheduler, seen: NothingComes) -> None:
    """Note that only the policy and its timers can still do something."""
    core.nothing_comes = True


def round_ended(core: Scheduler, seen: RoundEnded) -> None:
    """Note that it is time to plan."""
    core.round_ended = True


def as_is(core: Scheduler, seen: Any) -> None:
    """Record an observation that is a fact already."""
    core.emit(seen)


def of_attempt(
    core: Scheduler, seen: facts.AllocationLearned | facts.ReshapeRefused | facts.ProfileSampled
) -> None:
    """Record what was seen of an attempt, unless it is gone: such news comes late."""
    job = core.state.jobs.get(seen.job_id)
    if job is not None and job.attempt == seen.attempt and job.since_us is not None:
        core.emit(seen)


def stopped(core: Scheduler, seen: facts.JobStopped) -> None:
    """Record that an attempt stands still; others have their turns without it."""
    job = core.state.jobs.get(seen.job_id)
    if job is not None and job.packed_with:
        core.order(ShareTurns(job.job_id, job.attempt, ()))
    core.emit(seen)


def turn_changed(core: Scheduler, seen: facts.TurnStarted | facts.TurnEnded) -> None:
    """Record that a turn began or ended, unless it cannot be.

    What attempts note lies where their jobs can write.
    """
    job = core.state.jobs.get(seen.job_id)
    if job is None or job.attempt != seen.attempt or job.since_us is None:
        return
    if isinstance(seen, facts.TurnStarted):
        can_be = can_begin(core.state, job, seen)
        nodes = tuple([share.node for share in seen.shares]) if job.is_spread else ()
    else:
        can_be, nodes = can_end(core.state, job, seen), seen.nodes
    if job.held.sharing is Sharing.sliced and job.working_since_us is not None and can_be:
        core.emit(seen)
    else:
        cause = "it tells of a turn that cannot be"
        core.emit(facts.MessagesDropped(seen.at_us, seen.job_id, seen.attempt, 1, cause, nodes))


# Servers and their GPUs.


def drain_node(core: Scheduler, order: DrainNode) -> None:
    """Offer nothing of a server any more."""
    core.emit(facts.NodeDrained(order.at_us, order.node, order.by))


def restore_node(core: Scheduler, order: RestoreNode) -> None:
    """Offer a server again."""
    if core.state.cluster.server(order.node).drained:
        core.emit(facts.NodeRestored(order.at_us, order.node, order.by))


def quarantine_gpu(core: Scheduler, order: QuarantineGpu) -> None:
    """Offer one GPU of a server no more."""
    gpu_quarantined(
        core, facts.GpuQuarantined(order.at_us, order.node, order.gpu, f"by {order.by}")
    )


def release_gpu(core: Scheduler, order: ReleaseGpu) -> None:
    """Offer a quarantined GPU again."""
    if core.state.cluster.server(order.node).quarantined >> order.gpu & 1:
        core.emit(facts.GpuRestored(order.at_us, order.node, order.gpu))


def gpu_quarantined(core: Scheduler, seen: facts.GpuQuarantined) -> None:
    """Note that a GPU is to take no jobs, if it is there and that is news."""
    server = core.state.cluster.servers.get(seen.node)
    if server is None or server.health is Health.removed:
        return
    if seen.gpu < server.configuration.gpus and not server.quarantined >> seen.gpu & 1:
        core.emit(seen)


def gpus_taken(core: Scheduler, seen: facts.GpusTaken) -> None:
    """Note what of a server others hold, if that is news of one that is there."""
    server = core.state.cluster.servers.get(seen.node)
    if server is None or server.health is Health.removed:
        return
    known = server.taken, server.taken_cpus_milli, server.taken_memory_mb
    if known != (seen.gpu_mask, seen.cpus_milli, seen.memory_mb):
        core.emit(seen)


# Proposals of callers.


def propose_gang(core: Scheduler, order: ProposeGang) -> None:
    """Record a proposal, unless the job is rejected again in this round.

    One for a job that has ended meanwhile is none.
    """
    state, repeats = core.state, core.reactor.timers.repeats
    job = state.jobs.get(order.job_id)
    if job is None or not order.candidates:
        return
    version = min(order.version, state.seq)
    proposed = facts.GangProposed(
        order.at_us, order.job_id, version, order.candidates, CALLER, order.by
    )
    if repeats.is_again(job.job_id, order.at_us):
        verdict = looked_at(proposed, state, core.rules)
        if isinstance(verdict, Refused):
            repeats.count(job, verdict, order.at_us)
            return
    core.emit(proposed)


HANDLERS: dict[type[Input], Callable[[Scheduler, Any], None]] = {
    SubmitJob: submit_job,
    CancelJob: cancel_job,
    HoldJob: hold_job,
    SuspendJob: suspend_job,
    DiscardCheckpoint: discard_checkpoint,
    ReleaseJob: release_job,
    ResizeJob: resize_job,
    ChangePriority: change_priority,
    SetAttemptAside: set_attempt_aside,
    ProposeGang: propose_gang,
    DrainNode: drain_node,
    RestoreNode: restore_node,
    QuarantineGpu: quarantine_gpu,
    ReleaseGpu: release_gpu,
    AttemptExited: attempt_exited,
    facts.GpusReleased: as_is,
    facts.NodeLost: as_is,
    NothingComes: nothing_comes,
    WorldEnded: world_ended,
    RoundEnded: round_ended,
    facts.LaunchFailed: launch_failed,
    facts.AttemptStarted: attempt_started,
    facts.SpeedChanged: as_is,
    facts.SuspendAcknowledged: as_is,
    facts.SuspendEscalated: as_is,
    facts.TrainingStarted: as_is,
    facts.JobStopped: stopped,
    facts.JobContinued: as_is,
    facts.TurnStarted: turn_changed,
    facts.TurnEnded: turn_changed,
    facts.CheckpointSaved: as_is,
    facts.MessagesDropped: as_is,
    facts.JobWarned: as_is,
    facts.JobSuspended: as_is,
    facts.AttemptLost: as_is,
    facts.NodeUnreachable: node_unreachable,
    facts.NodeReachable: as_is,
    facts.GpuQuarantined: gpu_quarantined,
    facts.GpusTaken: gpus_taken,
    facts.AllocationLearned: of_attempt,
    facts.ReshapeRefused: of_attempt,
    facts.ProfileSampled: of_attempt,
    facts.ClockStepped: as_is,
    facts.SegmentSealed: as_is,
}
