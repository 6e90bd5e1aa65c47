"""Forks of a log: the moment at which one begins, the fork itself, and what is wanted otherwise."""

import json
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from shunter.ask.forks.future import Future
from shunter.ask.recorded_terms import Rebuild, last_start, terms_up_to
from shunter.ask.staged_terms import Term
from shunter.ask.told_terms import told_term
from shunter.backends.simulated import Resumed, TotalWork
from shunter.config import (
    ClusterSection,
    Config,
    Fault,
    NodeGroup,
    PolicyRuntime,
    PolicySection,
    equipped,
    expanded_hostlist,
    faults_of,
    find_policy,
    parse_path,
    parse_value,
    path_text,
    recorded_runtime,
    refuse_callers,
    refuse_misfits,
    refused_at_events,
    unsized,
)
from shunter.core import (
    AnyPolicy,
    Backend,
    CancelJob,
    DrainNode,
    Effect,
    EventLog,
    Health,
    Input,
    Job,
    Observers,
    Scheduler,
    State,
    SubmitJob,
    leaves_work,
    run_rounds,
)
from shunter.core.planning import CanPropose, RoundRules
from shunter.errors import ConfigError, UsageError
from shunter.events import (
    JOB_ENDS,
    ClockStepped,
    ConfigurationSet,
    Event,
    EventsLost,
    FactClass,
    JobId,
    JobReleased,
    JobSpec,
    JobSubmitted,
    MemoryPastJobs,
    NodeAdded,
    NodeName,
    RoundPlanned,
    SchedulerStarted,
    SchedulerStopped,
    SegmentSealed,
    UserName,
    class_of,
    decode_record,
    encode_record,
)
from shunter.events.log import LogReader
from shunter.gc_control import collector_off
from shunter.workloads import JobEnd, TraceJob

# A fork point is kept encoded, because each fork needs a state of its own: a deep copy takes ten
# times as long as decoding.

_NO_INPUTS = (ClockStepped, EventsLost, SegmentSealed, SchedulerStopped)
_FOLLOWING = (JobReleased, *JOB_ENDS)
"""What follows from inputs that may leave no other trace, and may make a plan due itself."""

_INPUTS = (FactClass.observed, FactClass.commanded)


@dataclass(frozen=True)
class ForkPoint:
    """State and policy right after an event, where a step has just ended.

    `replan_needed` says that something happened since the last plan. Without an encoded memory the
    policy had lost its own, or was set aside.
    """

    seq: int
    at_us: int
    started: SchedulerStarted
    policy: AnyPolicy
    rules: RoundRules
    encoded_state: bytes
    encoded_memory: bytes
    memory_type: type
    replan_needed: bool

    def state(self) -> State:
        """Return the state, a copy of its own for each call."""
        state: State = decode_record(State, self.encoded_state)
        return state


async def fork_point(reader: LogReader, seq: int, rebuild: Rebuild) -> ForkPoint:
    """Return the moment right after an event, the last one of its instant.

    Args:
        reader: the log.
        seq: the number of the event.
        rebuild: makes the policy of a term.
    Raises:
        UsageError: nobody had begun to decide by then.
        ConfigError: the policy that did is not installed.
        LogDamagedError: the bytes of the log are not what was written.
    """
    began_seq, started = await _term_at(reader, seq)
    replan_needed = True

    def seen(event: Event, term: Term) -> None:
        nonlocal replan_needed
        replan_needed = _needs_plan(event, term, before=replan_needed)

    term = await told_term(reader, began_seq, started, seq, rebuild, seen)
    state = term.planner.state
    memory = b"" if term.asked.is_lost or term.asked.aside else encode_record(term.memory)
    return ForkPoint(
        state.seq,
        state.now_us,
        term.started,
        term.policy,
        term.rules,
        encode_record(state),
        memory,
        type(term.memory),
        replan_needed,
    )


def _needs_plan(event: Event, term: Term, *, before: bool) -> bool:
    """Say whether a plan is due after an event, as the scheduler's own step does."""
    if type(event) is RoundPlanned:
        return bool(term.rules.round_us) and leaves_work(event)
    if _is_input(event) or type(event) in _FOLLOWING:
        return True
    return before or (bool(term.rules.round_us) and leaves_work(event))


async def end_of_instant(reader: LogReader, seq: int) -> int:
    """Return the number of the last event at the instant of an event."""
    at_us, number = None, seq - 1
    async for event in reader.events(max(0, seq - 1)):
        if at_us is not None and event.at_us != at_us:
            break
        at_us, number = event.at_us, number + 1
    return max(seq, number)


def _is_input(event: Event) -> bool:
    """Say whether an event came from outside, so that it may be time for a plan."""
    return class_of(event) in _INPUTS and not isinstance(event, _NO_INPUTS)


async def _term_at(reader: LogReader, seq: int) -> tuple[int, SchedulerStarted]:
    """Return who decides after an event, and the number of the event that says so."""
    terms = await terms_up_to(reader, seq)
    started = last_start(event for _, event in terms)
    if started is None:
        raise UsageError(
            f"event {seq} belongs to no term: the log does not say who decided, so nothing can be "
            "forked there; name a later moment"
        )
    return terms[-1][0], started


# A fork writes nothing but its own state; the log that it came from is not touched.
#
#     fork point ─▶ state, policy with its memory ─┐
#                                                  ├─▶ round loop, into no log
#     future     ─▶ jobs that come, orders, losses ┘   (or one of its own)

WorkOf = Callable[[JobId, JobSpec, Job | None, int], TotalWork]
"""Tells the whole work of a job of which the future does not: its id, what it asks for, what it has
become if it is there already, and the instant."""

MakeWorld = Callable[[Sequence[TraceJob], Resumed | None], Backend]
"""Makes the simulated world in which some jobs come, and go on from where they are."""

PolicyAndRules = tuple[AnyPolicy, RoundRules]


@dataclass(frozen=True)
class ForkChange:
    """What is otherwise than it was, from the fork on; by default nothing.

    `started` and `run` are who decides instead, with the chance of `seed`.
    `orders` come in at the moment of the fork, after `facts` that are nobody's order.
    """

    started: SchedulerStarted | None = None
    run: PolicyAndRules | None = None
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
    run: PolicyAndRules
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
    change: ForkChange,
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
    coming = coming_jobs(
        (each for each in submitted if not change.is_without(each.spec)), known, work_of
    )
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


def fork_at(standing: Standing, change: ForkChange, listeners: Iterable[Observers] = ()) -> Fork:
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


def _scheduler(standing: Standing, change: ForkChange, listeners: Iterable[Observers]) -> Scheduler:
    """Return a scheduler on a state, with the memory of its policy if that stays."""
    policy, rules = standing.run if change.run is None else change.run
    seed = rules.seed if change.seed is None else change.seed
    rules = replace(rules, instant=standing.world.instant, seed=seed)
    standing.state.now_us = standing.now_us  # who begins anew begins then, not at the last event
    core = Scheduler(policy, rules, standing.state, listeners=listeners, past=standing.past)
    if change.run is None and standing.memory is not None:
        core.adopt(standing.memory, replan_needed=standing.replan_needed)
    return core


def coming_jobs(
    submitted: Iterable[JobSubmitted], known: Mapping[JobId, TotalWork], work_of: WorkOf
) -> list[TraceJob]:
    """Return jobs of a log, with their work, as a simulated world takes them."""
    found = []
    for each in submitted:
        work = known.get(each.job_id) or work_of(each.job_id, each.spec, None, each.at_us)
        ends = JobEnd(work.ends)
        found.append(TraceJob(each.job_id, each.at_us, each.spec, work.total_us, ends))
    return found


def _orders(change: ForkChange, state: State, now_us: int) -> Sequence[Input]:
    """Return what is ordered at the moment of a fork."""
    first: list[Input] = [DrainNode(now_us, name) for name in change.removed]
    first += [
        CancelJob(now_us, job.job_id, "what-if")
        for job in state.jobs.values()
        if change.is_without(job.spec)
    ]
    return [*first, *change.orders]


NOBODY_CALLS = "nobody calls in a fork, so job schedulers in here propose places"

_SIMULATED = ("schema", "seed", "cluster", "policy", "queues", "simulation")
"""The tables of a record that are as they are in a config file."""

_EXAMPLE = "such as name=gpu9,gpus=8,type=v100"


@dataclass(frozen=True)
class Wishes:
    """What is to be otherwise, as it was written; nothing by default.

    `settings` are KEY=VALUE, of `policy` or of a policy's parameters (`gavel.objective=…`).
    """

    policy: str | None = None
    settings: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything is to be otherwise."""
        return self != Wishes()


def change_of(
    wishes: Wishes, started: SchedulerStarted, state: State, known_users: Container[str]
) -> ForkChange:
    """Return the change of a fork.

    Args:
        wishes: what is to be otherwise.
        started: who decided in the log.
        state: at the moment of the fork.
        known_users: who has jobs then, or submits some later.
    Raises:
        ConfigError: a setting or a server is wrong, or there is no such policy.
        UsageError: a server or user is not there, or a server is there already.
    """
    known = state.cluster.servers
    there = [name for name, server in known.items() if server.health is not Health.removed]
    added = [each for text in wishes.added for each in _servers(text)]
    for place, (name, _) in enumerate(added):
        if name in there:
            raise UsageError(f"--add-node: there is a server {name} already")
        if any(name == other for other, _ in added[:place]):
            raise UsageError(f"--add-node: {name} is added twice")
    removed = [name for text in wishes.removed for name in _names(text)]
    for name in removed:
        if name not in there:
            raise UsageError(
                f"--remove-node: there is no server {name}; `shunter nodes` lists them"
            )
    users = tuple(UserName(user) for user in wishes.without)
    for user in users:
        if user not in known_users:
            raise UsageError(f"--without-user: nobody named {user} has or submits jobs there")
    other = other_start(started, wishes)
    if other is None:
        return ForkChange(added=added, removed=removed, without=users)
    runtime = _changed_runtime(started.config, other.config)
    policy = runtime.policy
    other = replace(other, policy=policy.name, policy_version=policy.version)
    run = policy, runtime.rules
    return ForkChange(other, run, added=added, removed=removed, without=users)


def other_start(started: SchedulerStarted, wishes: Wishes) -> SchedulerStarted | None:
    """Return what would have started another policy, or other parameters.

    Where callers proposed, job schedulers in here do. None: nobody wants either.

    Raises:
        ConfigError: a setting is wrong, or there is no such policy.
    """
    policy, settings = wishes.policy, wishes.settings
    document = json.loads(started.config)
    section = document["policy"]
    if policy is None and not settings and not _calls(section):
        return None
    if _calls(section):
        section["decentralised"]["schedulers"] = "built_in"
    if policy is not None and policy != section["name"]:
        find_policy(policy)
        section["name"], section["params"] = policy, {}
    paths = []
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--set {text}: expected KEY=VALUE, such as policy.round=300s")
        path = _path_of(key.strip(), section["name"])
        if value.strip() or path[1:] == ["name"]:
            _put(document, path, parse_value(value), key.strip())
            paths.append(path)
        else:
            _leave_out(document, path)
    _drop_idle(section, paths)
    chosen = section["params"].get(section["name"], {})
    section["params"] = {section["name"]: chosen}
    _check(section, chosen)
    refuse_callers(PolicySection.model_validate_json(json.dumps(section)))
    config = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return replace(started, config=config)


def _drop_idle(section: dict[str, Any], paths: Sequence[Sequence[str]]) -> None:
    """Drop keys of sizing that nobody set here and that its kind does not use."""
    sizing = section.get("sizing")
    used = {"correct_beyond": sizing not in (None, "proportional"), "solve_limit": sizing == "opt"}
    for key, is_used in used.items():
        if not is_used and ["policy", key] not in [list(path) for path in paths]:
            section.pop(key, None)


def callers_propose(started: SchedulerStarted) -> bool:
    """Say whether callers proposed places in a log; nobody does in a fork."""
    return _calls(json.loads(started.config)["policy"])


def _calls(section: Mapping[str, Any]) -> bool:
    scheme = section.get("decentralised")
    return scheme is not None and scheme["schedulers"] == "callers"


def _path_of(key: str, policy: str) -> Sequence[str]:
    """Return where a setting stands in the record of a config.

    Raises:
        ConfigError: it is not of the policy that is to decide.
    """
    path = [str(part) for part in parse_path(key)]
    if path[0] != "policy":
        path = ["policy", "params", *path]
    if path == ["policy"] or (path[1:2] == ["params"] and path[2:3] != [policy]):
        raise ConfigError(
            f"--set {key}: expected a key of the table [policy], such as policy.round, or a "
            f"parameter of the policy that decides, such as {policy}.KEY"
        )
    return path


def _check(section: Mapping[str, object], params: object) -> None:
    """Raise ConfigError with one line for each key that is wrong."""
    name = str(section["name"])
    for model, document, place in (
        (PolicySection, section, "policy"),
        (find_policy(name).Params, params, name),
    ):
        try:
            model.model_validate_json(json.dumps(document))
        except ValidationError as error:
            lines = [
                f"--set {'.'.join(map(str, (place, *each['loc'])))}: {each['msg']}"
                for each in error.errors()
            ]
            raise ConfigError("\n".join(lines)) from error


def _leave_out(tree: dict[str, Any], path: Sequence[str]) -> None:
    """Take a key or a table away, so that its default holds; there may be none."""
    for part in path[:-1]:
        inner = tree.get(part)
        if not isinstance(inner, dict):
            return
        tree = inner
    tree.pop(path[-1], None)


def _put(tree: dict[str, object], path: Sequence[str], value: object, key: str) -> None:
    for part in path[:-1]:
        inner = tree.get(part)
        if inner is None:
            inner = tree[part] = {}
        if not isinstance(inner, dict):
            raise ConfigError(f"--set {key}: {part} is a value and has no keys")
        tree = inner
    tree[path[-1]] = value


def _servers(text: str) -> Iterable[tuple[NodeName, ConfigurationSet]]:
    """Return the servers of a text such as `name=gpu[5-8],gpus=8,type=v100`."""
    table: dict[str, object] = {}
    for each in _split(text):
        key, equals, value = each.partition("=")
        if not equals:
            raise ConfigError(f"--add-node {text}: expected KEY=VALUE,…, {_EXAMPLE}")
        if key.strip() in table:
            raise ConfigError(f"--add-node {text}: {key.strip()} is there twice; {_EXAMPLE}")
        table[key.strip()] = parse_value(value)
    try:
        group = NodeGroup.model_validate_json(json.dumps(table))
        return ClusterSection(nodes=(group,)).servers()
    except ValidationError as error:
        wrong = error.errors()[0]
        where = ".".join(map(str, wrong["loc"])) or "it"
        raise ConfigError(f"--add-node {text}: {where}: {wrong['msg']}; {_EXAMPLE}") from error


def _names(text: str) -> Sequence[NodeName]:
    """Return the servers that a hostlist such as `gpu[1-2],gpu7` names."""
    try:
        names = expanded_hostlist(text)
    except ValueError as error:
        raise ConfigError(f"--remove-node {text}: {error}") from error
    if not names:
        raise ConfigError("--remove-node: expected the name of a server, such as gpu[1-2],gpu7")
    return [NodeName(name) for name in names]


def _split(text: str) -> Sequence[str]:
    """Return the parts of a text between its commas, but for those in brackets."""
    return re.split(r",(?![^\[]*\])", text)


def _changed_runtime(before: str, record: str) -> PolicyRuntime:
    """Return the policy and the rules of a record that was changed.

    A record is no config file: paths and tables are left out of it, and some keys are settled. So
    what was wrong with it already is not asked about again, only what the other values bring.

    Args:
        before: the record as it is in the log.
        record: the same with other values in `policy`.
    Raises:
        ConfigError: the values do not go together with each other, or with the cluster.
    """
    config, faults = _checked(record)
    known = _checked(before)[1]
    if new := [each for each in faults if each not in known]:
        raise ConfigError("\n".join(_line(each) for each in new))
    runtime = recorded_runtime(record)
    equipped(runtime.policy)
    if config is not None:
        refuse_misfits(config, runtime.policy, _params_of(config), is_live=runtime.rules.is_live)
    return runtime


def _checked(record: str) -> tuple[Config | None, list[Fault]]:
    """Return the config of a simulation by a record, and what is wrong with it."""
    document = json.loads(record)
    tree = {key: document[key] for key in _SIMULATED if key in document}
    tree["simulation"]["costs"].pop("gpu_copy_mb_s", None)  # its table is in no record
    try:
        config = Config.model_validate_json(json.dumps(tree))
    except ValidationError as error:
        return None, faults_of(error, Config, tree)
    params = {config.policy.name: _params_of(config)}
    return config, [*refused_at_events(config, params), *unsized(config)]


def _params_of(config: Config) -> Any:
    section = config.policy
    table = section.params.get(section.name, {})
    return find_policy(section.name).Params.model_validate_json(json.dumps(table))


def _line(fault: Fault) -> str:
    return f"{path_text(fault.path)}: {fault.what}" if fault.path else fault.what
