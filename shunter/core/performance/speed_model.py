"""How fast a job runs on a placement: one model, for the simulator and for policies that predict.

speed = throughput on this GPU type / throughput on the base type x locality x interference
x sensitivity to CPUs and memory, relative to the base speed at which a trace's durations are given.
Throughput is a table by kind of job and GPU type; where it says nothing, a relative speed by GPU
type counts; where that says nothing, 1. Locality is the job's own tolerance curve: its speed where
its GPUs are so far apart. Interference is what others on the same GPUs leave of its speed: the
throughput beside them over that alone, by the same table. Tables know pairs only; for more than one
partner we multiply, as if each took its part of what the others leave. Where the table says nothing
of a pair, the table of factors does, or its rule; where that does not either, the GPU takes turns,
and each further tenant takes as much as one has (`packed`, a half). The table of factors also says
by model what distance leaves, where a job brings no curve of its own, and what neighbours do: jobs
on other GPUs of its servers (`core/performance/model_factors.py`), where a job says nothing of that
either (`core/performance/contract.py`).
Sensitivity is a matrix by model (`core/performance/sensitivity.py`), 1 at the GPU-proportional
share; on units of CPU, whose speed is that of their CPUs, it does not count. A gang that has
another size than the one submitted has a speed by its own kind, times `speed_of_size`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shunter.core.performance.contract import neighbours_leave, tolerated_speed
from shunter.core.performance.model_factors import FactorTable
from shunter.core.performance.sensitivity import SensitivityTable
from shunter.core.performance.throughputs import ThroughputTable
from shunter.events.values.allocation import Allocation
from shunter.events.values.configuration_set import CPU_UNITS, ConfigurationSet, LevelGroups
from shunter.events.values.ids import GpuType, NodeName
from shunter.events.values.job_spec import JobSpec, Level


@dataclass(frozen=True)
class SpeedModel:
    """Relative speeds by GPU type, and throughputs, which count before them.

    `are_sensitive` says that jobs say themselves what neighbours take of their speed.
    """

    nodes: Mapping[NodeName, ConfigurationSet]
    relative: Mapping[GpuType, float] = field(default_factory=dict)
    throughput: ThroughputTable | None = None
    packed: float = 0.5
    sensitivity: SensitivityTable | None = None
    factors: FactorTable | None = None
    are_sensitive: bool = False

    def speed_of_size(self, submitted: JobSpec, spec: JobSpec) -> float:
        """Return the speed of a gang of another size over that of the one submitted.

        Args:
            submitted: the job as its trace has it, with the gang for which its duration is given.
            spec: the job with the gang that it has now.
        Returns:
            1 if it is as large; by the rates of both on the base type, where the table has them;
            else the GPUs of now over those submitted: linear, for nothing better is known.
        """
        if spec.gpus == submitted.gpus or not submitted.gpus:
            return 1.0
        table = self.throughput
        if table is not None:
            kinds = table.kind_of(submitted), table.kind_of(spec)
            before, now = (
                None if kind is None else table.rate(table.base_type, kind) for kind in kinds
            )
            if before and now is not None:
                return now / before
        return spec.gpus / submitted.gpus

    @property
    def knows_neighbours(self) -> bool:
        """Whether jobs may be slower beside others on the same servers."""
        return self.are_sensitive or (self.factors is not None and self.factors.know_neighbours)

    def speed(
        self,
        spec: JobSpec,
        allocation: Allocation,
        partners: Sequence[JobSpec] = (),
        neighbours: Sequence[Allocation] = (),
    ) -> float:
        """Return the speed of a job on an allocation, relative to base speed.

        Args:
            spec: the job.
            allocation: its GPUs.
            partners: the jobs that run on some of them at once; 0: it cannot run beside them.
            neighbours: where jobs run that have other GPUs of the same servers.
        """
        gpu_type = self.nodes[allocation.shares[0].node].gpu_type
        speed = self._device_speed(spec, gpu_type)
        for partner in partners:
            speed *= self._left_beside(spec, gpu_type, partner)
        return speed * self._kept(spec, allocation, neighbours)

    def rate(
        self,
        spec: JobSpec,
        allocation: Allocation,
        partners: Sequence[JobSpec] = (),
        neighbours: Sequence[Allocation] = (),
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
        return rate * self._kept(spec, allocation, neighbours)

    def _kept(
        self, spec: JobSpec, allocation: Allocation, neighbours: Sequence[Allocation]
    ) -> float:
        """Return what distance, neighbours, CPUs and memory leave of the speed of a job."""
        factors = None if self.factors is None else self.factors.of(spec.model)
        speed = contract_speed(spec, allocation, neighbours, self.nodes)
        if factors is not None and spec.gpus > 1 and not spec.has_curve:
            speed *= factors.locality(allocation, self._wired_level(allocation))
        if factors is not None and neighbours and spec.interference is None:
            near = [nearest_level(allocation, other, self.nodes) for other in neighbours]
            speed *= factors.left_beside(near)
        device = self.nodes[allocation.shares[0].node].device
        if self.sensitivity is not None and device != CPU_UNITS:
            speed *= self.sensitivity.speed(spec, allocation)
        return speed

    def _wired_level(self, allocation: Allocation) -> Level:
        """Return how far apart GPUs are; without groups they are below one switch."""
        (first, *others), nodes = allocation.shares, self.nodes
        level = level_of(allocation, nodes)
        is_flat = not others and not nodes[first.node].bus_levels
        return Level.switch if is_flat and level is not Level.nvlink else level

    def _device_speed(self, spec: JobSpec, gpu_type: GpuType) -> float:
        if self.throughput is not None:
            kind = self.throughput.kind_of(spec)
            speed = None if kind is None else self.throughput.speed(gpu_type, kind)
            if speed is not None:
                return speed
        return self.relative.get(gpu_type, 1.0)

    def _left_beside(self, spec: JobSpec, gpu_type: GpuType, partner: JobSpec) -> float:
        """Return which part of its speed alone a job has beside another one."""
        table, left = self.throughput, None
        one = None if table is None else table.kind_of(spec)
        other = None if table is None else table.kind_of(partner)
        if table is not None and one is not None and other is not None:
            alone, rates = table.rate(gpu_type, one), table.pair_rates(gpu_type, one, other)
            left = rates[0] / alone if rates is not None and alone else None
        if left is None and self.factors is not None:
            left = self.factors.packed(spec.model, gpu_type, partner.model)
        return self.packed if left is None else left


def contract_speed(
    spec: JobSpec,
    allocation: Allocation,
    neighbours: Sequence[Allocation],
    nodes: Mapping[NodeName, ConfigurationSet],
) -> float:
    """Return how fast a job is by its own contract, of its speed near and alone.

    Args:
        spec: the job; one that says nothing of either has all of its speed.
        allocation: its GPUs.
        neighbours: where jobs run that have other GPUs of the same servers.
        nodes: at least its servers.
    """
    speed = 1.0
    if spec.has_curve:
        split = [share.gpus for share in allocation.shares]
        speed = tolerated_speed(spec, level_of(allocation, nodes), split)
    if neighbours and spec.interference is not None:
        near = [nearest_level(allocation, other, nodes) for other in neighbours]
        speed *= neighbours_leave(spec.interference, near)
    return speed


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


def nearest_level(
    one: Allocation, other: Allocation, nodes: Mapping[NodeName, ConfigurationSet]
) -> Level | None:
    """Return the smallest level in a server that holds a GPU of each; None: none.

    A server of no groups has all its GPUs below one switch. NVLink is no nearness of jobs: it joins
    the GPUs of one job, and two that have such GPUs share nothing by that.
    """
    masks = {share.node: share.gpu_mask for share in one.shares}
    found = []
    for share in other.shares:
        mine, theirs = masks.get(share.node, 0), share.gpu_mask
        if mine and theirs:
            levels = nodes[share.node].bus_levels
            shared = (groups for groups in levels if _meet(groups, mine, theirs))
            otherwise = Level.server if levels else Level.switch
            found.append(next((groups.level for groups in shared), otherwise))
    return min(found, key=list(Level).index, default=None)


def _meet(groups: LevelGroups, mine: int, theirs: int) -> bool:
    return any(mine & group and theirs & group for group in groups.masks)
