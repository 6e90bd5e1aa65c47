"""Where a job is in its life and why it waits; whose promise keeps it; and a whole state so."""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from shunter.ask.words import SECOND_US, clock, down_in_words, span, stamp
from shunter.core import (
    GRANTED,
    RUNNING,
    UNTIL_ROUND,
    WAITING,
    Cluster,
    Health,
    Job,
    JobPhase,
    Server,
    State,
    has_no_turn,
    proposal_wait_of,
    state_digest,
    turn_of,
)
from shunter.core.fold import checkpoint_wait, release_wait, waits_for_checkpoint
from shunter.events import Demand, JobId, JobSpec, Outcome, Reason, SuspendMode, Wait

if TYPE_CHECKING:
    from shunter.core import AnyPolicy

HELD, SUSPENDED, STOPPED = "held", "suspended", "stopped"
JOB_STATES = (*(phase.value for phase in JobPhase), HELD, SUSPENDED, STOPPED)
"""All that `job_state` may return."""

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
    return state.class_waits.get(waits_as or job.waits_as) or job.left_for or UNTIL_ROUND


def wait_to_count(job: Job, state: State, waits_as: Demand | None = None) -> Wait | None:
    """Return the same without who has yet to leave, who is found among all jobs."""
    return _FOR_RELEASE if job.phase is GRANTED else wait_of(job, state, waits_as)


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


def _only_drained(servers: Sequence[Server]) -> bool:
    """Say whether servers are out of service, all because they are drained."""
    down = [server.health for server in servers if not server.is_up]
    return bool(down) and all(health is Health.up for health in down)


def _only_quarantined(servers: Sequence[Server]) -> bool:
    """Say whether all servers are in service, and some of their GPUs are set aside."""
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
    servers = [
        server
        for server in cluster.servers.values()
        if server.health is not Health.removed
        and (not gpu_types or server.configuration.gpu_type in gpu_types)
    ]
    if _only_drained(servers):
        return Reason.node_drained
    if _only_quarantined(servers):
        return Reason.gpus_quarantined
    return Reason.node_lost if down_in_words(cluster, gpu_types) else wait.reason


_SCHEMA = 1
NONE_REBUILT: Mapping[JobId, Demand] = MappingProxyType({})


def state_document(state: State, rebuilt: Mapping[JobId, Demand] = NONE_REBUILT) -> dict[str, Any]:
    """Return the facts of a state as JSON-able data.

    Args:
        state: what is true.
        rebuilt: the classes of waiting jobs that the log does not say (`classes_at`).
    """
    return {
        "schema": _SCHEMA,
        **stamp(state.seq, state.now_us),
        "term": state.term,
        "policy": state.policy,
        "rounds": {
            "planned": state.rounds_planned,
            "last": None if state.round_number < 0 else state.round_number,
        },
        "jobs": job_counts(state),
        "queue": _queue(state, rebuilt),
        "cluster": _cluster(state.cluster),
        "state_digest": state_digest(state),
    }


def job_counts(state: State) -> dict[str, int]:
    """Return how many jobs there are in each phase of life and with each outcome."""
    phases = Counter(job.phase for job in state.jobs.values())
    return {
        "submitted": state.submitted,
        **{str(phase): phases[phase] for phase in JobPhase},
        **{str(outcome): state.outcomes.get(outcome, 0) for outcome in Outcome},
    }


def wait_reasons(state: State, rebuilt: Mapping[JobId, Demand] = NONE_REBUILT) -> Counter[str]:
    """Return how many jobs wait for each reason; `rebuilt` is as in `state_document`."""
    reasons: Counter[str] = Counter()
    for job in state.jobs.values():
        if job.phase is JobPhase.waiting:
            wait = wait_of(job, state, rebuilt.get(job.job_id))
            assert wait is not None, "a job that waits has a reason"
            reasons[told_apart(wait, job.demand.gpu_types, state.cluster).value] += 1
    return reasons


def _queue(state: State, rebuilt: Mapping[JobId, Demand]) -> dict[str, object]:
    """Return what waits, and for what: the recorded reason of each class."""
    waiting = [job for job in state.jobs.values() if job.phase is JobPhase.waiting]
    reasons = wait_reasons(state, rebuilt)
    since = [job.waiting_since_us for job in waiting if job.waiting_since_us is not None]
    return {
        "jobs": len(waiting),
        "gpus": sum(job.spec.gpus for job in waiting),
        "longest_wait_s": (state.now_us - min(since)) / 1e6 if since else None,
        "reasons": dict(sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))),
        "reservations": len(state.reservations),
    }


def _cluster(cluster: Cluster) -> dict[str, int]:
    servers = cluster.servers.values()
    sets = [server.configuration for server in servers]
    units = sum(where.gpus for where in sets if where.unit_cpus_milli)
    return {
        "nodes": len(servers),
        "nodes_up": sum(server.is_up for server in servers),
        "gpus": sum(where.gpus for where in sets),
        **({"units": units} if units else {}),  # of these
        "gpus_up": sum(pool.gpus_up for pool in cluster.pools.values()),
        # What a job that leaves holds still is not free, though the policy may count on it.
        "gpus_free": sum((server.offered & ~server.held).bit_count() for server in servers),
        "gpus_held": sum(server.held.bit_count() for server in servers),
        "gpus_decided": sum(server.decided.bit_count() for server in servers),
    }


# A promise of GPUs under EASY backfilling counts on declared time limits. A job without one counts
# as running for a year by default, so a promise may be far later than anybody expects.

_DAY_US = 86_400 * SECOND_US


def default_limit_of(policy: object) -> int | None:
    """Return as how long a job without a time limit counts.

    None: the policy makes no promises by limits.
    """
    from shunter.core.ranking import Misfit, RankedPolicy  # here a policy has been built

    if not isinstance(policy, RankedPolicy) or policy.index.misfit is not Misfit.reserved:
        return None
    return policy.default_limit_us


def promise_basis(policy: "AnyPolicy", state: State) -> str:
    """Return what promises count on, as a clause; empty: not on limits."""
    default_us = default_limit_of(policy)
    if default_us is None:
        return ""
    there = [job.spec.time_limit_us for job in state.jobs.values() if job.allocation.shares]
    without = there.count(None)
    if not without:
        return "the promise counts on the time limits of the jobs that have GPUs"
    if without == len(there) == 1:
        which = "the job that has GPUs declares none, and counts"
    elif without == len(there):
        which = f"none of the {len(there)} jobs that have GPUs declares one; each counts"
    else:
        said = "declares none, and counts" if without == 1 else "declare none, and count"
        which = f"{without} of the {len(there)} jobs that have GPUs {said}"
    counts = f"{which} as running for {_assumed(policy, default_us)}"
    return f"the promise counts on time limits, and {counts}"


def outlasts(policy: "AnyPolicy", job: Job, state: State, at_us: int) -> str:
    """Return that a promise keeps a job that would fit waiting; empty: none does.

    Args:
        policy: the one at work.
        job: one that waits, and for which enough GPUs are free.
        state: that of the instant, in which it does.
        at_us: the instant.
    """
    default_us, head = default_limit_of(policy), _promised(job, state)
    if default_us is None or head is None:
        return ""
    promised_us, limit_us = state.reservations[head], job.spec.time_limit_us
    left_us = (default_us if limit_us is None else limit_us) - job.occupied_us(at_us)
    if at_us + max(0, left_us) <= promised_us:
        return ""
    own = (
        f"it declares no time limit, and counts as running for {_assumed(policy, default_us)}"
        if limit_us is None
        else f"by its time limit it may run for {_days(max(0, left_us))}"
    )
    return (
        f"it is not started before {head}, to which GPUs are promised from {clock(promised_us)} "
        f"on: {own}, so it would outlast that"
    )


def _promised(job: Job, state: State) -> JobId | None:
    """Return another job to which GPUs are promised."""
    others = [job_id for job_id in state.reservations if job_id != job.job_id]
    return others[0] if others and job.job_id not in state.reservations else None


def _assumed(policy: "AnyPolicy", default_us: int) -> str:
    return f"{_days(default_us)} (policy.params.{policy.name}.default_limit)"


def _days(duration_us: int) -> str:
    """Return a duration in words; whole days as they are configured."""
    is_whole = duration_us >= _DAY_US and not duration_us % _DAY_US
    return f"{duration_us // _DAY_US}d" if is_whole else span(duration_us)
