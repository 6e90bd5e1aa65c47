"""What is true at a point of a log, as one document: jobs, queue, cluster, and the digest."""

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from shunter.ask.replaying.instants import clock
from shunter.ask.replaying.waits import told_apart, wait_of
from shunter.core.cluster import Cluster
from shunter.core.state import JobPhase, State, state_digest
from shunter.events.facts.jobs import Outcome
from shunter.events.values.ids import JobId
from shunter.events.values.job_spec import Demand

SCHEMA = 1
NONE_REBUILT: Mapping[JobId, Demand] = MappingProxyType({})


def standing(state: State, rebuilt: Mapping[JobId, Demand] = NONE_REBUILT) -> dict[str, Any]:
    """Return the facts of a state as JSON-able data.

    Args:
        state: what is true.
        rebuilt: the classes of waiting jobs that the log does not say (`classes_at`).
    """
    return {
        "schema": SCHEMA,
        "seq": state.seq,
        "at_us": state.now_us,
        "time": clock(state.now_us),
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
    """Return how many jobs wait for each reason; `rebuilt` is as in `standing`."""
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
