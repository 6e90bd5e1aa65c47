"""The whole core against a hostile world: any order of commands, outcomes and silly plans.

After every step all invariants of the state hold, the facts fold to the same state from nothing,
guards are kept, and nobody has made room in vain. In the end a live run is verified: all of its
facts follow from those that were seen and commanded.
"""

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from shunter.ask import Verifier
from shunter.core import (
    AttemptExited,
    CancelJob,
    ChangePriority,
    DrainNode,
    Effect,
    Guards,
    HoldJob,
    Input,
    Launch,
    Migrate,
    ReleaseJob,
    RestoreNode,
    Resume,
    Scheduler,
    State,
    SubmitJob,
    SuspendAttempt,
    SuspendJob,
    Terminate,
)
from shunter.core.fold import apply
from shunter.events import (
    AllocationChanged,
    AttemptLost,
    AttemptStarted,
    Event,
    GpusReleased,
    JobId,
    JobSpec,
    JobSubmitted,
    JobSuspended,
    LaunchFailed,
    NodeLost,
    NodeName,
    NodeReachable,
    NodeUnreachable,
    PlanRejected,
    RoundPlanned,
    SchedulerStarted,
    encode_record,
)
from tests.factories import POLICY_NAMES, World, job_id, las_policy, node_added, policy, quota
from tests.property.invariants import check_state, down_nodes
from tests.property.puppet import Puppet, wishes
from tests.property.worlds import guards, specs
from tests.replay.eventful_run import RECORD
from tests.replay.recording import rebuilt
from tests.slices import searched

Attempt = tuple[JobId, int]
NODES = tuple(
    node_added(number, gpus, gpu_type=kind, cpus_milli=8000, memory_mb=8, rack=f"r{number % 2}")
    for number, (gpus, kind) in enumerate([(2, "v100"), (4, "v100"), (3, "k80"), (0, "")])
)
NODE_NAMES = st.sampled_from([added.node for added in NODES])
COUNT = st.integers(0, 30)
KINDS = ["start", "start", "start", "suspend", "exit", "fail", "silence"]
"""What may come of a job that runs, one at a time; not all of it is always possible."""


UNGUARDED = ("node_lost", "held", "displaced")
"""Decisions that are no policy's: a server was lost, a job suspended, or its GPUs were others'."""


class CoreMachine(RuleBasedStateMachine):
    """Plays people and cluster. `attempts` is what really runs, and what it was told last."""

    may_be_displaced = False

    def __init__(self) -> None:
        super().__init__()
        self.now_us = 0
        self.submitted = 0
        self.attempts: dict[Attempt, str] = {}
        self.troubled: list[NodeName] = []
        self.events: list[Event] = []
        self.shadow = State()
        self.puppet = Puppet()
        self.core: Scheduler

    @initialize(
        name=st.sampled_from([*["puppet"] * len(POLICY_NAMES), *POLICY_NAMES]),
        round_us=st.sampled_from([0, 0, 4]),
        guarded=guards(),
        bound=st.one_of(st.none(), st.integers(0, 5)),
        live=st.booleans(),
        stay=st.booleans(),
    )
    def begin(
        self, name: str, round_us: int, guarded: Guards, bound: int | None, live: bool, stay: bool
    ) -> None:
        chosen: Any = self.puppet
        if name != "puppet":
            chosen = las_policy((6, 20)) if name == "las" else policy(name)
        queues = () if bound is None else (quota("a", bound),)
        world = World(
            servers=NODES,
            queues=queues,
            round_us=round_us,
            guards=guarded,
            is_live=live,
            checkpoints_stay=live and stay,
        )
        self.core, events = world.scheduler(chosen, instant=False)
        self._witness(events)

    @rule(
        wanted=st.lists(
            st.one_of(specs("gpus", 0, 5), specs("cpus", 0, 5)), min_size=1, max_size=3
        ),
        after=COUNT,
        retries=st.sampled_from([0, 0, 1, 2]),
        limit_us=st.sampled_from([None, None, 5, 20]),
        at_once=st.sampled_from([None, None, 1]),
    )
    def submit(
        self,
        wanted: list[JobSpec],
        after: int,
        retries: int,
        limit_us: int | None,
        at_once: int | None,
    ) -> None:
        at_us, first = self._at(after), self.submitted
        array = job_id(first) if at_once else JobId("")
        self.submitted += len(wanted)
        self._step(
            *(
                SubmitJob(at_us, job_id(first + number), spec, 3 * number + after)
                for number, spec in enumerate(
                    replace(
                        one, retries=retries, time_limit_us=limit_us, array=array, at_once=at_once
                    )
                    for one in wanted
                )
            )
        )

    @precondition(lambda machine: machine.core.state.jobs)
    @rule(which=COUNT, kind=st.sampled_from(["cancel", "hold", "suspend", "release", "priority"]))
    def command(self, which: int, kind: str) -> None:
        job = self._job(which)
        kind = "release" if self.core.state.jobs[job].is_on_hold else kind
        orders: dict[str, Input] = {
            "cancel": CancelJob(self.now_us, job),
            "hold": HoldJob(self.now_us, job),
            "suspend": SuspendJob(self.now_us, job),
            "release": ReleaseJob(self.now_us, job),
            "priority": ChangePriority(self.now_us, job, which % 3),
        }
        self._step(orders[kind])

    @precondition(lambda machine: not machine.troubled)
    @rule(node=NODE_NAMES, kind=st.sampled_from(["drain", "lose", "silence"]), after=COUNT)
    def trouble(self, node: NodeName, kind: str, after: int) -> None:
        """Take a server away."""
        at_us = self._at(after)
        self.troubled = [node]
        told: dict[str, Input] = {
            "drain": DrainNode(at_us, node),
            "lose": NodeLost(at_us, node),
            "silence": NodeUnreachable(at_us, node),
        }
        lost = self._lose_attempts(node, at_us) if kind == "lose" else []
        self._step(told[kind], *lost)

    @precondition(lambda machine: machine.troubled)
    @rule(after=COUNT)
    def repair(self, after: int) -> None:
        """Give back the server that was taken away, whatever was wrong with it."""
        at_us, node = self._at(after), self.troubled.pop()
        drained = self.core.state.cluster.servers[node].drained
        self._step(RestoreNode(at_us, node) if drained else NodeReachable(at_us, node))

    @precondition(lambda machine: machine.attempts)
    @rule(outcomes=st.lists(st.tuples(COUNT, st.sampled_from(KINDS), COUNT), max_size=4))
    def happen(self, outcomes: list[tuple[int, str, int]]) -> None:
        """Let the next thing happen to some attempts, according to what they were told."""
        for which, kind, after in outcomes:
            keys = list(self.attempts)[which % max(1, len(self.attempts)) :]
            seen = [self._outcome(key, kind, which, self._at(after)) for key in keys[:1]]
            self._step(*[item for item in seen if item is not None])

    @rule(after=COUNT)
    def wait(self, after: int) -> None:
        deadline_us = self.core.deadline_us(self.now_us)
        at_us = self._at(after)
        self.now_us = at_us if deadline_us is None else max(self.now_us, deadline_us)
        self._step()

    @precondition(lambda machine: machine.core.policy is machine.puppet and machine.core.state.jobs)
    @rule(data=st.data())
    def wish(self, data: st.DataObject) -> None:
        self.puppet.wishes = data.draw(wishes(self.core.state))
        rounds_us = self.core.rules.round_us
        self.now_us = self.core.rules.grid_at(self.now_us + bool(rounds_us))
        events = self._step()
        self._check_answers(events)
        self.puppet.wishes = []

    def _lose_attempts(self, node: NodeName, at_us: int) -> list[Input]:
        jobs = self.core.state.jobs
        lost = [
            (name, attempt)
            for name, attempt in self.attempts
            if any(share.node == node for share in jobs[name].held.shares)
        ]
        for key in lost:
            del self.attempts[key]
        return [AttemptLost(at_us, name, attempt, "node lost", 1) for name, attempt in lost]

    def _outcome(self, key: Attempt, kind: str, number: int, at_us: int) -> Input | None:
        name, attempt = key
        told = self.attempts[key]
        if kind == "silence":
            return None
        if told == "gone":
            del self.attempts[key]
            return GpusReleased(at_us, name, attempt)
        if kind == "exit" or told == "ending":
            released = number % 2 == 0
            self._forget(key, "" if released else "gone")
            return AttemptExited(at_us, name, attempt, number % 3, released)
        if told == "launching" and kind == "fail":
            del self.attempts[key]
            return LaunchFailed(at_us, name, attempt, "no")
        if told == "launching":
            self.attempts[key] = "running"
            return AttemptStarted(at_us, name, attempt)
        if kind == "suspend" or told == "leaving":
            self.attempts[key] = "gone"
            return JobSuspended(at_us, name, attempt, None, number % 4)
        return None

    def _job(self, which: int) -> JobId:
        jobs = list(self.core.state.jobs)
        return jobs[which % len(jobs)]

    def _at(self, after: int) -> int:
        self.now_us += after // 3
        return self.now_us

    def _forget(self, key: Attempt, told: str) -> None:
        if told:
            self.attempts[key] = told
        else:
            del self.attempts[key]

    def _step(self, *inputs: Input) -> list[Event]:
        events, effects = self.core.step(self.now_us, inputs)
        for effect in effects:
            self._perform(effect)
        self._witness(events)
        check_state(self.core.state, may_be_displaced=self.may_be_displaced)
        return events

    def _perform(self, effect: Effect) -> None:
        key = (effect.job_id, effect.attempt)
        if isinstance(effect, Launch | Resume):
            lost = down_nodes(effect.allocation, self.core.state)
            assert not lost, f"{effect.job_id} is launched on {lost}"
            assert key not in self.attempts, f"{key} is launched twice"
            self.attempts[key] = "launching"
        elif isinstance(effect, SuspendAttempt | Migrate):
            assert self.attempts[key] in ("launching", "running"), f"{key} cannot leave"
            self.attempts[key] = "leaving"
        elif isinstance(effect, Terminate) and self.attempts.get(key, "gone") != "gone":
            self.attempts[key] = "ending"

    def teardown(self) -> None:
        """Decide a live run again.

        What a puppet wished for stands in no log, and these steps pass over the ends of rounds.
        """
        if not self.events or self.core.policy is self.puppet:
            return
        if not self.core.rules.is_live or self.core.rules.round_us:
            return
        said = [
            replace(event, config=RECORD) if isinstance(event, SchedulerStarted) else event
            for event in self.events
        ]
        verifier = Verifier(rebuilt(self.core.policy, self.core.rules))
        found = verifier.take(said)
        assert found is None, "\n".join(found.lines())
        assert verifier.lenient == 0

    def _witness(self, events: list[Event]) -> None:
        """Fold the facts a second time, and look at each before it is true."""
        self.events += events
        answered = {event.job_id for event in events if isinstance(event, AllocationChanged)}
        refused = {event.job_id for event in events if isinstance(event, PlanRejected)}
        for event in events:
            if isinstance(event, AllocationChanged) and event.because.rule not in UNGUARDED:
                job = self.shadow.jobs[event.job_id]
                leaves = not job.stays_for(event.allocation)
                pinned = leaves and self.core.rules.guards.pinned_by(job, event.at_us)
                assert not pinned, f"{event.job_id} was guarded: {pinned}"
                gainers = set(event.because.beneficiaries)
                if not event.allocation.shares and gainers & refused:
                    assert gainers & answered, f"{event.job_id} makes room in vain"
            apply(self.shadow, event)
        assert encode_record(self.shadow) == encode_record(self.core.state)

    def _check_answers(self, events: list[Event]) -> None:
        """Every job there is with a wish was told yes or no, or would have made room in vain."""
        if not any(isinstance(event, RoundPlanned) for event in events):
            return
        told = [
            event.job_id for event in events if isinstance(event, AllocationChanged | PlanRejected)
        ]
        known = {event.job_id for event in events if isinstance(event, JobSubmitted)}
        made_room = [wished.job_id for wished in self.puppet.wishes if wished.because.beneficiaries]
        for wished in self.puppet.wishes:
            there = wished.job_id in self.core.state.jobs or wished.job_id in known
            answered = wished.job_id in told or wished.job_id in made_room
            assert answered or not there, f"no answer to {wished}"


@searched(60, stateful_step_count=40)
class SearchedMachine(CoreMachine):
    """The machine alone: others build on it, and are searched on their own."""


TestCoreMachine = SearchedMachine.TestCase
