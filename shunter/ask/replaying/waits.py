"""Where a job is in its life and why it waits, by what is true: for queues, metrics and replays."""

from collections import Counter
from collections.abc import Sequence

from shunter.ask.replaying.formatting import down_in_words
from shunter.core.cluster import Cluster, Health
from shunter.core.fold.attempts import checkpoint_wait, release_wait, waits_for_checkpoint
from shunter.core.state import GRANTED, RUNNING, WAITING, Job, JobPhase, State, proposal_wait_of
from shunter.core.timers import has_no_turn, turn_of
from shunter.events.values.ids import JobId
from shunter.events.values.job_spec import Demand, JobSpec, SuspendMode
from shunter.events.values.reasons import Reason, Wait

HELD, SUSPENDED, STOPPED = "held", "suspended", "stopped"
JOB_STATES = (*(phase.value for phase in JobPhase), HELD, SUSPENDED, STOPPED)
"""All that `job_state` may return."""

_FIRST = Wait(Reason.waiting_for_round)
_HELD = Wait(Reason.held)
_FOR_RELEASE = Wait(Reason.waiting_for_release)
_BACKING_OFF = Wait(Reason.backing_off)


def job_state(job: Job) -> str:
    """Return where a job is in its life, in one word of people."""
    if stands_still(job):
        return STOPPED
    if job.phase is not WAITING:
        return job.phase.value
    is_ours = job.back_at_us is not None or has_no_turn(job) or waits_for_checkpoint(job)
    if job.is_on_hold and not is_ours:
        return HELD
    return SUSPENDED if job.first_start_us is not None else WAITING.value


def stands_still(job: Job) -> bool:
    """Say whether a job keeps its GPUs and does nothing, as somebody wants it to."""
    if job.phase is not RUNNING:
        return False
    if job.awaits_turn:
        return job.is_on_hold and job.spec.suspend_mode is SuspendMode.stop
    return job.speed == 0


def wait_of(job: Job, state: State, waits_as: Demand | None = None) -> Wait | None:
    """Return what holds a job back, itself or its class; None if nothing does.

    `waits_as` is its class where the log does not say it (`classes_at`).
    """
    if job.phase is not WAITING:
        return release_wait(state, job)
    if has_no_turn(job):
        return turn_of(job.spec)
    if waits_for_checkpoint(job):
        return checkpoint_wait(job, state.cluster)
    if job.is_on_hold:
        return _HELD if job.back_at_us is None else _BACKING_OFF
    if job.blocked_by:
        open_ones = (each.job_id for each in job.spec.depends_on if each.job_id in state.jobs)
        return Wait(Reason.dependency, blockers=tuple(open_ones))
    proposal = proposal_wait_of(job.job_id, state.proposals)
    if proposal is not None:
        return proposal
    if job.wait is not None and job.left_for is None:  # else it is of an earlier wait
        return job.wait
    return state.class_waits.get(waits_as or job.waits_as) or job.left_for or _FIRST


def wait_to_count(job: Job, state: State) -> Wait | None:
    """Return the same without who has yet to leave, who is found among all jobs."""
    return _FOR_RELEASE if job.phase is GRANTED else wait_of(job, state)


def holders(reason: Reason, spec: JobSpec, state: State) -> list[Job]:
    """Return the jobs that have what a job waits for, as they were submitted.

    These are those of its queue for a quota, else those on servers of a type that it accepts; who
    runs without GPUs keeps none from a job that needs them.
    """
    servers, types = state.cluster.servers, spec.gpu_types
    is_without = reason is Reason.cpu_or_memory_short or not spec.gpus
    return [
        job
        for job in state.jobs.values()
        if job.allocation.gpus or (is_without and job.allocation.shares)
        if (
            job.spec.queue == spec.queue
            if reason is Reason.quota
            else not types
            or any(
                servers[each.node].configuration.gpu_type in types for each in job.allocation.shares
            )
        )
    ]


def holding_back(
    blockers: Sequence[JobId], reason: Reason, spec: JobSpec, state: State
) -> tuple[JobId, ...]:
    """Return who holds a job back: who of those recorded waits or has what it needs.

    Where none of them has it, those who do, the last one submitted first.
    """
    jobs = state.jobs
    if reason is not Reason.quota and not any(_is_without_gpus(each, state) for each in blockers):
        return tuple(blockers)
    there = [job.job_id for job in reversed(holders(reason, spec, state))]
    has = set(there)
    named = tuple(
        each
        for each in blockers
        if each in has
        or (
            (each in jobs and not jobs[each].allocation.shares)
            and (reason is not Reason.quota or jobs[each].spec.queue == spec.queue)
        )
    )
    return named if has.intersection(named) else (*named, *there)


def _is_without_gpus(job_id: JobId, state: State) -> bool:
    job = state.jobs.get(job_id)
    return job is not None and bool(job.allocation.shares) and not job.allocation.gpus


def most_free(job: Job, state: State) -> int:
    """Return the most GPUs of one type that are free for a job."""
    pools = state.cluster.pools
    names = job.demand.gpu_types or pools
    return max((pools[name].gpus_free for name in names if name in pools), default=0)


def only_drained(cluster: Cluster, gpu_types: Sequence[str] = ()) -> bool:
    """Say whether servers are out of service, all because they are drained."""
    down = [
        server.health
        for server in cluster.servers.values()
        if server.health is not Health.removed
        and not server.is_up
        and (not gpu_types or server.configuration.gpu_type in gpu_types)
    ]
    return bool(down) and all(health is Health.up for health in down)


def only_quarantined(cluster: Cluster, gpu_types: Sequence[str] = ()) -> bool:
    """Say whether all servers are in service, and some of their GPUs are set aside."""
    servers = [
        server
        for server in cluster.servers.values()
        if server.health is not Health.removed
        and (not gpu_types or server.configuration.gpu_type in gpu_types)
    ]
    return all(server.is_up for server in servers) and any(one.quarantined for one in servers)


def _are_taken(needed: int, gpu_types: Sequence[str], cluster: Cluster) -> bool:
    """Say whether GPUs that others hold would make one type enough."""
    there: Counter[str] = Counter()
    for server in cluster.servers.values():
        gpu_type = server.configuration.gpu_type
        if server.is_up and (not gpu_types or gpu_type in gpu_types):
            there[gpu_type] += (server.all_gpus & ~server.quarantined).bit_count()
    return any(gpus >= needed > cluster.pools[gpu_type].gpus_up for gpu_type, gpus in there.items())


def told_apart(wait: Wait, gpu_types: Sequence[str], cluster: Cluster) -> Reason:
    """Return the reason to tell of a recorded one, as the servers are.

    A round records one reason for servers that are lost and drained and for GPUs that others hold,
    and some policies another one where no server of a type is left; a drained server is somebody's
    order. What others hold is told where there were enough GPUs but for that.
    """
    if wait.detail or wait.reason not in (Reason.node_lost, Reason.gpu_type_unavailable):
        return wait.reason
    if _are_taken(max(1, wait.needed), gpu_types, cluster):
        return Reason.gpus_taken
    if only_drained(cluster, gpu_types):
        return Reason.node_drained
    if only_quarantined(cluster, gpu_types):
        return Reason.gpus_quarantined
    return Reason.node_lost if down_in_words(cluster, gpu_types) else wait.reason
