"""How many steps a second each kind of job makes on each GPU type, alone and in pairs.

A kind of job is its model with its batch size, as the table names it, and its GPUs. A rate is that
of the whole gang; a rate of 0 means that the kind was tried and cannot run there, most often for
want of memory. What nobody measured is None, which is no rate.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from shunter.events.values import GpuType, JobSpec

NO_TYPE = GpuType("")


class JobKind(NamedTuple):
    """What a table knows a job by."""

    model: str
    gpus: int


Pair = tuple[JobKind, JobKind]


@dataclass(frozen=True)
class ThroughputTable:
    """Rates in steps per second; nobody changes the mappings once the table is made.

    Attributes:
        alone: by GPU type and kind, the rate of a job that has its GPUs to itself.
        paired: by GPU type and pair, the rates of the one and the other while they share their
            GPUs; each pair stands there in both orders.
        base_type: the GPU type at which durations are given, and whose speed is 1.
        name: what messages call the table.
    """

    alone: Mapping[GpuType, Mapping[JobKind, float]]
    paired: Mapping[GpuType, Mapping[Pair, tuple[float, float]]] = field(default_factory=dict)
    base_type: GpuType = NO_TYPE
    name: str = field(default="", compare=False)

    @cached_property
    def kinds(self) -> Mapping[JobKind, int]:
        """Every kind with its number, from 0 in order of model and GPUs."""
        found = {kind for rates in self.alone.values() for kind in rates}
        return {kind: number for number, kind in enumerate(sorted(found))}

    def kind_of(self, spec: JobSpec) -> JobKind | None:
        """Return which kind a job is; None if it is none of the table.

        A job that gives its batch size apart from its model is found as well.
        """
        kind = JobKind(spec.model, spec.gpus)
        if kind in self.kinds or spec.batch_size is None:
            return kind if kind in self.kinds else None
        kind = JobKind(f"{spec.model} (batch size {spec.batch_size})", spec.gpus)
        return kind if kind in self.kinds else None

    def rate(self, gpu_type: GpuType, kind: JobKind) -> float | None:
        """Return the rate of a job alone; None where nobody measured it."""
        return self.alone.get(gpu_type, {}).get(kind)

    def pair_rates(
        self, gpu_type: GpuType, one: JobKind, other: JobKind
    ) -> tuple[float, float] | None:
        """Return the rates of two jobs that share GPUs; None where nobody measured it."""
        return self.paired.get(gpu_type, {}).get((one, other))

    def speed(self, gpu_type: GpuType, kind: JobKind) -> float | None:
        """Return the rate over that on the base type; None where that says nothing."""
        here, base = self.rate(gpu_type, kind), self.rate(self.base_type, kind)
        return here / base if here is not None and base else None

    def narrowed(self, gpu_types: Iterable[GpuType]) -> "ThroughputTable":
        """Return the table of these GPU types and the base type, all in order.

        Equal tables are then gone through in equal order, wherever they were read.
        """
        wanted = sorted({*gpu_types, self.base_type}.intersection(self.alone))
        pairs = {gpu_type: self.paired.get(gpu_type, {}) for gpu_type in wanted}
        return ThroughputTable(
            {gpu_type: dict(sorted(self.alone[gpu_type].items())) for gpu_type in wanted},
            {gpu_type: dict(sorted(at.items())) for gpu_type, at in pairs.items()},
            self.base_type,
            self.name,
        )
