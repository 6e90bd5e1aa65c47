"""Why a job can never run here, in words: what it needs, and the most that there is of that.

The recorded numbers count GPUs. Where something else is short (memory, CPUs, GPUs near together),
they would say that too few GPUs are there where there are enough; so the words are made from what
the job asked for and from the servers themselves.
"""

from shunter.ask.replaying.formatting import gpus_in_words, split_in_words
from shunter.core.admission import EVEN_WHEN_EMPTY, Admission, Refusal
from shunter.core.cluster import Cluster, Health, Server
from shunter.core.speeds.measured import has_learnt_floor
from shunter.core.state import Queue, State
from shunter.counting import counted
from shunter.errors import RefusedError
from shunter.events.facts.jobs import JobRejected
from shunter.events.values.job_spec import JobSpec
from shunter.events.values.reasons import Reason

Rejection = JobRejected | Refusal
"""What is recorded of a rejection, or was found of a job that was only tried."""


def is_short_when_empty(told: Rejection) -> bool:
    """Say whether a job does not fit although there are enough GPUs."""
    return told.detail.startswith(EVEN_WHEN_EMPTY)


def rejection_in_words(told: Rejection, spec: JobSpec | None, cluster: Cluster | None) -> str:
    """Return why a job can never run here.

    Args:
        told: what is recorded.
        spec: what the job asked for, if it is known.
        cluster: the servers of then, if they are known.
    """
    if not is_short_when_empty(told) or spec is None:
        numbers = f"it needs {told.needed}, and there are {told.most}" if told.needed else ""
        detail = f"({told.detail})" if numbers and told.detail else told.detail
        return " ".join(part for part in (numbers, detail) if part)
    short = told.detail.removeprefix(EVEN_WHEN_EMPTY)
    servers = [] if cluster is None else _accepted(spec, cluster)
    if short == Reason.cpu_or_memory_short:
        return _beside(spec, servers)
    if has_learnt_floor(spec) and spec.max_level is None:
        return (
            f"it needs {gpus_in_words(spec.gpus)} where gangs of {spec.model} reach its floor of "
            f"{spec.min_speed:g}, by what they measured, and none are so, even when empty"
        )
    if short == Reason.locality_not_met:
        most = max((server.configuration.gpus for server in servers), default=0)
        near = "near together" if spec.level_max is None else f"within one {spec.level_max}"
        there = f"; the most in one server are {most}" if servers else ""
        return (
            f"it needs {gpus_in_words(spec.gpus)} {near}, and none are so, even when empty{there}"
        )
    splits = " or ".join(map(split_in_words, spec.shapes_accepted)) or "it asks"
    gpus = gpus_in_words(spec.gpus)
    return f"it needs {gpus} split as {splits}, and no servers can be split so, even when empty"


def refuse_impossible(spec: JobSpec, state: State, admission: Admission) -> None:
    """Raise RefusedError if a job can never run here, as the core would reject it."""
    queue = state.queues.get(spec.queue) or Queue(spec.queue)
    refusal = admission.refusal(state.demand_of(spec), spec.user, queue)
    if refusal is not None:
        why = rejection_in_words(refusal, spec, state.cluster)
        if spec.gpu_types and not refusal.most and refusal.needed:
            servers = state.cluster.servers.values()
            types = sorted({server.configuration.gpu_type for server in servers})
            why += f"; types are {', '.join(types)}"
        raise RefusedError(f"it can never run here: {refusal.reason}: {why}")


def _beside(spec: JobSpec, servers: list[Server]) -> str:
    """Return what a job needs beside its GPUs, and the most that a server has of it."""
    needs, most = [], []
    if spec.cpus_milli:
        needs.append(counted(spec.cpus_milli / 1000, "CPU"))
        cpus = max((server.configuration.cpus_milli for server in servers), default=0)
        most.append(counted(cpus / 1000, "CPU"))
    if spec.memory_mb:
        needs.append(f"{spec.memory_mb} MB of memory")
        memory = max((server.configuration.memory_mb for server in servers), default=0)
        most.append(f"{memory} MB")
    beside = f"{gpus_in_words(spec.gpus)} with " if spec.gpus else ""
    there = f"; the most that one has is {' and '.join(most)}" if servers else ""
    return (
        f"it needs {beside}{' and '.join(needs)}, and no server could give that, "
        f"even when empty{there}"
    )


def _accepted(spec: JobSpec, cluster: Cluster) -> list[Server]:
    """Return the servers with GPUs of a type that a job accepts; for a CPU job, all."""
    return [
        server
        for server in cluster.servers.values()
        if server.health is not Health.removed
        and (not spec.gpus or server.configuration.gpus)
        and (not spec.gpu_types or server.configuration.gpu_type in spec.gpu_types)
    ]
