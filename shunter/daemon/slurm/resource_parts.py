"""What a job gets of CPUs and memory that names none, where each attempt is a job of Slurm.

Slurm gives a job what it is asked for and no more, so somebody has to ask. A job with GPUs that
names no CPUs, or no memory, asks for its GPUs' part of a node, as Slurm's `DefCpuPerGPU` does: of
the node with the smallest part, among those with GPUs that it accepts, so that it fits on each. It
does so from its submission on: what is planned with, shown and asked of Slurm is one number.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from shunter.config.model import Config
from shunter.events.values import ConfigurationSet, JobSpec

WHOLE_MILLI = 1000
"""Slurm gives whole CPUs, and one at least."""


def asked_of_slurm(spec: JobSpec, config: Config) -> JobSpec:
    """Return a job with the CPUs and memory that it is to have of Slurm.

    It is the same job where the config says of no attempt that it is a job of Slurm, where the job
    names both, or where the config does not say of some node what it has.
    """
    if not config.backend.launches_wait:
        return spec
    nodes = [
        where
        for _, where in config.cluster.servers()
        if not spec.gpus
        or (where.gpus and (not spec.gpu_types or where.gpu_type in spec.gpu_types))
    ]
    cpus_milli = spec.cpus_milli or _cpus_milli(spec.gpus, nodes)
    memory_mb = spec.memory_mb or _memory_mb(spec.gpus, cpus_milli, nodes)
    if (cpus_milli, memory_mb) == (spec.cpus_milli, spec.memory_mb):
        return spec
    return replace(spec, cpus_milli=cpus_milli, memory_mb=memory_mb)


def as_first_asked(spec: JobSpec, first: JobSpec, config: Config) -> JobSpec:
    """Return a job that is submitted again with what it was given the first time.

    The nodes may have been others then, and so may its part of them.
    """
    if not config.backend.launches_wait:
        return spec
    return replace(
        spec,
        cpus_milli=spec.cpus_milli or first.cpus_milli,
        memory_mb=spec.memory_mb or first.memory_mb,
    )


def _cpus_milli(gpus: int, nodes: Collection[ConfigurationSet]) -> int:
    """Return the CPUs of some GPUs, in thousandths; 0: it is not known."""
    if not gpus:
        return WHOLE_MILLI
    each_milli = _least(where.cpus_milli // where.gpus for where in nodes)
    if each_milli >= WHOLE_MILLI:
        each_milli -= each_milli % WHOLE_MILLI
    return each_milli and max(WHOLE_MILLI, each_milli * gpus)


def _memory_mb(gpus: int, cpus_milli: int, nodes: Collection[ConfigurationSet]) -> int:
    """Return the memory that goes with GPUs, or with CPUs alone; 0: unknown."""
    if gpus:
        return gpus * _least(where.memory_mb // where.gpus for where in nodes)
    parts = [
        where.memory_mb * cpus_milli // where.cpus_milli
        for where in nodes
        if cpus_milli <= where.cpus_milli
    ]
    return _least(parts)


def _least(parts: Iterable[int]) -> int:
    return min(parts, default=0)
