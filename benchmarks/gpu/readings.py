"""Do NVML, as agents read it, and nvidia-smi say the same of each GPU?"""

from collections.abc import Iterator
from typing import Any

from benchmarks.gpu.machine import NO_GPU, Machine, NotMeasured, nvml_gpus, program_gpus

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
    for one, other in zip(by_nvml, by_program, strict=False):
        for what, first, second, is_same in _compared(one, other):
            if not is_same:
                told = f"{first} by NVML, {second} by nvidia-smi"
                differing.append(f"{what} of GPU {one.index}: {told}")
    if len(by_nvml) != len(by_program):
        differing.append(f"{len(by_nvml)} GPUs by NVML, {len(by_program)} by nvidia-smi")
    return {
        "gpus": len(by_nvml),
        "differing": differing,
        "in words": f"{len(by_nvml)} GPUs, "
        + ("; ".join(differing) or "NVML and nvidia-smi agree"),
    }


def _compared(one: Any, other: Any) -> Iterator[tuple[str, object, object, bool]]:
    """Yield what both say of a GPU, and whether that is the same."""
    for name in EQUAL:
        first, second = getattr(one, name), getattr(other, name)
        yield name, first, second, first == second
    yield "bus", one.bus, other.bus, _bus(one.bus) == _bus(other.bus)
    first_mb, second_mb = one.memory_mb or 0, other.memory_mb or 0
    yield "memory_mb", first_mb, second_mb, abs(first_mb - second_mb) <= MEMORY_MB
    busy, also = one.utilisation or 0.0, other.utilisation or 0.0
    yield "utilisation", busy, also, abs(busy - also) <= BUSY


def _bus(told: str | None) -> str:
    return (told or "").lower()[-12:]  # the domain has four digits or eight
