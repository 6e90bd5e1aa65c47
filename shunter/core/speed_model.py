"""How fast a job runs on a placement: one model, for the simulator and for policies that predict.

speed = throughput on this GPU type / throughput on the base type x locality x interference,
relative to the base speed at which a trace's durations are given. Throughput is a table by kind of
job and GPU type; where it says nothing, a relative speed by GPU type counts; where that says
nothing, 1. Locality is the job's own tolerance curve: its speed where its GPUs are so far apart.
Interference is what others on the same GPUs leave of its speed: the throughput beside them over
that alone, by the same table. Tables know pairs only; for more than one partner we multiply, as if
each took its part of what the others leave. Where the table says nothing of a pair, the GPU takes
turns, and each further tenant takes as much as one has (`packed`, a half).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shunter.core.throughputs import ThroughputTable
from shunter.events.values.allocation import Allocation
from shunter.events.values.configuration_set import ConfigurationSet
from shunter.events.values.ids import GpuType, NodeName
from shunter.events.values.job_spec import JobSpec, Level


@dataclass(frozen=True)
class SpeedModel:
    """Relative speeds by GPU type, and throughputs, which count before them."""

    nodes: Mapping[NodeName, ConfigurationSet]
    relative: Mapping[GpuType, float] = field(default_factory=dict)
    throughput: ThroughputTable | None = None
    packed: float = 0.5

    def speed(
        self, spec: JobSpec, allocation: Allocation, partners: Sequence[JobSpec] = ()
    ) -> float:
        """Return the speed of a job on an allocation, relative to base speed.

        `partners` are the jobs that run on some of its GPUs at once; 0: it cannot run beside them.
        """
        gpu_type = self.nodes[allocation.shares[0].node].gpu_type
        speed = self._device_speed(spec, gpu_type)
        for partner in partners:
            speed *= self._left_beside(spec, gpu_type, partner)
        return speed * self._tolerated(spec, allocation)

    def rate(
        self, spec: JobSpec, allocation: Allocation, partners: Sequence[JobSpec] = ()
    ) -> float | None:
        """Return the steps per second of a job there; None if no table has them.

        It is the table's own number, not a speed times the base rate: policies that count steps by
        the table count the same whole steps.
        """
        table = self.throughput
        kind = None if table is None else table.kind_of(spec)
        if table is None or kind is None:
            return None
        gpu_type = self.nodes[allocation.shares[0].node].gpu_type
        rate = table.rate(gpu_type, kind)
        if len(partners) == 1:
            other = table.kind_of(partners[0])
            rates = None if other is None else table.pair_rates(gpu_type, kind, other)
            rate = rate if rates is None else rates[0]
            partners = partners if rates is None else ()
        if rate is None:
            return None
        for partner in partners:
            rate *= self._left_beside(spec, gpu_type, partner)
        return rate * self._tolerated(spec, allocation)

    def _tolerated(self, spec: JobSpec, allocation: Allocation) -> float:
        """Return which part of its speed a job keeps where its GPUs are so far apart."""
        if not spec.tolerance:
            return 1.0
        return dict(spec.tolerance).get(level_of(allocation, self.nodes), 1.0)

    def _device_speed(self, spec: JobSpec, gpu_type: GpuType) -> float:
        if self.throughput is not None:
            kind = self.throughput.kind_of(spec)
            speed = None if kind is None else self.throughput.speed(gpu_type, kind)
            if speed is not None:
                return speed
        return self.relative.get(gpu_type, 1.0)

    def _left_beside(self, spec: JobSpec, gpu_type: GpuType, partner: JobSpec) -> float:
        """Return which part of its speed alone a job has beside another one."""
        table = self.throughput
        one = None if table is None else table.kind_of(spec)
        other = None if table is None else table.kind_of(partner)
        if table is None or one is None or other is None:
            return self.packed
        alone, rates = table.rate(gpu_type, one), table.pair_rates(gpu_type, one, other)
        return rates[0] / alone if rates is not None and alone else self.packed


def level_of(allocation: Allocation, nodes: Mapping[NodeName, ConfigurationSet]) -> Level:
    """Return the smallest level that holds all GPUs of an allocation (SOSP-SRC 2017)."""
    sets = [nodes[share.node] for share in allocation.shares]
    if len(sets) > 1:
        if sets[0].rack and len({where.rack for where in sets}) == 1:
            return Level.rack
        if sets[0].domain and len({where.domain for where in sets}) == 1:
            return Level.domain
        return Level.cluster
    mask = allocation.shares[0].gpu_mask
    for groups in sets[0].levels:
        if any(mask & ~group == 0 for group in groups.masks):
            return groups.level
    return Level.server
