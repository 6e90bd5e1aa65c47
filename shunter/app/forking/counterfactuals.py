"""What would make a waiting job start: changes of which a fork says that it does.

Each candidate is one small change to the state at the moment: a job that ends, another priority, a
smaller gang, a larger quota, servers that join. The policy plans on the changed state, in a fork
that goes on for two plans, and only what gives the job GPUs there is told. The changes come in as
the orders and facts that they would be, so this is the same for every policy.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from shunter.app.counting import counted
from shunter.app.forking.changes import NOBODY_CALLS, callers_propose
from shunter.app.forking.fork import Change, MakeWorld, fork_at, standing_at
from shunter.app.forking.fork_point import ForkPoint, end_of_instant, fork_point
from shunter.app.forking.remaining import WorkEstimates
from shunter.app.replaying.instants import clock
from shunter.app.replaying.recorded_terms import Rebuild
from shunter.app.replaying.why.explanation import Explanation
from shunter.app.simulated_world import WorldParts, recorded_parts, simulated_world
from shunter.backends.simulated.failures import RecordedFailures
from shunter.backends.simulated.resuming import Resumed, TotalWork
from shunter.core.cluster import Server
from shunter.core.intake.inputs import CancelJob, ChangePriority, Input, ResizeJob
from shunter.core.interfaces import Backend
from shunter.core.state import WAITING, Job, JobPhase, State
from shunter.events.facts.cluster import QuotaChanged
from shunter.events.log import LogReader
from shunter.events.values.ids import JobId, NodeName
from shunter.events.values.job_spec import JobSpec
from shunter.workloads.trace import TraceJob

__all__ = [
    "Counterfactual",
    "Counterfactuals",
    "WorldWith",
    "counterfactuals",
    "recorded_world_with",
    "starts_if",
]

ENDS_MOST = 3
"""So many jobs are tried whose end alone might do."""

AT_ONCE_US = 2
"""No plan that is made at events comes later after a change: so far a fork goes on for it."""

BY = "why"

WorldWith = Callable[[Change], MakeWorld]
"""Makes the simulated world that goes on from a state, for a change that is tried."""


@dataclass(frozen=True)
class Counterfactual:
    """A change with which a job starts, in words, and when that would be.

    `kind` is what is changed; `jobs` are those that would end.
    """

    kind: str
    words: str
    starts_us: int
    jobs: tuple[JobId, ...] = ()


@dataclass(frozen=True)
class Counterfactuals:
    """What was found of `tried` changes; `starts_us`: when it starts without any.

    `now_us` is the instant it is.
    """

    found: tuple[Counterfactual, ...]
    tried: int
    starts_us: int | None = None
    now_us: int = 0

    def clock_of(self, starts_us: int) -> str:
        """Return when it would start: now, too, if only a microsecond later."""
        return clock(self.now_us if starts_us - self.now_us <= AT_ONCE_US else starts_us)


@dataclass(frozen=True)
class _Candidate:
    kind: str
    words: str
    change: Change
    jobs: tuple[JobId, ...] = ()


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
        return Counterfactuals((), 0)
    now_us = max(state.now_us, at_us)
    works = _KnownWork(state.durations_us, point.rules.seed, now_us)
    starts_us = await _starts_us(point, world_with, job_id, Change(), works)
    if starts_us is not None:
        return Counterfactuals((), 0, starts_us, now_us)
    found: list[Counterfactual] = []
    tried = 0
    done: set[str] = set()
    for candidate in _candidates(state, job, blockers, now_us):
        if candidate.kind in done:
            continue
        tried += 1
        starts_us = await _starts_us(point, world_with, job_id, candidate.change, works)
        if starts_us is not None:
            found.append(Counterfactual(candidate.kind, candidate.words, starts_us, candidate.jobs))
            if candidate.kind != "end":
                done.add(candidate.kind)
    return Counterfactuals(tuple(found), tried, now_us=now_us)


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
        "tried": tried.tried,
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
    point: ForkPoint, world_with: WorldWith, job_id: JobId, change: Change, works: "_KnownWork"
) -> int | None:
    """Return when a job gets GPUs in the next two plans of a fork; None: it does not."""
    world = world_with(change)
    standing = standing_at(point, world, None, works.work_of, Change(), works.now_us)
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


def _world(parts: WorldParts, change: Change) -> MakeWorld:
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
    """The work that a trace tells, or what is probable at an instant."""

    def __init__(self, durations_us: Mapping[JobId, int], seed: int, now_us: int) -> None:
        self.now_us = now_us
        self._durations_us = durations_us
        self._estimates = WorkEstimates((), seed)

    def work_of(self, job_id: JobId, spec: JobSpec, job: Job | None, now_us: int) -> TotalWork:
        known_us = self._durations_us.get(job_id)
        if known_us is not None:
            return TotalWork(known_us)
        return self._estimates.work_of(job_id, spec, job, now_us)


def _candidates(
    state: State, job: Job, blockers: Sequence[JobId], now_us: int
) -> Iterator[_Candidate]:
    """Yield changes, of each kind the smallest first."""
    ends = _who_might_end(state, job, blockers)
    for other in ends[:ENDS_MOST]:
        change = Change(orders=(CancelJob(now_us, other, BY),))
        yield _Candidate("end", f"{other} ended now", change, (other,))
    if len(ends) > 1:
        orders = tuple(CancelJob(now_us, other, BY) for other in ends)
        names = ", ".join(ends[:ENDS_MOST])
        hidden = len(ends) - ENDS_MOST
        more = f" and {counted(hidden, 'other')}" if hidden > 0 else ""
        yield _Candidate(
            "ends", f"{names}{more} ended now, all of them", Change(orders=orders), ends
        )
    yield from _own_changes(job, now_us)
    yield from _quotas(state, job, now_us)
    yield from _servers(state, job)


def _own_changes(job: Job, now_us: int) -> Iterator[_Candidate]:
    """Yield what the owner of a job could change."""
    sizes = [job.spec.gpus // parts for parts in (2, 4, 8) if job.spec.gpus % parts == 0]
    for gpus in sizes:
        if gpus >= 1:
            order: Input = ResizeJob(now_us, job.job_id, gpus, BY)
            change = Change(orders=(order,))
            yield _Candidate("size", f"it asked for {counted(gpus, 'GPU')}", change)
    for priority in (job.priority + 1, job.priority + 100):
        order = ChangePriority(now_us, job.job_id, priority, BY)
        change = Change(orders=(order,))
        yield _Candidate("priority", f"its priority were {priority}", change)


def _quotas(state: State, job: Job, now_us: int) -> Iterator[_Candidate]:
    """Yield the quota of its queue with room for a job."""
    queue = state.queues.get(job.spec.queue)
    if queue is None or queue.quota_gpus is None:
        return
    quota = max(queue.gpus + job.spec.gpus, queue.quota_gpus + 1)
    fact = QuotaChanged(now_us, queue.name, quota, queue.weight, queue.users)
    words = f"the quota of queue {queue.name} were {counted(quota, 'GPU')}"
    yield _Candidate("quota", words, Change(facts=(fact,)))


def _servers(state: State, job: Job) -> Iterator[_Candidate]:
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
            yield _Candidate(f"servers {gpu_type}", words, Change(added=added))


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
