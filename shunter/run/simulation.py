"""One simulation, from a config to its result.

    config ─▶ jobs ─▶ opening facts ─▶ round loop ─▶ closing fact, snapshot ─▶ closed log ─▶ result

Nothing here reaches the log but facts: no wall time, no host name, no process id. Read `simulate`;
after it come the measures of a run, and what interrupts a policy that is late.
"""

import asyncio
import signal
import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from statistics import fmean
from types import FrameType
from typing import Protocol

from shunter.config import CostsSection, LoadedConfig
from shunter.core import (
    NEVER_US,
    Backend,
    Command,
    Effect,
    Input,
    JobLedger,
    JobResult,
    NothingComes,
    Observers,
    ProposalNumbers,
    Scheduler,
    State,
    Step,
    View,
    run_rounds,
    state_digest,
)
from shunter.core.planning import OBSERVER, Barrier
from shunter.core.ranking import RankedPolicy
from shunter.errors import PlanError
from shunter.events import JOB_ENDS, NO_SUCH_JOB, Event, GpuType, JobId, facts
from shunter.events.log import LogWriter, NullStore, load_store, open_log
from shunter.gc_control import collector_off
from shunter.run.code_digests import sources_of
from shunter.run.parallel import Report
from shunter.run.setup import Setup, load_jobs, set_up
from shunter.run.snapshots import snapshot_of
from shunter.run.summary import SCHEMA, RunDocument, job_numbers, stories
from shunter.workloads import QualityReport, Trace

#     world ─▶ driven world ─▶ scheduler
#                   ▲
#                 driver: looks at the state at instants of its own, and orders as a client does
#
# Its orders are commanded facts of the log, so a verifier needs no driver. At its instant all else
# happens first; its orders take effect at that instant, and it is asked again only later.


class Driver(Protocol):
    """A program that gives orders by what it sees; the same states, the same orders."""

    def wake_at(self) -> int | None:
        """Return when it wants to look next, after its last look; None: never again."""

    def orders(self, now_us: int, view: View) -> Sequence[Command]:
        """Return what it orders now, with this instant; `view` is open for this call."""


class DrivenWorld:
    """Asks a driver at its instants, and leaves all else to the world behind."""

    __slots__ = ("_driver", "_view", "_world")

    def __init__(self, world: Backend, driver: Driver, view: View) -> None:
        self._world = world
        self._driver = driver
        self._view = view

    @property
    def instant(self) -> bool:
        """Whether nothing takes any time in the world behind."""
        return self._world.instant

    async def perform(self, effects: Sequence[Effect], now_us: int) -> None:
        """Carry orders out, as the world behind does."""
        await self._world.perform(effects, now_us)

    async def observe(
        self, until_us: int | None, gather_us: int = 0
    ) -> tuple[int, Sequence[Input]]:
        """Return what happens next, or what the driver orders before that."""
        wakes_us = self._driver.wake_at()
        if wakes_us is None or (until_us is not None and until_us < wakes_us):
            return await self._world.observe(until_us, gather_us)
        now_us, inputs = await self._world.observe(wakes_us, gather_us)
        if any(type(each) is not NothingComes for each in inputs):
            return now_us, inputs
        self._view.open()
        orders = self._driver.orders(now_us, self._view)
        self._view.close()
        wakes_us = self._driver.wake_at()
        assert wakes_us is None or wakes_us > now_us, "a driver looks once at an instant"
        return now_us, orders


SNAPSHOT_EVENTS, JOB_EVENTS = 25_000, 40
"""Events between snapshots at the least, and for each job that is there: the time of both is one
part in fifty of that of the run, or less."""

STEPS_BETWEEN_REPORTS = 500


@dataclass
class Recorder:
    """Stands between round loop and log; where nobody needs it, the log does alone.

    A snapshot is taken every so many events; with 0, as often as it costs next to nothing. `report`
    is told of the jobs that have ended, every few hundred steps.
    """

    core: Scheduler
    log: LogWriter
    jobs: int
    snapshot_every: int = 0
    report: Report | None = None
    _snapshot_due: int = 0
    _snapshot_seq: int = 0
    _steps: int = 0

    def __post_init__(self) -> None:
        """Set the first snapshot's place."""
        self._snapshot_due = self.snapshot_every or SNAPSHOT_EVENTS

    def append(self, events: Sequence[Event]) -> int:
        """Fix the order of events."""
        return self.log.append(events)

    async def commit(self) -> None:
        """Commit, after a snapshot if one is due."""
        if self.log.seq >= self._snapshot_due:
            await self._look_at_snapshot()
        await self.log.commit()
        self._steps += 1
        if self.report is not None and self._steps % STEPS_BETWEEN_REPORTS == 0:
            self.report(sum(self.core.state.outcomes.values()), self.jobs)

    async def _look_at_snapshot(self) -> None:
        """Take a snapshot, unless the state is too large for one so soon."""
        seq, apart = self.log.seq, self.snapshot_every
        if not apart:
            apart = JOB_EVENTS * len(self.core.state.jobs)
        if seq - self._snapshot_seq >= apart:
            await self.log.save_snapshot(snapshot_of(self.core))
            self._snapshot_seq = seq
            self._snapshot_due = seq + (self.snapshot_every or SNAPSHOT_EVENTS)


# Without a repr: asyncio asks for that of a task with its result, and a state's takes seconds.
@dataclass(frozen=True, repr=False)
class RunResult:
    """What a run gave: its document, and every job's story."""

    document: RunDocument
    trace: Trace
    ledger: JobLedger
    state: State
    refused: Sequence[JobId] = ()
    notes: Sequence[str] = ()

    @property
    def remarks(self) -> list[str]:
        """What is to be said of the run besides its numbers."""
        found = list(self.notes)
        if self.refused:
            count, name = len(self.refused), self.document["policy"]
            first = repr(self.refused[0])
            what = f"policy {name} planned {count:,} times for jobs that do not exist, first for"
            found.append(f"{what} {first}: refused")
        return found

    @property
    def report(self) -> QualityReport:
        """What was wrong with the trace."""
        return self.trace.report

    def stories(self) -> Iterator[JobResult]:
        """Yield the story of every job."""
        return stories(self.ledger, self.state)


@dataclass
class _Clock:
    """CPU and wall time of a run, in seconds."""

    startup_cpu_s: float = 0.0
    parsed_cpu_s: float = 0.0
    parsed_wall_s: float = 0.0

    def parsed(self) -> None:
        """Note that the jobs are there."""
        self.parsed_cpu_s, self.parsed_wall_s = time.process_time(), time.perf_counter()

    def elapsed(self) -> dict[str, float]:
        """Return how long it took up to now."""
        return {
            "wall_s": time.perf_counter() - self.parsed_wall_s,
            "cpu_s": time.process_time() - self.parsed_cpu_s,
            "startup_cpu_s": self.startup_cpu_s,
            "parse_cpu_s": self.parsed_cpu_s - self.startup_cpu_s,
        }


def simulate(
    loaded: LoadedConfig,
    *,
    trace: Trace | None = None,
    overwrite: bool = False,
    report: Report | None = None,
    listeners: Sequence[Observers] = (),
    driver: Driver | None = None,
    plain_log: bool = False,
) -> RunResult:
    """Run a config and return its result; its log is closed then.

    Args:
        loaded: the config.
        trace: jobs that were loaded already; None loads those of the config.
        overwrite: replace a log that exists.
        report: told now and then how many jobs have ended, and of how many.
        listeners: told of each fact once it is folded.
        driver: a program that watches the jobs and gives orders.
        plain_log: do not compress the log, so that `sqlite3` answers questions about it.
    Raises:
        TraceError: the trace is wrong.
        ConfigError: the config and the jobs do not go together.
        LogExistsError: there is a log already, and `overwrite` was not asked for.
        LogError: the log cannot be written.
    """
    load_store(loaded.config.log.url)
    clock = _Clock(startup_cpu_s=time.process_time())
    with collector_off():
        jobs = load_jobs(loaded) if trace is None else trace
        clock.parsed()
        setup = set_up(loaded, jobs)
        keep = loaded.config.log
        opened = open_log(
            keep.url, overwrite=overwrite, mode=keep.permissions, compressed=not plain_log
        )
        return asyncio.run(_run(setup, clock, opened, report, listeners, driver))


async def _run(
    setup: Setup,
    clock: _Clock,
    opened: AbstractAsyncContextManager[LogWriter],
    report: Report | None,
    others: Sequence[Observers],
    driver: Driver | None,
) -> RunResult:
    config = setup.loaded.config
    ledger, gaps, refused = JobLedger(), ShareGaps(), list[JobId]()
    listeners = [ledger.observers(), _strangers(refused), *others]
    policy, sizes, proposals = setup.runtime.policy, SizeGaps(), ProposalNumbers()
    if not isinstance(policy, RankedPolicy):
        listeners.append(gaps.observers())  # an index policy has no targets
    elif policy.sizing is not None and policy.sizing.solver is not None:
        listeners.append(sizes.observers())
    if config.policy.decentralised is not None:
        listeners.append(proposals.observers())
    core = Scheduler(setup.runtime.policy, setup.runtime.rules, listeners=listeners)
    world = setup.backend if driver is None else DrivenWorld(setup.backend, driver, core.view)
    async with opened as log:
        await log.note_sources(sources_of(config.policy.name))
        _emit(core, setup.opening(log.term))
        every = config.log.snapshot_every
        count = len(setup.trace.jobs)
        is_kept = log.url != NullStore.url
        every = every if is_kept else NEVER_US
        recorder = Recorder(core, log, count, every, report) if is_kept or report else log
        with timed(core, config.policy.time_limit) as step:
            await run_rounds(core, world, recorder, step=step)
        closing = [facts.SchedulerStopped(core.state.now_us, "end of the trace")]
        _emit(core, closing)
        log.append(closing)
        await log.save_snapshot(snapshot_of(core))
    elapsed = clock.elapsed()
    document = _document(setup, core, ledger, log)
    if (shares := gaps.document()) is not None:
        document["share_gap"] = shares
    if (optimum := sizes.document()) is not None:
        document["opt"] = optimum
    if config.policy.decentralised is not None:
        document["proposals"] = proposals.document(core.state.proposals)
    document["state_digest"] = state_digest(core.state)
    document["elapsed"] = elapsed
    notes = [*setup.notes, *near_thresholds(setup.loaded, stories(ledger, core.state))]
    if notes:
        document["notes"] = notes
    return RunResult(document, setup.trace, ledger, core.state, refused, notes)


def _strangers(refused: list[JobId]) -> Observers:
    """Collect the jobs for which a policy plans though they do not exist."""

    def noted(event: facts.PlanRejected, view: View) -> None:
        if event.detail == NO_SUCH_JOB:
            refused.append(event.job_id)

    return {facts.PlanRejected: noted}


def _emit(core: Scheduler, taken: Iterable[Event]) -> None:
    """Let the core take in facts that are nobody's decision."""
    core.view.open()
    for fact in taken:
        core.emit(fact)
    core.view.close()


def _document(setup: Setup, core: Scheduler, ledger: JobLedger, log: LogWriter) -> RunDocument:
    config, trace, state = setup.loaded.config, setup.trace, core.state
    alone_us = array("q", [job.duration_us for job in trace.jobs])
    numbers = job_numbers(stories(ledger, state), alone_us)
    rounds = state.round_number + 1
    return {
        "schema": SCHEMA,
        "evidence": "simulated",
        "policy": setup.runtime.policy.name,
        "oracle": setup.runtime.policy.oracle,
        "seed": config.seed,
        "cluster": {
            "gpus": config.cluster.gpus,
            **({"units": units} if (units := config.cluster.units) else {}),
            "nodes": len(config.cluster.servers()),
        },
        "trace": {
            "source": trace.source,
            "jobs": len(trace.jobs),
            "digest": trace.digest,
            "rows_read": trace.report.rows_read,
            "rows_dropped": trace.report.rows_dropped,
        },
        "jobs": numbers.counts,
        "jct_s": numbers.times["jct_s"],
        "wait_s": numbers.times["wait_s"],
        "makespan_s": ledger.last_end_us / 1e6,
        "gpu_utilisation": ledger.utilisation(state),
        "preemptions": numbers.preemptions,
        "migrations": numbers.migrations,
        "finish_time_fairness": numbers.fairness,
        "by_size": numbers.sizes,
        "rounds": {"planned": state.rounds_planned, "skipped": rounds - state.rounds_planned},
        "events": log.events,
        "log": {"url": log.url, "digest": log.digest},
    }


# A wall-clock limit for the policy, where asked for, since it depends on the machine. A signal that
# comes while the scheduler folds facts interrupts nothing, and comes again soon.

AGAIN_S = 0.01
_HOOKS = frozenset(
    {Barrier.start.__code__, Barrier.observers.__code__, Barrier.advance.__code__}
    | {Barrier.target.__code__, Barrier.plan.__code__, Barrier.wake_at.__code__}
    | {Barrier.settled.__code__}
)


@contextmanager
def timed(core: Scheduler, limit_us: int | None) -> Iterator[Step | None]:
    """Give a run's steps a time limit; None, the usual step, where there is none."""
    if limit_us is None:
        yield None
        return
    limit = _Limit(core, limit_us / 1e6)
    before = signal.signal(signal.SIGALRM, limit.interrupt)
    try:
        yield limit.step
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class _Limit:
    """Makes steps, and interrupts a policy that takes too long in one."""

    def __init__(self, core: Scheduler, limit_s: float) -> None:
        assert isinstance(core.asked, Barrier), "the policy of a simulation is at hand"
        self._core, self._barrier, self._limit_s = core, core.asked, limit_s
        self._told = 0
        self._is_recorded = False

    async def step(self, now_us: int, inputs: Sequence[Input]) -> tuple[list[Event], list[Effect]]:
        """Make a step; record it if the policy was set aside."""
        core, barrier = self._core, self._barrier
        barrier.is_late = bool(barrier.aside)
        signal.setitimer(signal.ITIMER_REAL, self._limit_s)
        core.take_in(now_us, inputs)
        if core.is_due(now_us):
            core.decide(now_us)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if barrier.aside and not self._is_recorded:
            self._is_recorded = True
            core.view.open()
            core.emit(facts.PolicySetAside(now_us, barrier.name, barrier.aside, self._told))
            core.view.close()
        return core.hand_on()

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Raise in the policy, if it is at work; look again soon in any case."""
        signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
        while frame is not None:
            if frame.f_code in _HOOKS or frame.f_code.co_name == OBSERVER:
                is_observer = frame.f_code.co_name == OBSERVER
                self._told = self._core.state.seq - is_observer
                self._barrier.is_late = True
                raise PlanError(f"it took longer than policy.time_limit, {self._limit_s:g} s")
            frame = frame.f_back


# What it costs that servers are many: the sum of all speeds in each round that programs sized, and
# its bound if all servers of a GPU type were one.


@dataclass(slots=True)
class SizeGaps:
    """Follows the answers of programs."""

    _speeds: list[float] = field(default_factory=list)
    _bounds: list[float] = field(default_factory=list)
    _gaps: list[float] = field(default_factory=list)
    _unsolved: int = 0

    def observers(self) -> Observers:
        """Return what it listens to."""
        return {facts.SizesSet: self._set}

    def document(self) -> dict[str, object] | None:
        """Return means and the largest gap; None where programs sized no jobs."""
        if not self._speeds:
            return None
        rounds = list(zip(self._speeds, self._bounds, strict=True))
        gaps = [1 - speed / bound if bound else 0.0 for speed, bound in rounds]
        return {
            "rounds": len(rounds),
            "unsolved": self._unsolved,
            "speed_mean": fmean(self._speeds),
            "bound_mean": fmean(self._bounds),
            "gap_mean": fmean(gaps),
            "gap_max": max(gaps),
            "search_gap_max": max(self._gaps),
        }

    def _set(self, event: facts.SizesSet, view: View) -> None:
        self._speeds.append(event.speed)
        self._bounds.append(event.bound)
        self._gaps.append(event.gap)
        self._unsolved += event.status != "ok"


# How far jobs were from their target shares: the part of a job's time that it was owed at its end.


@dataclass(slots=True)
class _Account:
    """What a job should have had of each type and has had, since when."""

    since_us: int
    should_us: dict[GpuType, float] = field(default_factory=dict)
    had_us: dict[GpuType, int] = field(default_factory=dict)


@dataclass(slots=True)
class ShareGaps:
    """Follows targets and allocations; `alone` and `gangs` are gaps of ended jobs."""

    alone: list[float] = field(default_factory=list)
    gangs: list[float] = field(default_factory=list)
    _targets: dict[JobId, dict[GpuType, float]] = field(default_factory=dict)
    _set_us: int = 0
    _seats: dict[JobId, tuple[GpuType, int]] = field(default_factory=dict)
    _accounts: dict[JobId, _Account] = field(default_factory=dict)

    def observers(self) -> Observers:
        """Return what it listens to."""
        ended = dict.fromkeys(JOB_ENDS, self._ended)
        return {facts.TargetsSet: self._set, facts.AllocationChanged: self._moved, **ended}

    def document(self) -> dict[str, object] | None:
        """Return mean and largest gaps; None where there were no targets."""
        if not self.alone and not self.gangs:
            return None
        return {"one_gpu": _summed(self.alone), "gangs": _summed(self.gangs)}

    def _set(self, event: facts.TargetsSet, view: View) -> None:
        for job_id in self._targets:
            self._owe(job_id, event.at_us)
        self._targets, self._set_us = {}, event.at_us
        for target in event.targets:
            for job_id in target.jobs:
                row = self._targets.setdefault(job_id, {})
                row[target.gpu_type] = row.get(target.gpu_type, 0.0) + target.fraction
                if job_id not in self._accounts:
                    self._accounts[job_id] = _Account(event.at_us)
                    self._sit(job_id, event.at_us)

    def _moved(self, event: facts.AllocationChanged, view: View) -> None:
        self._leave(event.job_id, event.at_us)
        shares = event.allocation.shares
        if shares:
            server = view.cluster.servers[shares[0].node]
            self._seats[event.job_id] = server.configuration.gpu_type, event.at_us

    def _ended(
        self,
        event: facts.JobFinished | facts.JobFailed | facts.JobCancelled | facts.JobRejected,
        view: View,
    ) -> None:
        job_id, at_us = event.job_id, event.at_us
        self._leave(job_id, at_us)
        self._owe(job_id, at_us)
        self._targets.pop(job_id, None)
        account = self._accounts.pop(job_id, None)
        job = view.departed
        if account is None or job is None or at_us == account.since_us:
            return
        owed_us = sum(
            max(0.0, should_us - account.had_us.get(name, 0))
            for name, should_us in account.should_us.items()
        )
        gaps = self.alone if job.spec.gpus == 1 else self.gangs
        gaps.append(owed_us / (at_us - account.since_us))

    def _owe(self, job_id: JobId, now_us: int) -> None:
        """Book what a job should have had since the targets were set."""
        account = self._accounts.get(job_id)
        if account is None:
            return
        for name, part in self._targets.get(job_id, {}).items():
            more_us = part * (now_us - self._set_us)
            account.should_us[name] = account.should_us.get(name, 0.0) + more_us

    def _sit(self, job_id: JobId, now_us: int) -> None:
        """Count a seat from now on only."""
        if job_id in self._seats:
            self._seats[job_id] = self._seats[job_id][0], now_us

    def _leave(self, job_id: JobId, now_us: int) -> None:
        """Book what a job has had of a type."""
        seat, account = self._seats.pop(job_id, None), self._accounts.get(job_id)
        if seat is not None and account is not None:
            name, since_us = seat
            account.had_us[name] = account.had_us.get(name, 0) + now_us - since_us


def _summed(gaps: list[float]) -> dict[str, object]:
    mean = fmean(gaps) if gaps else None
    return {"jobs": len(gaps), "gap_mean": mean, "gap_max": max(gaps, default=None)}


# A policy with thresholds of attained service demotes a job that needs about as much, or it does
# not: no prediction of its work can say which.

NEAR_PERCENT = 10.0
"""What is nearer is named: completion times were predicted within 5 % (benchmarks/prediction.py),
and single jobs within twice that; ours."""

_NAMED_MOST = 5


def near_thresholds(loaded: LoadedConfig, results: Iterable[JobResult]) -> list[str]:
    """Return what to say of jobs that end near a threshold.

    It is said where starts and suspensions have costs: such a run stands for a real cluster.
    """
    params, name = loaded.chosen_params, loaded.config.policy.name
    bounds: tuple[int, ...] = getattr(params, "queues_gpu_s", ())
    if not bounds or loaded.config.simulation.costs == CostsSection():
        return []
    counts_gpus = getattr(params, "attained", "gpu_time") == "gpu_time"
    found: list[tuple[float, int, str]] = []
    for result in results:
        service_us = result.service_gpu_us if counts_gpus else result.held_us
        for bound_us in bounds:
            off = 100 * (service_us / bound_us - 1)
            if abs(off) <= NEAR_PERCENT:
                way = "below" if off < 0 else "above"
                what = f"{result.job_id}, {abs(off):.1f} % {way} {bound_us / 1e6:g}"
                found.append((abs(off), result.ordinal, what))
    if not found:
        return []
    nearest = [what for _, _, what in sorted(found)[:_NAMED_MOST]]
    if hidden := len(found) - len(nearest):
        nearest.append(f"and {hidden:,} more")
    unit = "GPU-seconds" if counts_gpus else "seconds"
    said = (
        f"{name}: these jobs end with about as many {unit} as a threshold of queues_gpu_s, so that "
        "with a little more or less work they wait for others or do not, and their prediction may "
        f"be far off: {'; '.join(nearest)}"
    )
    return [said]
