"""What would make a waiting job start: changes of which a fork says that it does.

Each candidate is one small change to the state at the moment: a job that ends, another priority, a
smaller gang, a larger quota, servers that join. The changes come in as orders and facts, so this is
the same for every policy, which plans in a fork for two rounds. Only changes that give the job GPUs
there are reported.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from shunter.ask.forks.fork import (
    NOBODY_CALLS,
    ForkChange,
    ForkPoint,
    MakeWorld,
    callers_propose,
    end_of_instant,
    fork_at,
    fork_point,
    standing_at,
)
from shunter.ask.forks.remaining import WorkEstimates
from shunter.ask.recorded_terms import Rebuild
from shunter.ask.why import Explanation
from shunter.ask.words import clock
from shunter.backends.simulated import RecordedFailures, Resumed, TotalWork
from shunter.core import (
    RUNNING,
    WAITING,
    Backend,
    CancelJob,
    ChangePriority,
    Input,
    Job,
    JobPhase,
    ResizeJob,
    Server,
    State,
)
from shunter.counting import counted
from shunter.events import DependsWhen, JobId, JobSpec, NodeName, QuotaChanged
from shunter.events.log import LogReader
from shunter.run import WorldParts, recorded_parts, simulated_world
from shunter.workloads import TraceJob

# A job with dependencies needs good ends of them, unless it says `any`. A good end is no order: the
# job's work is taken to be what it has done by then, so only a job at work can be tried.

ENDS_MOST = 3
"""So many jobs are tried whose end alone might do."""

BY = "why"


@dataclass(frozen=True)
class Candidate:
    """A change to try; `finished` are jobs that have done all their work then."""

    kind: str
    words: str
    change: ForkChange
    jobs: tuple[JobId, ...] = ()
    finished: frozenset[JobId] = frozenset()


def candidates(
    state: State, job: Job, blockers: Sequence[JobId], now_us: int
) -> Iterator[Candidate]:
    """Yield changes, of each kind the smallest first."""
    if job.blocked_by:
        yield from _ends_of_needed(state, job, now_us)
    else:
        yield from _ends_of_others(state, job, blockers, now_us)
    yield from _own_changes(job, now_us)
    yield from _quotas(state, job, now_us)
    yield from _servers(state, job)


def _ends_of_needed(state: State, job: Job, now_us: int) -> Iterator[Candidate]:
    """Yield ends of the jobs that a job depends on, good ones if they work."""
    needed = _needed(state, job)
    well = [other.job_id for other, _ in needed if _works(other)]
    given_up = [
        other.job_id for other, when in needed if not _works(other) and when is DependsWhen.any
    ]
    for other in well[:ENDS_MOST]:
        finished = frozenset((other,))
        yield Candidate("good_end", f"{other} ended well now", ForkChange(), (other,), finished)
    orders = tuple(CancelJob(now_us, other, BY) for other in given_up)
    for order in orders[:ENDS_MOST]:
        change = ForkChange(orders=(order,))
        yield Candidate("end", f"{order.job_id} ended now", change, (order.job_id,))
    if not 1 < len(needed) == len(well) + len(given_up):
        return
    if not given_up:
        words = f"{_named(well)} ended well now, all of them"
        yield Candidate("good_ends", words, ForkChange(), tuple(well), frozenset(well))
    elif not well:
        words = f"{_named(given_up)} ended now, all of them"
        yield Candidate("ends", words, ForkChange(orders=orders), tuple(given_up))
    else:
        words = f"{_named(well)} ended well now, and {_named(given_up)} in whatever way"
        jobs = (*well, *given_up)
        yield Candidate("good_ends", words, ForkChange(orders=orders), jobs, frozenset(well))


def not_tried(state: State, job: Job) -> tuple[str, ...]:
    """Return in sentences which ends a job needs that could not be tried."""
    return tuple(
        f"that {other.job_id} ends well, which does not work now ({other.phase})"
        for other, when in (_needed(state, job) if job.blocked_by else ())
        if when is not DependsWhen.any and not _works(other)
    )


def _needed(state: State, job: Job) -> list[tuple[Job, DependsWhen]]:
    """Return the jobs on whose ends a job waits."""
    jobs = state.jobs
    return [(jobs[each.job_id], each.when) for each in job.spec.depends_on if each.job_id in jobs]


def _works(job: Job) -> bool:
    """Say whether a job could have done all its work at the moment."""
    return job.phase is RUNNING and job.working_since_us is not None


def _named(ends: Sequence[JobId]) -> str:
    hidden = len(ends) - ENDS_MOST
    more = f" and {counted(hidden, 'other')}" if hidden > 0 else ""
    return f"{', '.join(ends[:ENDS_MOST])}{more}"


def _ends_of_others(
    state: State, job: Job, blockers: Sequence[JobId], now_us: int
) -> Iterator[Candidate]:
    """Yield ends of jobs that hold what a job needs."""
    ends = _who_might_end(state, job, blockers)
    for other in ends[:ENDS_MOST]:
        change = ForkChange(orders=(CancelJob(now_us, other, BY),))
        yield Candidate("end", f"{other} ended now", change, (other,))
    if len(ends) > 1:
        orders = tuple(CancelJob(now_us, other, BY) for other in ends)
        words = f"{_named(ends)} ended now, all of them"
        yield Candidate("ends", words, ForkChange(orders=orders), ends)


def _own_changes(job: Job, now_us: int) -> Iterator[Candidate]:
    """Yield what the owner of a job could change."""
    sizes = [job.spec.gpus // parts for parts in (2, 4, 8) if job.spec.gpus % parts == 0]
    for gpus in sizes:
        if gpus >= 1:
            order: Input = ResizeJob(now_us, job.job_id, gpus, BY)
            change = ForkChange(orders=(order,))
            yield Candidate("size", f"it asked for {counted(gpus, 'GPU')}", change)
    for priority in (job.priority + 1, job.priority + 100):
        order = ChangePriority(now_us, job.job_id, priority, BY)
        change = ForkChange(orders=(order,))
        yield Candidate("priority", f"its priority were {priority}", change)


def _quotas(state: State, job: Job, now_us: int) -> Iterator[Candidate]:
    """Yield the quota of its queue with room for a job."""
    queue = state.queues.get(job.spec.queue)
    if queue is None or queue.quota_gpus is None:
        return
    quota = max(queue.gpus + job.spec.gpus, queue.quota_gpus + 1)
    fact = QuotaChanged(now_us, queue.name, quota, queue.weight, queue.users)
    words = f"the quota of queue {queue.name} were {counted(quota, 'GPU')}"
    yield Candidate("quota", words, ForkChange(facts=(fact,)))


def _servers(state: State, job: Job) -> Iterator[Candidate]:
    """Yield servers like those that there are, as few of a kind as might do."""
    kinds: dict[str, Server] = {}
    for server in state.cluster.servers.values():
        where = server.configuration
        if not job.demand.gpu_types or where.gpu_type in job.demand.gpu_types:
            known = kinds.get(where.gpu_type)
            if known is None or known.configuration.gpus < where.gpus:
                kinds[where.gpu_type] = server
    for gpu_type, server in sorted(kinds.items()):
        where = server.configuration
        if not where.gpus:
            continue
        whole = -(-job.spec.gpus // where.gpus)
        for count in sorted({1, whole}):
            added = [(NodeName(f"new-{number}"), where) for number in range(1, count + 1)]
            words = (
                f"{counted(count, 'server')} more with {counted(where.gpus, 'GPU')} "
                f"of type {gpu_type or 'none'} joined"
            )
            yield Candidate(f"servers {gpu_type}", words, ForkChange(added=added))


def _who_might_end(state: State, job: Job, blockers: Sequence[JobId]) -> tuple[JobId, ...]:
    """Return jobs with GPUs whose end may help: those told, else the largest."""
    told = [each for each in blockers if each in state.jobs and state.jobs[each].allocation.shares]
    if told:
        return tuple(told)
    types = job.demand.gpu_types

    def is_there(other: Job) -> bool:
        servers = state.cluster.servers
        return any(
            not types or servers[share.node].configuration.gpu_type in types
            for share in other.allocation.shares
        )

    holding = [each for each in state.jobs.values() if each.allocation.shares and is_there(each)]
    holding.sort(key=lambda each: (-each.allocation.gpus, each.ordinal))
    return tuple(each.job_id for each in holding[:ENDS_MOST])


AT_ONCE_US = 2
"""No plan that is made at events comes later after a change: so far a fork goes on for it."""

WorldWith = Callable[[ForkChange], MakeWorld]
"""Makes the simulated world that goes on from a state, for a change that is tried."""


@dataclass(frozen=True)
class Counterfactual:
    """A change with which a job starts, in words, and when that would be.

    `kind` is what is changed; `jobs` are those that would end, well under `good_end` and
    `good_ends`.
    """

    kind: str
    words: str
    starts_us: int
    jobs: tuple[JobId, ...] = ()


@dataclass(frozen=True)
class Counterfactuals:
    """What was found of the changes that were `tried`, and when without any.

    `not_tried` are sentences about ends that the job needs and that could not be tried. `now_us` is
    the instant it is.
    """

    found: tuple[Counterfactual, ...]
    tried: tuple[str, ...] = ()
    starts_us: int | None = None
    not_tried: tuple[str, ...] = ()
    now_us: int = 0

    def clock_of(self, starts_us: int) -> str:
        """Return when it would start: now, too, if only a microsecond later."""
        return clock(self.now_us if starts_us - self.now_us <= AT_ONCE_US else starts_us)


def recorded_world_with(parts: WorldParts) -> WorldWith:
    """Return what makes the world of a log, as it records it, for a change."""
    return partial(_world, parts)


async def counterfactuals(
    point: ForkPoint,
    world_with: WorldWith,
    job_id: JobId,
    blockers: Sequence[JobId],
    at_us: int = 0,
) -> Counterfactuals:
    """Return what would make a job start at once.

    Args:
        point: the moment, at which the job waits.
        world_with: makes the simulated world for a change.
        job_id: the job.
        blockers: jobs that hold what it needs, as planning told; may be empty.
        at_us: the instant it is, up to which nothing more has happened.
    """
    state = point.state()
    job = state.jobs.get(job_id)
    if job is None or job.phase is not WAITING or not _can_plan(point):
        return Counterfactuals(())
    now_us = max(state.now_us, at_us)
    works = _KnownWork(state.durations_us, point.rules.seed, now_us)
    starts_us = await _starts_us(point, world_with, job_id, ForkChange(), works)
    if starts_us is not None:
        return Counterfactuals((), starts_us=starts_us, now_us=now_us)
    found: list[Counterfactual] = []
    tried: list[str] = []
    done: set[str] = set()
    for candidate in candidates(state, job, blockers, now_us):
        if candidate.kind in done:
            continue
        tried.append(candidate.words)
        trial = works.with_finished(candidate.finished)
        starts_us = await _starts_us(point, world_with, job_id, candidate.change, trial)
        if starts_us is not None:
            found.append(Counterfactual(candidate.kind, candidate.words, starts_us, candidate.jobs))
            if candidate.kind not in ("end", "good_end"):
                done.add(candidate.kind)
    ends = not_tried(state, job)
    return Counterfactuals(tuple(found), tuple(tried), not_tried=ends, now_us=now_us)


async def starts_if(reader: LogReader, found: Explanation, rebuild: Rebuild) -> Any:
    """Return what would make a job start, as a document; None: it does not wait.

    Args:
        reader: the log.
        found: the job at a moment.
        rebuild: makes the policy of a term.
    Raises:
        ConfigError: the policy is not installed, or the world of the log cannot be made.
    """
    if found.phase != JobPhase.waiting:
        return None
    seq = await end_of_instant(reader, found.story.seq)
    point = await fork_point(reader, seq, rebuild)
    blockers = () if found.evidence is None else found.evidence.blockers
    world_with = recorded_world_with(recorded_parts(point.started.config))
    job_id, at_us = found.story.job_id, found.story.at_us
    return _document(point, await counterfactuals(point, world_with, job_id, blockers, at_us))


def _document(point: ForkPoint, tried: Counterfactuals) -> dict[str, Any]:
    """Return what was found as a document."""
    starts = None if tried.starts_us is None else tried.clock_of(tried.starts_us)
    return {
        "evidence": "simulated",
        "tried": len(tried.tried),
        "tried_words": list(tried.tried),
        "not_tried": list(tried.not_tried),
        "starts_us": tried.starts_us,
        "starts": starts,
        "found": [
            {
                "kind": each.kind,
                "words": each.words,
                "jobs": list(each.jobs),
                "starts_us": each.starts_us,
                "starts": tried.clock_of(each.starts_us),
            }
            for each in tried.found
        ],
        "assumptions": [NOBODY_CALLS] if callers_propose(point.started) else [],
    }


async def _starts_us(
    point: ForkPoint, world_with: WorldWith, job_id: JobId, change: ForkChange, works: "_KnownWork"
) -> int | None:
    """Return when a job gets GPUs in the next two plans of a fork; None: it does not."""
    world = world_with(change)
    standing = standing_at(point, world, None, works.work_of, ForkChange(), works.now_us)
    fork = fork_at(standing, change)
    state, rules, now_us = fork.core.state, fork.core.rules, fork.now_us
    until_us = rules.grid_at(now_us + 1) + rules.round_us if rules.round_us else now_us + AT_ONCE_US
    await fork.run(until_us, is_enough=lambda: _is_given(state, job_id))
    return state.now_us if _is_given(state, job_id) else None


def _can_plan(point: ForkPoint) -> bool:
    """Say whether the policy can be asked, in rounds that are ours."""
    return bool(point.encoded_memory) and not point.rules.backend_rounds


def _is_given(state: State, job_id: JobId) -> bool:
    job = state.jobs.get(job_id)
    return job is not None and bool(job.allocation.shares)


def _world(parts: WorldParts, change: ForkChange) -> MakeWorld:
    resizes = any(isinstance(order, ResizeJob) for order in change.orders)

    def make(jobs: Sequence[TraceJob], resumed: Resumed | None) -> Backend:
        assert resumed is not None, "a counterfactual goes on from a state"
        state = resumed.state
        specs = [job.spec for job in state.jobs.values()]
        return simulated_world(
            parts,
            [(name, server.configuration) for name, server in state.cluster.servers.items()],
            jobs,
            specs=specs,
            resizes=resizes,
            resumed=resumed,
            further=change.added,
            losses=RecordedFailures(),
        )

    return make


class _KnownWork:
    """The work that a trace tells, or what is probable at an instant.

    Jobs that are `finished` have no more than they have done by then.
    """

    def __init__(
        self,
        durations_us: Mapping[JobId, int],
        seed: int,
        now_us: int,
        finished: frozenset[JobId] = frozenset(),
    ) -> None:
        self.now_us = now_us
        self._durations_us = durations_us
        self._seed = seed
        self._finished = finished
        self._estimates = WorkEstimates((), seed)

    def with_finished(self, finished: frozenset[JobId]) -> "_KnownWork":
        return _KnownWork(self._durations_us, self._seed, self.now_us, finished)

    def work_of(self, job_id: JobId, spec: JobSpec, job: Job | None, now_us: int) -> TotalWork:
        if job_id in self._finished:
            return TotalWork(0)  # less than is done counts as that
        known_us = self._durations_us.get(job_id)
        if known_us is not None:
            return TotalWork(known_us)
        return self._estimates.work_of(job_id, spec, job, now_us)
