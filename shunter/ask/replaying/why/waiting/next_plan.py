"""Whom the next plan gives the GPUs that are free now, if nothing else happens."""

from collections.abc import Iterable
from dataclasses import dataclass

from shunter.core.cluster import Cluster
from shunter.events.facts.decisions import AllocationChanged, RoundPlanned
from shunter.events.kinds import Event
from shunter.events.values.ids import GpuType, JobId


@dataclass(frozen=True)
class Grant:
    """How many of the free GPUs of a type a job is given."""

    job_id: JobId
    gpu_type: GpuType
    gpus: int


@dataclass(frozen=True)
class NextPlan:
    """When the next plan is, and the jobs that it gives GPUs that are free now.

    Where job schedulers propose places it gives none: it lets the `admitted` be placed.
    """

    at_us: int
    grants: tuple[Grant, ...] = ()
    admitted: tuple[JobId, ...] = ()


def next_plan_of(at_us: int, facts: Iterable[Event], cluster: Cluster) -> NextPlan:
    """Return what a plan does with free GPUs.

    Args:
        at_us: when it is made.
        facts: what it decides.
        cluster: the servers as they are before it.
    """
    found: list[Grant] = []
    admitted: tuple[JobId, ...] = ()
    for fact in facts:
        if isinstance(fact, RoundPlanned):
            admitted = fact.admitted
        if not isinstance(fact, AllocationChanged):
            continue
        gpus: dict[GpuType, int] = {}
        for share in fact.allocation.shares:
            server = cluster.servers[share.node]
            gpu_type = server.configuration.gpu_type
            free = (share.gpu_mask & server.offered).bit_count()
            gpus[gpu_type] = gpus.get(gpu_type, 0) + free
        found += [Grant(fact.job_id, each, count) for each, count in gpus.items() if count]
    return NextPlan(at_us, tuple(found), admitted)
