"""Which GPU types a job accepts, and what is refused because it can never run here.

First `Admission`, then `AcceptedTypes`, which fills in the types of jobs that name none.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from shunter.core.cluster import CPU_POOL, Cluster, Health, Pool, Server
from shunter.core.planning import Consolidated, find
from shunter.core.recorded_words import EVEN_WHEN_EMPTY
from shunter.core.speeds import ThroughputTable
from shunter.core.state import Queue
from shunter.events import ConfigurationSet, Demand, GpuType, JobSpec, Reason, UserName, fact


@fact
class Refusal:
    """Why a job can never run: what it needs, and the most there is."""

    reason: Reason
    needed: int
    most: int
    detail: str


_UNKNOWN = Refusal(Reason.infeasible, 0, 0, "not tried yet")


class Admission:
    """Tries each class of demand once on the empty cluster, and remembers the answer."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._answers: dict[Demand, Refusal | None] = {}
        self._empty: list[Pool] = []  # made at the first question
        self._version = cluster.version

    def refusal(self, demand: Demand, user: UserName, queue: Queue) -> Refusal | None:
        """Return why such a job can never run, or None if it can."""
        if queue.users and user not in queue.users:
            return Refusal(Reason.refused, 0, 0, f"user {user!r} may not use queue {queue.name}")
        if queue.quota_gpus is not None and demand.gpus > queue.quota_gpus:
            detail = f"the quota of queue {queue.name}"
            return Refusal(Reason.infeasible, demand.gpus, queue.quota_gpus, detail)
        if self._version != self._cluster.version:
            self._version = self._cluster.version
            self._answers.clear()  # it is another cluster
            self._empty = []
        answer = self._answers.get(demand, _UNKNOWN)
        if answer is _UNKNOWN:
            answer = self._answers[demand] = self._try(demand)
        return answer

    def _try(self, demand: Demand) -> Refusal | None:
        pools = [
            pool
            for pool in self._empty_pools()
            if not demand.gpus or not demand.gpu_types or pool.gpu_type in demand.gpu_types
        ]
        if not demand.gpus and not demand.cpus_milli:
            return Refusal(Reason.infeasible, 0, 0, "a job must ask for GPUs or CPUs")
        if not pools:
            wanted = " or ".join(demand.gpu_types)
            return Refusal(Reason.infeasible, demand.gpus, 0, f"no node has GPUs of type {wanted}")
        most = max(pool.gpus_free for pool in pools)
        if demand.gpus > most:
            return Refusal(Reason.infeasible, demand.gpus, most, "GPUs of one type in the cluster")
        whys = [find(Consolidated(), pool, demand) for pool in pools]
        if any(not isinstance(why, Reason) for why in whys):
            return None
        return Refusal(Reason.infeasible, demand.gpus, most, f"{EVEN_WHEN_EMPTY}{whys[0]}")

    def _empty_pools(self) -> list[Pool]:
        if self._empty:
            return self._empty
        pools: dict[str, Pool] = {}
        for server in self._cluster.servers.values():
            where = server.configuration
            if server.health is Health.removed:
                continue
            name = where.gpu_type if where.gpus else CPU_POOL
            pool = pools.setdefault(name, Pool(name))
            pool.add(Server(server.name, where, len(pool.servers)))
        self._empty = list(pools.values())
        return self._empty


# The types of jobs that name none: all GPUs, and CPU units only where the table has a rate above
# 0, so that no training lands on CPUs by surprise. No two MIG instances can talk to each other, so
# a job of several GPUs accepts other types only, where there are others.

_MIG: Final = re.compile(r"(?:^|[_:-])(?:\d+c\.)?\d+g\.\d+gb(?:\b|_)")


@cache
def is_mig(gpu_type: str) -> bool:
    """Say whether a type is that of MIG instances, such as a100_1g.10gb."""
    return _MIG.search(gpu_type) is not None


@dataclass(frozen=True)
class AcceptedTypes:
    """The types of a cluster, in the order of its servers, and the table if any."""

    gpus: tuple[GpuType, ...]
    units: tuple[GpuType, ...]
    table: ThroughputTable | None = None

    @classmethod
    def among(
        cls, servers: Iterable[ConfigurationSet], table: ThroughputTable | None = None
    ) -> "AcceptedTypes":
        """Return the types of some servers."""
        there = {where.gpu_type: where.unit_cpus_milli for where in servers if where.gpus}
        gpus = tuple([name for name, of_unit in there.items() if not of_unit])
        units = tuple([name for name, of_unit in there.items() if of_unit])
        return cls(gpus, units, table)

    def of(self, spec: JobSpec) -> JobSpec:
        """Return a job with the types that it accepts; the same job where all do."""
        typed = self._with_units(spec)
        if spec.sizes[1] < 2:
            return typed
        accepted = self._accepted(typed)
        whole = tuple([name for name in accepted if not is_mig(name)])
        return replace(typed, gpu_types=whole) if 0 < len(whole) < len(accepted) else typed

    def mig_alone(self, spec: JobSpec) -> tuple[GpuType, ...]:
        """Return the MIG types alone that a job of several GPUs accepts, if it does."""
        accepted = self._accepted(spec)
        return accepted if spec.sizes[1] > 1 and all(map(is_mig, accepted)) else ()

    def _accepted(self, spec: JobSpec) -> tuple[GpuType, ...]:
        return spec.gpu_types or self.gpus

    def _with_units(self, spec: JobSpec) -> JobSpec:
        """Return a job that names types if there are units of CPU beside GPUs.

        GPUs come first, so that policies that know no rates prefer them. Where there are no GPUs at
        all, nothing but units can be meant.
        """
        if spec.gpu_types or not spec.gpus or not self.units or not self.gpus:
            return spec
        table = self.table
        kind = None if table is None else table.kind_of(spec)
        if table is None or kind is None:
            return replace(spec, gpu_types=self.gpus)
        able = [name for name in self.units if table.rate(name, kind)]
        return replace(spec, gpu_types=(*self.gpus, *able))
