"""Which types of accelerator a job accepts that names none.

GPUs of every type; and units of CPU only where the table of throughputs has a rate above 0 for it
there, so that nobody's training lands on CPUs by surprise. In a cluster that has both, a job gets
these types into its specification as it comes in: all that places jobs, checks and explains goes by
them, and knows nothing of devices. Who names types himself says whether units are among them.

Instances of MIG are GPUs for jobs of one GPU alone: a program can use one of them, and no two can
talk to each other. A job of several GPUs accepts the other types only, where there are others.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from shunter.core.performance.throughputs import ThroughputTable
from shunter.events.values import ConfigurationSet, GpuType, JobSpec

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
