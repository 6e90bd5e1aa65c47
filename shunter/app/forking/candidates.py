"""The changes that are tried where a job waits: ends of others, its own size, quotas, servers.

A job that waits for others needs their ends, and good ones unless it says `any`. A good end is no
order: the job's work is taken to be what it has done by then. Of a job that does not work at the
moment that cannot be said honestly, so it is not tried, and said not to be.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shunter.app.counting import counted
from shunter.app.forking.fork import Change
from shunter.core.cluster import Server
from shunter.core.intake.inputs import CancelJob, ChangePriority, Input, ResizeJob
from shunter.core.state import RUNNING, Job, State
from shunter.events.facts.cluster import QuotaChanged
from shunter.events.values.ids import JobId, NodeName
from shunter.events.values.job_spec import DependsWhen

ENDS_MOST = 3
"""So many jobs are tried whose end alone might do."""

BY = "why"


@dataclass(frozen=True)
class Candidate:
    """A change to try; `finished` are jobs that have done all their work then."""

    kind: str
    words: str
    change: Change
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
        yield Candidate("good_end", f"{other} ended well now", Change(), (other,), finished)
    orders = tuple(CancelJob(now_us, other, BY) for other in given_up)
    for order in orders[:ENDS_MOST]:
        change = Change(orders=(order,))
        yield Candidate("end", f"{order.job_id} ended now", change, (order.job_id,))
    if not 1 < len(needed) == len(well) + len(given_up):
        return
    if not given_up:
        words = f"{_named(well)} ended well now, all of them"
        yield Candidate("good_ends", words, Change(), tuple(well), frozenset(well))
    elif not well:
        words = f"{_named(given_up)} ended now, all of them"
        yield Candidate("ends", words, Change(orders=orders), tuple(given_up))
    else:
        words = f"{_named(well)} ended well now, and {_named(given_up)} in whatever way"
        jobs = (*well, *given_up)
        yield Candidate("good_ends", words, Change(orders=orders), jobs, frozenset(well))


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
        change = Change(orders=(CancelJob(now_us, other, BY),))
        yield Candidate("end", f"{other} ended now", change, (other,))
    if len(ends) > 1:
        orders = tuple(CancelJob(now_us, other, BY) for other in ends)
        words = f"{_named(ends)} ended now, all of them"
        yield Candidate("ends", words, Change(orders=orders), ends)


def _own_changes(job: Job, now_us: int) -> Iterator[Candidate]:
    """Yield what the owner of a job could change."""
    sizes = [job.spec.gpus // parts for parts in (2, 4, 8) if job.spec.gpus % parts == 0]
    for gpus in sizes:
        if gpus >= 1:
            order: Input = ResizeJob(now_us, job.job_id, gpus, BY)
            change = Change(orders=(order,))
            yield Candidate("size", f"it asked for {counted(gpus, 'GPU')}", change)
    for priority in (job.priority + 1, job.priority + 100):
        order = ChangePriority(now_us, job.job_id, priority, BY)
        change = Change(orders=(order,))
        yield Candidate("priority", f"its priority were {priority}", change)


def _quotas(state: State, job: Job, now_us: int) -> Iterator[Candidate]:
    """Yield the quota of its queue with room for a job."""
    queue = state.queues.get(job.spec.queue)
    if queue is None or queue.quota_gpus is None:
        return
    quota = max(queue.gpus + job.spec.gpus, queue.quota_gpus + 1)
    fact = QuotaChanged(now_us, queue.name, quota, queue.weight, queue.users)
    words = f"the quota of queue {queue.name} were {counted(quota, 'GPU')}"
    yield Candidate("quota", words, Change(facts=(fact,)))


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
            yield Candidate(f"servers {gpu_type}", words, Change(added=added))


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
