"""Do NVML, as agents read it, and nvidia-smi say the same of each GPU?"""

from typing import Any

from benchmarks.gpu.machine import NO_GPU, Machine, NotMeasured
from shunter.backends.node.host.gpus import nvml_gpus, program_gpus

MEMORY_MB = 64  # what may change between two readings, or be counted otherwise
BUSY = 0.2
EQUAL = ("index", "uuid", "name", "memory_total_mb")


def measure(here: Machine) -> dict[str, Any]:
    """Compare both readings of each GPU."""
    by_nvml, code = nvml_gpus()
    by_program, fault = program_gpus()
    if not by_nvml and not by_program:
        raise NotMeasured(NO_GPU)
    if not by_nvml or not by_program:
        why = f"NVML fails with {code}" if not by_nvml else f"nvidia-smi: {fault}"
        raise NotMeasured(f"only one of both reads GPUs here; {why}")
    differing = []
    for one, other in zip(by_nvml, by_program):
        for name in EQUAL:
            if getattr(one, name) != getattr(other, name):
                differing.append(f"{name} of GPU {one.index}: {getattr(one, name)!r} by NVML, "
                                 f"{getattr(other, name)!r} by nvidia-smi")
        if _bus(one.bus) != _bus(other.bus):
            differing.append(f"bus of GPU {one.index}: {one.bus} by NVML, {other.bus} by nvidia-smi")
        if abs((one.memory_mb or 0) - (other.memory_mb or 0)) > MEMORY_MB:
            differing.append(f"memory of GPU {one.index}: {one.memory_mb} MB by NVML, "
                             f"{other.memory_mb} MB by nvidia-smi")
        if abs((one.utilisation or 0) - (other.utilisation or 0)) > BUSY:
            differing.append(f"utilisation of GPU {one.index}: {one.utilisation} by NVML, "
                             f"{other.utilisation} by nvidia-smi")
    if len(by_nvml) != len(by_program):
        differing.append(f"{len(by_nvml)} GPUs by NVML, {len(by_program)} by nvidia-smi")
    return {
        "gpus": len(by_nvml),
        "differing": differing,
        "in words": f"{len(by_nvml)} GPUs, " + ("; ".join(differing) or "NVML and nvidia-smi agree"),
    }


def _bus(told: "str | None") -> str:
    return (told or "").lower()[-12:]  # the domain has four digits or eight
