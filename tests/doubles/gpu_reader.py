"""GPU utilisation and memory by nvidia-ml-py, to compare the readings of agents with.

An error never leaves this module: a machine without a driver, a GPU that fell off the bus and a
function that a card lacks are facts about the machine.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from shunter.backends.live import GpuFault, GpuUse, fault_of_code

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class NoGpus:
    """No GPU can be read at all, and why."""

    fault: GpuFault
    detail: str = ""


class GpuReader:
    """Reads the GPUs of this machine; each reading opens and closes NVML."""

    def __init__(self, binding: Any) -> None:
        self._nvml = binding

    def read(self) -> tuple[GpuUse, ...] | NoGpus:
        """Return a reading of each of the GPUs, or why there is none."""
        nvml = self._nvml
        try:
            nvml.nvmlInit()
            return tuple(self._device(index) for index in range(nvml.nvmlDeviceGetCount()))
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


def _by_pid(running: Iterable[Any]) -> dict[int, int]:
    found: dict[int, int] = {}
    for each in running:
        if each.usedGpuMemory is not None:
            found[each.pid] = found.get(each.pid, 0) + each.usedGpuMemory // _MIB
    return found
