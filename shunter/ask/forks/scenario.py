"""What if, answered: several scenarios played and compared, with how wrong such answers are here.

The same policy is played along with the change. Where the log goes on after the moment, its
distance from the log is the error of this way of asking, and the change is compared with the log.
Where the log ends there, the change is compared with the same policy, and the error is unknown.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from shunter.ask.costs import NOT_SLOWED, Slowed
from shunter.ask.forks.fork import (
    NOBODY_CALLS,
    Discarding,
    ForkChange,
    ForkedWorld,
    ForkPoint,
    MakeWorld,
    Standing,
    Wishes,
    WorkOf,
    callers_propose,
    change_of,
    coming_jobs,
    end_of_instant,
    fork_at,
    fork_point,
    other_start,
    standing_at,
)
from shunter.ask.forks.future import Future, measure, read_future
from shunter.ask.forks.remaining import Worked, WorkEstimates, read_history
from shunter.ask.log_reading import first_start, place_of, state_at
from shunter.ask.recorded_terms import Rebuild, origin_of
from shunter.ask.staged_terms import refuse_other_version
from shunter.ask.words import clock
from shunter.backends.simulated import RecordedFailures, Resumed, RoundEnds
from shunter.config import world_around
from shunter.core import (
    Backend,
    JobLedger,
    JobResult,
    Observers,
    Scheduler,
    State,
    distribution,
    run_rounds,
    state_digest,
)
from shunter.counting import counted
from shunter.errors import UsageError
from shunter.events import ConfigurationSet, Event, JobId, MemoryPastJobs, NodeName, facts
from shunter.events.log import LogReader, read_log
from shunter.gc_control import collector_off
from shunter.run import Report, WorldParts, rebuild, recorded_parts, run_all, simulated_world
from shunter.workloads import TraceJob

NOT_IN_LOG = {
    "factors": "factors of distance and neighbours",
    "simulated sensitivity": "how sensitive models really are",
}
"""Tables of a simulated world that a log names by their digests only."""


def assumptions_of(
    started: facts.SchedulerStarted,
    parts: WorldParts,
    future: Future,
    *,
    drawn: int,
    is_rerun: bool,
    removes: bool,
) -> Sequence[str]:
    """Return what a fork takes for granted.

    Args:
        started: who decided in the log.
        parts: what the simulated world is made of.
        future: what came after the moment.
        drawn: of how many jobs the work was drawn.
        is_rerun: whether the run was made again from its beginning.
        removes: whether servers are taken away.
    """
    found = ["jobs are submitted and people give orders when they did, however long others wait"]
    found.append("servers are lost and come back when they did" + _beyond(started, parts))
    if started.simulated:
        found.append("run times are those of the trace")
    else:
        found.append(
            "a job that ended has as much work as it did, equally fast on all servers of a GPU "
            "type; starts, suspensions and changes of hands take what they took on average in this "
            "log"
        )
        found += parts.unmeasured
    if callers_propose(started):
        found.append(NOBODY_CALLS)
    if parts.staying:
        names = ", ".join(sorted(parts.staying))
        found.append(f"who went on to its end when told to leave does so again: {names}")
    if drawn:
        found.append(
            f"the run time of {counted(drawn, 'job')} that had not ended is drawn from those of "
            "jobs that had, by user and gang size"
        )
    if is_rerun:
        found.append("up to the moment the run was made again, and came to the state of the log")
    elif not (started.simulated and not _takes_time(parts)):
        found.append(
            "what is under way at the moment takes its whole cost, and turns begin a new quantum"
        )
    missing = [NOT_IN_LOG[name] for name, _ in started.digests if name in NOT_IN_LOG]
    found += [f"{what}: the log does not hold the table, so they do not count" for what in missing]
    if removes:
        found.append("a server that is taken away takes no new job; those on it run on")
    if future.left_out and not is_rerun:  # a run has all of its servers from the beginning
        words = ", ".join(f"{count} {kind}" for kind, count in sorted(future.left_out.items()))
        found.append(f"facts of the log that are not repeated: {words}")
    return found


def _beyond(started: facts.SchedulerStarted, parts: WorldParts) -> str:
    """Return what is said of losses after the log, where a world has its own."""
    failures = parts.simulation.failures
    breaks = started.simulated and (failures.mtbf or failures.rack_mtbf)
    return ", and go on so after the log ends" if breaks else ""


def _takes_time(parts: WorldParts) -> bool:
    """Say whether anything that jobs are told to do takes time."""
    return not parts.simulation.costs.costs({}).are_none or parts.slicing is not None


# A simulated world knows more than the state (turns, leases, checkpoints, orders under way). So if
# the log has all that it was made of, the run is made again from its beginning.

NOT_THE_SAME = "the run could not be made again as it was"

_OPENING = (facts.SchedulerStarted, facts.QuotaChanged, facts.NodeAdded)


async def rerun_to(
    reader: LogReader,
    seq: int,
    rebuild: Rebuild,
    make_world: MakeWorld,
    whole: Future,
    work_of: WorkOf,
    change: ForkChange,
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
    if not isinstance(started, facts.SchedulerStarted) or not started.simulated:
        raise UsageError(f"{NOT_THE_SAME}: its log does not begin with a simulation")
    policy, rules = rebuild(started)
    refuse_other_version(started, policy)
    at_us = await _instant_of(reader, seq)
    submitted = (
        each
        for each in whole.submissions
        if each.at_us <= at_us or not change.is_without(each.spec)
    )
    coming = coming_jobs(submitted, whole.work, work_of)
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


async def _hold_to_log(reader: LogReader, core: Scheduler, started: facts.SchedulerStarted) -> None:
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
class ScenarioResult:
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


def run_scenario(scenario: Scenario) -> ScenarioResult:
    """Play a scenario to its end.

    Raises:
        UsageError: there is no such moment, or no such server.
        ConfigError: the log cannot be simulated, or a wish is wrong.
        PlanError: the policy failed.
        LogError: the log cannot be read.
    """
    return asyncio.run(_play(scenario))


async def _play(scenario: Scenario) -> ScenarioResult:
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
    return ScenarioResult(
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
    future = await future_of(reader, point, parts, is_rerun=is_rerun)
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


async def future_of(
    reader: LogReader, point: ForkPoint, parts: WorldParts, *, is_rerun: bool
) -> Future:
    """Return what came after a moment, or all of a run that is made again."""
    return await read_future(
        reader,
        State() if is_rerun else point.state(),
        is_simulated=point.started.simulated,
        is_exact=parts.simulation.lease.lease(parts.round_us).is_exact,
    )


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
    change: ForkChange
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


_SCHEMA = 1
SHOWN_JOBS = 5
"""So many winners and losers are named."""

LEAST_S, LEAST_PART = 1.0, 0.01
"""A job whose JCT differs by less than a second and by less than a hundredth has the same one."""

Numbers = dict[str, float | int | None]
Stories = Mapping[JobId, JobResult]


def what_if(
    address: str,
    at: str | None,
    wishes: Wishes,
    *,
    seeds: int = 1,
    workers: int = 1,
    report: Report | None = None,
) -> dict[str, Any]:
    """Return the document that compares a change with what happened.

    Args:
        address: of the log.
        at: the moment, an event or an instant; None: the end of the log.
        wishes: what is to be otherwise; nothing: the same policy is held to the log.
        seeds: how many times the change is played, each with other chance.
        workers: how many processes play.
        report: told how many scenarios are done.
    Raises:
        UsageError: there is no such moment, or nothing to compare.
        ConfigError: the log cannot be simulated, or a wish is wrong.
    """
    same = Scenario(address, at)
    asked = [replace(same, wishes=wishes, seed=number or None) for number in range(seeds)]
    scenarios = [same, *asked] if wishes else [same, *asked[1:]]
    played = run_all(run_scenario, scenarios, workers, report)
    return _document(address, wishes, played[0], played[1:] if wishes else played)


def _document(
    address: str, wishes: Wishes, same: ScenarioResult, changed: Sequence[ScenarioResult]
) -> dict[str, Any]:
    from_log = _finished(same.recorded)
    before = from_log or _finished(same.stories)
    if not before:
        what = "no job finishes after that moment, neither in the log nor in a simulation from it"
        ends = len(same.recorded)
        if ends:
            raise UsageError(
                f"{what}, for what people asked counts as it was, and all {ends} that end after it "
                "in the log were cancelled or failed: name an earlier moment with --from, if jobs "
                "finished before"
            )
        raise UsageError(f"{what}: name an earlier one with --from")
    after = [_finished(each.stories) for each in changed]
    common = [job for job in before if all(job in each for each in after)]
    first = after[0]
    deltas = sorted(
        ((_jct_s(first[job]) - _jct_s(before[job]), before[job].ordinal, job) for job in common),
    )
    told = [(delta, job) for delta, _, job in deltas if _is_told(delta, before[job])]
    better = [each for each in told if each[0] < 0]
    worse = [each for each in reversed(told) if each[0] > 0]
    runs = [_numbers(each, common) for each in after]
    return {
        "schema": _SCHEMA,
        "evidence": "simulated",
        "log": address,
        "from": {"seq": same.seq, "us": same.at_us, "time": clock(same.at_us)},
        "policy": {"recorded": same.before, "simulated": changed[0].policy},
        "oracle": changed[0].is_oracle,
        "change": {
            "policy": wishes.policy,
            "settings": list(wishes.settings),
            "added": list(wishes.added),
            "removed": list(wishes.removed),
            "without": list(wishes.without),
        },
        "compared_with": "log" if from_log else "same policy",
        "jobs": {
            "compared": len(common),
            "left_out": len(before) - len(common),
            "unfinished": changed[0].unfinished,
            "better": len(better),
            "worse": len(worse),
            "same": len(common) - len(better) - len(worse),
        },
        "before": _numbers(before, common),
        "what_if": runs[0],
        "bands": _bands(runs),
        "seeds": len(changed),
        "is_certain": changed[0].is_certain,
        "accuracy": _accuracy(same) if from_log else None,
        "winners": [_delta(job, delta, before, first) for delta, job in better[:SHOWN_JOBS]],
        "losers": [_delta(job, delta, before, first) for delta, job in worse[:SHOWN_JOBS]],
        "assumptions": list(changed[0].assumptions),
    }


def _finished(stories: Stories) -> dict[JobId, JobResult]:
    return {job: one for job, one in stories.items() if one.status == facts.Outcome.finished}


def _is_told(delta_s: float, before: JobResult) -> bool:
    """Say whether a difference is more than a launch that took longer by chance."""
    return abs(delta_s) >= min(LEAST_S, LEAST_PART * _jct_s(before)) and delta_s != 0


def _jct_s(story: JobResult) -> float:
    assert story.jct_us is not None, "a finished job has an end"
    return story.jct_us / 1e6


def _numbers(stories: Stories, jobs: Sequence[JobId]) -> Numbers:
    """Return what is compared of some jobs, times in seconds."""
    chosen = [stories[job] for job in jobs]
    jct = distribution([one.jct_us or 0 for one in chosen])
    wait = distribution([one.wait_us or 0 for one in chosen])
    return {
        "mean_jct_s": jct.mean,
        "p50_jct_s": jct.p50,
        "p95_jct_s": jct.p95,
        "mean_wait_s": wait.mean,
        "preemptions": sum(one.preemptions for one in chosen),
        "migrations": sum(one.migrations for one in chosen),
        "last_end_s": max((one.end_us or 0 for one in chosen), default=0) / 1e6,
    }


def _bands(runs: Sequence[Numbers]) -> dict[str, dict[str, float | None]]:
    """Return least, mean and most of each number over the seeds."""
    found: dict[str, dict[str, float | None]] = {}
    for name in runs[0]:
        values = [value for run in runs if (value := run[name]) is not None]
        found[name] = {
            "least": min(values, default=None),
            "mean": fmean(values) if values else None,
            "most": max(values, default=None),
        }
    return found


def _accuracy(same: ScenarioResult) -> dict[str, float | int | None]:
    """Return how far the same policy, simulated, is from what happened.

    The error of the mean is relative; that of a job is the difference of its completion times.
    """
    recorded, simulated = _finished(same.recorded), _finished(same.stories)
    common = [job for job in recorded if job in simulated]
    if not common:
        return {"jobs": 0, "mean_jct_error": None, "exact": 0, "mean_job_error_s": None}
    before = fmean(_jct_s(recorded[job]) for job in common)
    after = fmean(_jct_s(simulated[job]) for job in common)
    gaps = [abs(_jct_s(simulated[job]) - _jct_s(recorded[job])) for job in common]
    return {
        "jobs": len(common),
        "mean_jct_error": after / before - 1 if before else 0.0,
        "exact": sum(not gap for gap in gaps),
        "mean_job_error_s": fmean(gaps),
    }


def _delta(job: JobId, delta_s: float, before: Stories, after: Stories) -> dict[str, object]:
    one = before[job]
    return {
        "job": job,
        "user": one.user,
        "gpus": one.gpus,
        "delta_s": delta_s,
        "before_jct_s": _jct_s(one),
        "what_if_jct_s": _jct_s(after[job]),
    }
