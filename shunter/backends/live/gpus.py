"""Readings of GPUs, as agents take them by NVML; every failure is a state that says its meaning."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from shunter.backends.node import GpuReading
from shunter.errors import extra_hint


class GpuFault(StrEnum):
    """Why something about GPUs cannot be read."""

    no_binding = "no_binding"
    no_library = "no_library"
    no_driver = "no_driver"
    version_mismatch = "version_mismatch"
    lost = "lost"
    reset_required = "reset_required"
    not_supported = "not_supported"
    old_driver = "old_driver"
    no_permission = "no_permission"
    not_found = "not_found"
    busy = "busy"
    unknown = "unknown"


EXPLANATIONS: Mapping[GpuFault, str] = {
    GpuFault.no_binding: f"nvidia-ml-py is not installed: {extra_hint('nvml')}",
    GpuFault.no_library: "libnvidia-ml.so.1 is not found: no NVIDIA driver is installed here",
    GpuFault.no_driver: "the NVIDIA driver is installed but not loaded, or no GPU is attached",
    GpuFault.version_mismatch: "driver and library differ: reload the driver, or restart the node",
    GpuFault.lost: "the GPU fell off the bus: drain the node, restart it, and release the GPU",
    GpuFault.reset_required: "the GPU needs a reset: drain the node, reset the GPU, and release it",
    GpuFault.not_supported: "this GPU does not offer the reading",
    GpuFault.old_driver: "the driver is too old for the reading",
    GpuFault.no_permission: "the reading is not allowed for this user",
    GpuFault.not_found: "no such GPU on this machine",
    GpuFault.busy: "NVML is short of resources or time: read again later",
    GpuFault.unknown: "NVML failed in a way that it does not explain",
}

# The codes of nvmlReturn_t; every other one, those of a later NVML among them, is `unknown`.
_FAULTS: Mapping[int, GpuFault] = {
    2: GpuFault.not_found,  # invalid argument: an index past the last GPU
    3: GpuFault.not_supported,
    4: GpuFault.no_permission,
    6: GpuFault.not_found,
    9: GpuFault.no_driver,
    10: GpuFault.busy,  # timeout
    12: GpuFault.no_library,
    13: GpuFault.old_driver,  # the library lacks the function
    15: GpuFault.lost,
    16: GpuFault.reset_required,
    18: GpuFault.version_mismatch,
    19: GpuFault.busy,  # in use
    20: GpuFault.busy,  # out of memory
    21: GpuFault.not_supported,  # no data
    23: GpuFault.busy,  # insufficient resources
    25: GpuFault.old_driver,  # the version of an argument
    26: GpuFault.not_supported,  # deprecated
    27: GpuFault.busy,  # not ready
    28: GpuFault.lost,  # no such GPU any more
}


@dataclass(frozen=True, slots=True)
class GpuUse:
    """One reading of one GPU; None where `faults` says why it cannot be had.

    `memory_by_pid` is in MB by process; a process whose share the driver hides is left out.
    """

    index: int
    uuid: str | None = None
    utilisation: float | None = None
    memory_mb: int | None = None
    memory_total_mb: int | None = None
    memory_by_pid: Mapping[int, int] | None = None
    faults: Mapping[str, GpuFault] | None = None

    @property
    def loss(self) -> GpuFault | None:
        """How the GPU itself is gone, and not only a reading; None: it is there."""
        gone = (GpuFault.lost, GpuFault.reset_required)
        return next((fault for fault in (self.faults or {}).values() if fault in gone), None)

    @property
    def is_lost(self) -> bool:
        """Whether the GPU itself is gone, and not only a reading."""
        return self.loss is not None


def fault_of_code(code: int) -> GpuFault:
    """Return what a code of NVML (nvmlReturn_t) means, or that it is unknown."""
    return _FAULTS.get(code, GpuFault.unknown)


def why_unseen(code: int, said: str) -> str:
    """Return why no GPU is seen.

    Args:
        code: that of NVML; 0 where it sees none.
        said: what nvidia-smi says.
    """
    by_nvml = EXPLANATIONS[fault_of_code(code)] if code else "NVML sees none"
    return f"{by_nvml}; {said}" if said else by_nvml


def use_told(told: Mapping[str, object]) -> GpuUse:
    """Return the reading of a GPU, as an agent tells it, decoded or not yet.

    Raises:
        WrongMessageError: it is none.
    """
    reading = told if isinstance(told, GpuReading) else GpuReading.decoded(told)
    return GpuUse(
        index=reading.index,
        uuid=reading.uuid,
        utilisation=reading.utilisation,
        memory_mb=reading.memory_mb,
        memory_total_mb=reading.memory_total_mb,
        memory_by_pid=reading.memory_by_pid,
        faults={what: fault_of_code(code) for what, code in reading.faults.items()},
    )
