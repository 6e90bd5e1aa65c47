"""GPU utilisation and memory by NVML, with every failure as a state that says what it means.

nvidia-ml-py (the extra `nvml`) is imported at the first reading. An error never leaves this module:
a machine without a driver, a GPU that fell off the bus and a function that a card lacks are facts
about the machine, and a job trains on whether or not it can be watched.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from types import ModuleType
from typing import Any

import msgspec

from shunter.backends.live.messages import GpuReading
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
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class NoGpus:
    """No GPU can be read at all, and why."""

    fault: GpuFault
    detail: str = ""

    @property
    def explanation(self) -> str:
        """What it means and what to do, in one line."""
        return EXPLANATIONS[self.fault] + (f" ({self.detail})" if self.detail else "")


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


class GpuReader:
    """Reads the GPUs of this machine; each reading opens and closes NVML.

    Opening costs little beside a sample interval, and a driver that was reloaded or a library
    that was updated in the meantime is seen without a restart of the supervisor.
    """

    def __init__(self, binding: ModuleType | None = None) -> None:
        self._nvml: Any = binding

    def read(self, indices: Iterable[int] | None = None) -> tuple[GpuUse, ...] | NoGpus:
        """Return a reading of each of the GPUs, all by default, or why there is none."""
        if self._nvml is None:
            try:
                self._nvml = import_module("pynvml")
            except ImportError:
                return NoGpus(GpuFault.no_binding)
        nvml = self._nvml
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            return NoGpus(fault_of(error), str(error))
        try:
            wanted = range(nvml.nvmlDeviceGetCount()) if indices is None else indices
            return tuple(self._device(index) for index in wanted)
        except nvml.NVMLError as error:
            return NoGpus(fault_of(error), str(error))
        finally:
            self._close()

    def _device(self, index: int) -> GpuUse:
        nvml = self._nvml
        faults: dict[str, GpuFault] = {}
        handle = self._tried(faults, "device", nvml.nvmlDeviceGetHandleByIndex, index)
        if handle is None:
            return GpuUse(index, faults=faults)
        uuid = self._tried(faults, "uuid", nvml.nvmlDeviceGetUUID, handle)
        rates = self._tried(faults, "utilisation", nvml.nvmlDeviceGetUtilizationRates, handle)
        memory = self._tried(faults, "memory", nvml.nvmlDeviceGetMemoryInfo, handle)
        running = self._tried(
            faults, "processes", nvml.nvmlDeviceGetComputeRunningProcesses, handle
        )
        return GpuUse(
            index=index,
            uuid=uuid,
            utilisation=None if rates is None else rates.gpu / 100,
            memory_mb=None if memory is None else memory.used // _MIB,
            memory_total_mb=None if memory is None else memory.total // _MIB,
            memory_by_pid=None if running is None else _by_pid(running),
            faults=faults,
        )

    def _tried(self, faults: dict[str, GpuFault], what: str, read: Any, argument: Any) -> Any:
        """Return a reading, or None after noting why it cannot be had."""
        try:
            return read(argument)
        except self._nvml.NVMLError as error:
            faults[what] = fault_of(error)
            return None

    def _close(self) -> None:
        try:
            self._nvml.nvmlShutdown()
        except self._nvml.NVMLError:
            return  # nothing is open then


def fault_of(error: Exception) -> GpuFault:
    """Return what an error of NVML means; unknown where nobody has said so."""
    value = getattr(error, "value", None)
    return fault_of_code(value) if isinstance(value, int) else GpuFault.unknown


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


def use_told(told: GpuReading | Mapping[str, object]) -> GpuUse:
    """Return the reading of a GPU, as an agent tells it, decoded or not yet.

    Raises:
        msgspec.ValidationError: it is none.
    """
    reading = msgspec.convert(told, GpuReading, str_keys=True, from_attributes=True)
    return GpuUse(
        index=reading.index,
        uuid=reading.uuid,
        utilisation=reading.utilisation,
        memory_mb=reading.memory_mb,
        memory_total_mb=reading.memory_total_mb,
        memory_by_pid=reading.memory_by_pid,
        faults={what: fault_of_code(code) for what, code in reading.faults.items()},
    )


def _by_pid(running: Iterable[Any]) -> dict[int, int]:
    found: dict[int, int] = {}
    for each in running:
        if each.usedGpuMemory is not None:
            found[each.pid] = found.get(each.pid, 0) + each.usedGpuMemory // _MIB
    return found
