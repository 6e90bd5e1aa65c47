"""What part of the whole cluster a job demands, of GPUs, CPUs and memory.

Orders that weigh several resources go by it. The demand is what a job asks for itself; of what it
does not ask for, the least with which its model is fastest, as far as a server has it (the
best-case demand of Mohan et al., Synergy, OSDI 2022, section 4); and where nobody knows its model,
the part that it asks of the GPUs. All servers of the cluster count, up or not, so that the order
stays when one is drained or cannot be reached.
"""

from dataclasses import dataclass, field

from shunter.core.cluster import Cluster
from shunter.core.cluster.server import Health
from shunter.core.performance.sensitivity import SensitivityTable
from shunter.core.sizing.mechanism import NO_RESOURCES, Whole, fastest, whole_of
from shunter.core.state import Job
from shunter.core.view import View
from shunter.events.values import GpuType, JobSpec, Resources

WHOLE = 1 << 40
"""The unit in which parts are counted: so much is all that the cluster has."""


@dataclass(slots=True)
class _Totals:
    """What a cluster has, until a server joins or leaves."""

    cluster: Cluster | None = None
    version: int = 0
    all: Resources = NO_RESOURCES
    wholes: dict[tuple[GpuType, ...], Whole] = field(default_factory=dict)

    def look_at(self, cluster: Cluster) -> None:
        """Add up the servers again if they are others than before."""
        if self.cluster is cluster and self.version == cluster.version:
            return
        self.cluster, self.version, self.all = cluster, cluster.version, NO_RESOURCES
        self.wholes.clear()
        for server in cluster.servers.values():
            if server.health is not Health.removed:
                where = server.configuration
                self.all += Resources(where.gpus, where.cpus_milli, where.memory_mb)


@dataclass(frozen=True)
class Demands:
    """The demands of jobs; `table` says how sensitive models are, if anybody knows."""

    table: SensitivityTable | None = None
    _totals: _Totals = field(default_factory=_Totals, init=False, repr=False, compare=False)

    def parts(self, job: Job, view: View) -> tuple[int, int, int]:
        """Return the parts of all GPUs, CPUs and memory that a job demands.

        All are in parts of `WHOLE`. Of what no server names, the demand is that of GPUs.
        """
        totals, spec = self._totals, job.spec
        totals.look_at(view.cluster)
        there = totals.all
        gpus = spec.gpus * WHOLE // there.gpus if there.gpus else 0
        best = NO_RESOURCES
        if self.table is not None and spec.gpus and not (spec.cpus_milli and spec.memory_mb):
            best = fastest(self.table, spec, self._whole(spec, view)) or best
        cpus_milli = spec.cpus_milli or best.cpus_milli * spec.gpus
        memory_mb = spec.memory_mb or best.memory_mb * spec.gpus
        return (
            gpus,
            _part(cpus_milli, there.cpus_milli, gpus),
            _part(memory_mb, there.memory_mb, gpus),
        )

    def _whole(self, spec: JobSpec, view: View) -> Whole:
        """Return what the servers have on which a job may be."""
        wholes, types = self._totals.wholes, spec.gpu_types
        if types not in wholes:
            pools = view.pools
            wholes[types] = whole_of(*[pools[name] for name in types or pools if name in pools])
        return wholes[types]


def _part(amount: int, there: int, of_gpus: int) -> int:
    """Return what part an amount is; the part of the GPUs if either is 0."""
    return amount * WHOLE // there if amount and there else of_gpus
