"""One simulated answer to "what if": a log, a moment, what is otherwise, and a seed.

A scenario is plain data, so that several can be played in processes of their own. Where a log is
one of a simulation whose world the state does not tell all of, the run is made again from its
beginning; anywhere else the world goes on from the state alone.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from shunter.ask.cost_fitting import NOT_SLOWED, Slowed
from shunter.ask.forking.assumptions import NOT_IN_LOG, assumptions_of
from shunter.ask.forking.changes import Wishes, change_of, other_start
from shunter.ask.forking.fork import (
    Change,
    Discarding,
    ForkedWorld,
    MakeWorld,
    Standing,
    WorkOf,
    coming_job,
    fork_at,
    standing_at,
)
from shunter.ask.forking.fork_point import ForkPoint, end_of_instant, fork_point
from shunter.ask.forking.future import Future, read_future
from shunter.ask.forking.measured import measure
from shunter.ask.forking.remaining import Worked, WorkEstimates
from shunter.ask.predictions.history import read_history
from shunter.ask.replaying.folding import state_at
from shunter.ask.replaying.lookup import first_start, place_of
from shunter.ask.replaying.recorded_terms import Rebuild, origin_of, refuse_other_version
from shunter.backends.simulated.failures import RecordedFailures
from shunter.backends.simulated.lease import RoundEnds
from shunter.backends.simulated.resuming import Resumed
from shunter.config.simulation import world_around
from shunter.core.interfaces import Backend, Observers
from shunter.core.metrics import JobLedger, JobResult
from shunter.core.round_loop import run_rounds
from shunter.core.scheduler import Scheduler
from shunter.core.state import State, state_digest
from shunter.errors import UsageError
from shunter.events.facts.cluster import NodeAdded, QuotaChanged
from shunter.events.facts.run import SchedulerStarted
from shunter.events.kinds import Event
from shunter.events.log import LogReader, read_log
from shunter.events.past_jobs import MemoryPastJobs
from shunter.events.values.configuration_set import ConfigurationSet
from shunter.events.values.ids import JobId, NodeName
from shunter.gc_control import collector_off
from shunter.run.setup import rebuild
from shunter.run.simulated_world import WorldParts, recorded_parts, simulated_world
from shunter.workloads.trace import TraceJob

# A simulated run, run once more up to a moment: the world is then exactly what it was.
#
# A world knows more than the state tells: where turns and leases stand, what a checkpoint held,
# what comes of orders under way. Where that matters, and the log has all that the world was made
# of, the run is made again from its beginning, and held to the log at the moment where it stops.

NOT_THE_SAME = "the run could not be made again as it was"

_OPENING = (SchedulerStarted, QuotaChanged, NodeAdded)


async def rerun_to(
    reader: LogReader,
    seq: int,
    rebuild: Rebuild,
    make_world: MakeWorld,
    whole: Future,
    work_of: WorkOf,
    change: Change,
    listeners: Iterable[Observers] = (),
) -> Standing:
    """Return a run as it was after an event and what else happened at its instant.

    Args:
        reader: the log of a simulation.
        seq: the number of the event.
        rebuild: makes the policy that decided.
        make_world: makes the world, with the jobs of the whole log.
        whole: what came in it, from its beginning.
        work_of: tells the work of jobs that have not ended.
        change: whose jobs do not come after that event.
        listeners: told of each fact from the beginning on.
    Raises:
        UsageError: it comes out otherwise than it was, or has more than one term.
    """
    opening = await _opening(reader)
    started = opening[0]
    if not isinstance(started, SchedulerStarted) or not started.simulated:
        raise UsageError(f"{NOT_THE_SAME}: its log does not begin with a simulation")
    policy, rules = rebuild(started)
    refuse_other_version(started, policy)
    at_us = await _instant_of(reader, seq)
    coming = [
        coming_job(
            each, whole.work.get(each.job_id) or work_of(each.job_id, each.spec, None, each.at_us)
        )
        for each in whole.submissions
        if each.at_us <= at_us or not change.is_without(each.spec)
    ]
    told = {each.job_id: each for each in whole.submissions}
    world = ForkedWorld(make_world(coming, None), whole.inputs, told)
    core = Scheduler(policy, rules, listeners=listeners)
    core.view.open()
    for fact in opening:
        core.emit(fact)
    core.view.close()
    core.hand_on()
    with collector_off():
        await _run_to(core, world, seq, at_us)
    await _hold_to_log(reader, core, started)
    assert isinstance(core.past, MemoryPastJobs), "a run of its own has all its past"
    run, now_us = (policy, rules), core.state.now_us
    return Standing(
        core.state, core.past, world, run, core.memory, core.replan_needed, now_us, core
    )


async def gone_on(standing: Standing, now_us: int) -> Standing:
    """Return a run that has gone on up to an instant, with nothing recorded."""
    core = standing.core
    if core is None or now_us <= standing.now_us:
        return standing
    await run_rounds(core, standing.world, Discarding(), standing.now_us, now_us)
    return replace(standing, now_us=now_us)


async def _run_to(core: Scheduler, world: Backend, seq: int, at_us: int) -> None:
    """Run from the beginning up to an event at an instant, and to no later instant.

    A step ends at that instant, which may else last up to the end of a round.
    """
    log, now_us, before = Discarding(), 0, -1
    while before < core.state.seq < seq:  # there may be more than one step at an instant
        before = core.state.seq
        now_us = await run_rounds(
            core, world, log, now_us, at_us, is_enough=lambda: core.state.seq >= seq
        )


async def _opening(reader: LogReader) -> list[Event]:
    """Return the facts with which a log begins, before anything happens."""
    found: list[Event] = []
    async for event in reader.events():
        if not isinstance(event, _OPENING):
            break
        found.append(event)
    return found


async def _instant_of(reader: LogReader, seq: int) -> int:
    async for event in reader.events(seq - 1, seq):
        return event.at_us
    return 0


async def _hold_to_log(reader: LogReader, core: Scheduler, started: SchedulerStarted) -> None:
    """Raise UsageError unless a run has led to the state that its log tells."""
    state = core.state
    head = await reader.head()
    recorded = await state_at(reader, min(state.seq, head.seq))
    if recorded.seq != state.seq or state_digest(recorded) != state_digest(state):
        missing = [NOT_IN_LOG[name] for name, _ in started.digests if name in NOT_IN_LOG]
        why = "`shunter replay LOG --verify` says where the code decides otherwise"
        if missing:
            why = f"the log does not hold the table of {' and of '.join(missing)}, only its digest"
        raise UsageError(
            f"{NOT_THE_SAME}: after e{state.seq} it is not in the state that the log tells; {why}"
        )


@dataclass(frozen=True)
class Scenario:
    """A fork of a log, `at` an event or instant (None: its end).

    At an instant between two events it begins there: what was under way has gone on up to then.
    `seed` draws what is not known and is the chance of the policy; None: as it was in the log.
    """

    address: str
    at: str | None = None
    wishes: Wishes = field(default_factory=Wishes)
    seed: int | None = None


@dataclass(frozen=True)
class Played:
    """What came of a scenario.

    `stories` are the jobs that ended in the fork, `recorded` those that ended after the moment in
    the log. `unfinished` had not ended when nothing could happen any more. `assumptions` are
    sentences. `policy` is who decided in the fork, `before` who did in the log. `is_certain` says
    that another seed would have given the same, unless by the chance of a policy.
    """

    seq: int
    at_us: int
    policy: str
    before: str
    is_oracle: bool
    is_simulated: bool
    is_certain: bool
    stories: Mapping[JobId, JobResult]
    recorded: Mapping[JobId, JobResult]
    unfinished: int
    assumptions: Sequence[str]


def play(scenario: Scenario) -> Played:
    """Play a scenario to its end.

    Raises:
        UsageError: there is no such moment, or no such server.
        ConfigError: the log cannot be simulated, or a wish is wrong.
        PlanError: the policy failed.
        LogError: the log cannot be read.
    """
    return asyncio.run(_play(scenario))


async def _play(scenario: Scenario) -> Played:
    ledger = JobLedger()
    async with read_log(scenario.address) as reader:
        staged = await _staged(reader, scenario)
        future = staged.future
        standing = await staged.standing(reader, ledger)
    at_us, seq = standing.now_us, standing.state.seq
    fork = fork_at(standing, staged.change, [ledger.observers()])
    await fork.run()
    started = staged.point.started
    assumptions = assumptions_of(
        started,
        staged.parts,
        future,
        drawn=len(staged.estimates.drawn),
        is_rerun=staged.is_rerun,
        removes=bool(staged.change.removed),
    )
    return Played(
        seq,
        at_us,
        fork.core.policy.name,
        started.policy,
        fork.core.policy.oracle,
        started.simulated,
        not staged.estimates.drawn,
        _ended_after(ledger, at_us),
        _ended_after(future.ledger, at_us),
        len(fork.core.state.jobs),
        assumptions,
    )


async def _staged(reader: LogReader, scenario: Scenario) -> "Staged":
    origin = origin_of(await first_start(reader))
    asked, at_us = await place_of(reader, scenario.at, origin)
    point = await fork_point(reader, await end_of_instant(reader, asked), rebuild)
    started, state = point.started, point.state()
    parts = recorded_parts(started.config)
    is_rerun = needs_rerun(point, parts, scenario.wishes)
    is_exact = parts.simulation.lease.lease(parts.round_us).is_exact
    future = await read_future(
        reader,
        State() if is_rerun else point.state(),
        is_simulated=started.simulated,
        is_exact=is_exact,
    )
    users = {job.spec.user for job in state.jobs.values()}
    users |= {each.spec.user for each in future.submissions}
    change = change_of(scenario.wishes, started, state, users)
    change = replace(change, seed=scenario.seed)
    slowed = NOT_SLOWED
    if not started.simulated:
        measured = await measure(reader)
        measured.correct(future, state)
        parts, slowed = measured.parts(parts), measured.slowed
    seed = point.rules.seed if scenario.seed is None else scenario.seed
    worked = await _worked(reader, future, slowed, simulated=started.simulated)
    estimates = WorkEstimates(worked, seed, slowed=slowed)
    return Staged(point, state, parts, change, future, estimates, is_rerun, at_us)


async def _worked(
    reader: LogReader, future: Future, slowed: Slowed, *, simulated: bool
) -> Sequence[Worked]:
    """Return what jobs worked, for those whose work the log does not tell.

    Of a live log that are all who have ended in it, also before the moment, and who works still.
    """
    if simulated or not future.state.jobs:
        return tuple(future.ended.values())
    history = await read_history(reader)
    history.slowed = slowed
    return history.worked_before(history.state, history.state.now_us, 0)


@dataclass(frozen=True)
class Staged:
    """What a fork is made of; `state` is that of the moment, only looked at.

    `at_us` is the instant at which it begins, if that is later than the last event before it.
    """

    point: ForkPoint
    state: State
    parts: WorldParts
    change: Change
    future: Future
    estimates: WorkEstimates
    is_rerun: bool
    at_us: int = 0

    async def standing(self, reader: LogReader, ledger: JobLedger) -> Standing:
        """Return the state and the world to go on from."""
        work_of, change = self.estimates.work_of, self.change
        if not self.is_rerun:
            return standing_at(
                self.point, self._make_world(), self.future, work_of, change, self.at_us
            )
        standing = await rerun_to(
            reader,
            self.point.seq,
            rebuild,
            self._make_world(),
            self.future,
            work_of,
            change,
            [ledger.observers()],
        )
        return await gone_on(standing, self.at_us)

    def _make_world(self) -> MakeWorld:
        change, started, parts = self.change, self.point.started, self.parts
        if change.started is not None:
            parts = replace(parts, slicing=recorded_parts(change.started.config).slicing)
        losses = RecordedFailures(tuple(self.future.node_changes))
        return recorded_world(
            self.point,
            self.state,
            parts,
            further=change.added,
            losses=None if started.simulated else losses,
        )


def recorded_world(
    point: ForkPoint,
    state: State,
    parts: WorldParts,
    *,
    further: Sequence[tuple[NodeName, ConfigurationSet]] = (),
    losses: RecordedFailures | None = None,
) -> MakeWorld:
    """Return what makes the world of a log, with the servers and jobs of a moment.

    Args:
        point: the moment.
        state: that of the moment, only looked at.
        parts: what the world is made of.
        further: servers that join it.
        losses: of servers; None: those that `parts` foresee.
    """
    servers = [(name, server.configuration) for name, server in state.cluster.servers.items()]

    def make(jobs: Sequence[TraceJob], resumed: Resumed | None) -> Backend:
        specs = [*(job.spec for job in jobs), *(job.spec for job in state.jobs.values())]
        backend = simulated_world(
            parts, servers, jobs, specs=specs, resumed=resumed, further=further, losses=losses
        )
        name = parts.simulation.world
        if not name:
            return backend
        where = [where for _, where in servers]
        return world_around(name, backend, parts.round_us, point.policy, where)

    return make


def needs_rerun(point: ForkPoint, parts: WorldParts, wishes: Wishes) -> bool:
    """Say whether the world of a log knows more than the state tells.

    Raises:
        UsageError: it does, and other jobs are to take turns there than did.
    """
    if not point.started.simulated:
        return False
    simulation = parts.simulation
    breaks = simulation.failures.mtbf or simulation.failures.rack_mtbf
    if point.rules.instant and not breaks and not simulation.world:
        return False
    other = other_start(point.started, wishes)
    if other is None or recorded_parts(other.config).slicing == parts.slicing:
        return True
    if simulation.lease.round_ends is RoundEnds.last_gang or simulation.world:
        raise UsageError(
            "in the world of this log no jobs take turns: leave policy.slicing as it is"
        )
    return False


def _ended_after(ledger: JobLedger, at_us: int) -> dict[JobId, JobResult]:
    """Return the stories of the jobs that ended after an instant."""
    return {
        story.job_id: story
        for story in ledger.stories()
        if story.end_us is not None and story.end_us > at_us
    }
