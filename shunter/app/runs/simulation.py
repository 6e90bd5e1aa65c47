"""One simulation, from a config to its result.

    config ─▶ jobs ─▶ opening facts ─▶ round loop ─▶ closing fact, snapshot ─▶ closed log ─▶ result

Nothing here reaches the log but facts: no wall time, no host name, no process id.
"""

import asyncio
import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from shunter.app.code_digests import sources_of
from shunter.app.config.loading import LoadedConfig
from shunter.app.gc_control import collector_off
from shunter.app.predictions.near_thresholds import near_thresholds
from shunter.app.runs.driven_world import DrivenWorld, Driver
from shunter.app.runs.parallel import Report
from shunter.app.runs.setup import Setup, load_jobs, set_up
from shunter.app.runs.share_gaps import ShareGaps
from shunter.app.runs.size_gaps import SizeGaps
from shunter.app.runs.summary import SCHEMA, RunDocument, job_numbers, stories
from shunter.app.runs.time_limit import timed
from shunter.app.snapshots import snapshot_of
from shunter.core.digest import state_digest
from shunter.core.interfaces import Observers
from shunter.core.metrics import JobLedger, JobResult
from shunter.core.progress import NEVER_US
from shunter.core.proposals.numbers import ProposalNumbers
from shunter.core.ranking import RankedPolicy
from shunter.core.round_loop import run_rounds
from shunter.core.scheduler import Scheduler
from shunter.core.state import State
from shunter.core.view import View
from shunter.events.facts.decisions import NO_SUCH_JOB, PlanRejected
from shunter.events.facts.run import SchedulerStopped
from shunter.events.kinds import Event
from shunter.events.log import LogWriter, load_store, open_log
from shunter.events.log.memory import NullStore
from shunter.events.values.ids import JobId
from shunter.workloads import QualityReport, Trace

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
) -> RunResult:
    """Run a config and return its result; its log is closed then.

    Args:
        loaded: the config.
        trace: jobs that were loaded already; None loads those of the config.
        overwrite: replace a log that exists.
        report: told now and then how many jobs have ended, and of how many.
        listeners: told of each fact once it is folded.
        driver: a program that watches the jobs and gives orders.
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
        return asyncio.run(_run(setup, clock, overwrite, report, listeners, driver))


async def _run(
    setup: Setup,
    clock: _Clock,
    overwrite: bool,
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
    async with open_log(config.log.url, overwrite=overwrite, mode=config.log.permissions) as log:
        await log.note_sources(sources_of(config.policy.name))
        _emit(core, setup.opening(log.term))
        every = config.log.snapshot_every
        count = len(setup.trace.jobs)
        is_kept = log.url != NullStore.url
        every = every if is_kept else NEVER_US
        recorder = Recorder(core, log, count, every, report) if is_kept or report else log
        with timed(core, config.policy.time_limit) as step:
            await run_rounds(core, world, recorder, step=step)
        closing = [SchedulerStopped(core.state.now_us, "end of the trace")]
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

    def noted(event: PlanRejected, view: View) -> None:
        if event.detail == NO_SUCH_JOB:
            refused.append(event.job_id)

    return {PlanRejected: noted}


def _emit(core: Scheduler, facts: Iterable[Event]) -> None:
    """Let the core take in facts that are nobody's decision."""
    core.view.open()
    for fact in facts:
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
