"""GPUs as the driver's own library tells of them: libnvidia-ml.so.1, called by ctypes.

Nothing is installed on a remote host, so no Python binding either. What cannot be read leaves its
code (nvmlReturn_t) beside what can; the scheduler knows what codes mean. A driver in trouble may
never answer, so it is called in a process that can be abandoned (remote/gpus.py). Layouts are those
of nvml.h. Only the standard library of Python 3.8 or later.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from ctypes import c_void_p
    from typing import Any

    from shunter.backends.node.messages.wire import GpuReading

NVML = "libnvidia-ml.so.1"
INSUFFICIENT_SIZE, LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND = 7, 12, 13
TEXT_BYTES = 96
MEMORY = "QQQ"  # nvmlMemory_t: total, free, used
RATES = "II"  # nvmlUtilization_t: percent of time in which the GPU, its memory, was busy
PCI = "16s5I32s"  # nvmlPciInfo_t: old bus id, domain, bus, device, two ids, bus id
RUNNING = "IQII"  # nvmlProcessInfo_t: process, its bytes, two MIG instances
UNKNOWN_BYTES = (1 << 64) - 1
RUNNING_CALLS = (
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetComputeRunningProcesses_v2",
)
MORE = 8


def nvml_gpus(path: str = NVML) -> tuple[list[GpuReading], int]:
    """Return a reading of each GPU; without any, why: 0 where none is."""
    try:
        library = Library(path)
    except OSError:
        return [], LIBRARY_NOT_FOUND
    code = library.call("nvmlInitWithFlags", 0)
    if code == FUNCTION_NOT_FOUND:
        code = library.call("nvmlInit_v2")
    if code:
        return [], code
    try:
        return library.gpus()
    finally:
        library.call("nvmlShutdown")


class Library:
    """The library while it is open."""

    def __init__(self, path: str) -> None:
        import ctypes  # only here: it takes longer to load than most of what this file does

        self._c = ctypes
        self._functions = ctypes.CDLL(path)

    def call(self, name: str, *arguments: object) -> int:
        """Call a function; return its code."""
        try:
            function = getattr(self._functions, name)
        except AttributeError:
            return FUNCTION_NOT_FOUND
        return int(function(*arguments))

    def gpus(self) -> tuple[list[GpuReading], int]:
        """Return a reading of each GPU, or the code of why they cannot be counted."""
        count = self._c.c_uint(0)
        code = self.call("nvmlDeviceGetCount_v2", self._c.byref(count))
        return ([], code) if code else ([self._gpu(index) for index in range(count.value)], 0)

    def _gpu(self, index: int) -> GpuReading:
        faults: dict[str, int] = {}
        found: GpuReading = {"index": index, "faults": faults}
        handle = self._c.c_void_p()
        code = self.call("nvmlDeviceGetHandleByIndex_v2", index, self._c.byref(handle))
        if code:
            faults["device"] = code
            return found
        found["uuid"] = self._text(faults, "uuid", "nvmlDeviceGetUUID", handle)
        found["name"] = self._text(faults, "name", "nvmlDeviceGetName", handle)
        pci = self._record(faults, "bus", "nvmlDeviceGetPciInfo_v3", handle, PCI)
        found["bus"] = pci[-1].partition(b"\0")[0].decode("ascii", "replace") if pci else None
        memory = self._record(faults, "memory", "nvmlDeviceGetMemoryInfo", handle, MEMORY)
        found["memory_total_mb"] = memory[0] >> 20 if memory else None
        found["memory_mb"] = memory[2] >> 20 if memory else None
        rates = self._record(faults, "utilisation", "nvmlDeviceGetUtilizationRates", handle, RATES)
        found["utilisation"] = rates[0] / 100 if rates else None
        found["memory_by_pid"] = self._running(faults, handle)
        return found

    def _text(self, faults: dict[str, int], what: str, name: str, handle: c_void_p) -> str | None:
        buffer = self._c.create_string_buffer(TEXT_BYTES)
        code = self.call(name, handle, buffer, TEXT_BYTES)
        if code:
            faults[what] = code
            return None
        return buffer.value.decode("utf-8", "replace")

    def _record(
        self, faults: dict[str, int], what: str, name: str, handle: c_void_p, layout: str
    ) -> Sequence[Any]:
        buffer = self._c.create_string_buffer(struct.calcsize(layout))
        code = self.call(name, handle, buffer)
        if code:
            faults[what] = code
            return ()
        return struct.unpack(layout, buffer.raw)

    def _running(self, faults: dict[str, int], handle: c_void_p) -> dict[int, int] | None:
        """Return the memory of each process in MB; one whose share is hidden is left out."""
        code = FUNCTION_NOT_FOUND
        found: list[tuple[int, ...]] = []
        for name in RUNNING_CALLS:
            code, found = self._processes(name, handle)
            if code != FUNCTION_NOT_FOUND:
                break
        if code:
            faults["processes"] = code
            return None
        shares: dict[int, int] = {}
        for pid, used, _, _ in found:
            if used != UNKNOWN_BYTES:
                shares[pid] = shares.get(pid, 0) + (used >> 20)
        return shares

    def _processes(self, name: str, handle: c_void_p) -> tuple[int, list[tuple[int, ...]]]:
        count = self._c.c_uint(0)
        code = self.call(name, handle, self._c.byref(count), None)
        if code != INSUFFICIENT_SIZE:
            return code, []
        count.value += MORE  # for those that begin meanwhile
        buffer = self._c.create_string_buffer(count.value * struct.calcsize(RUNNING))
        code = self.call(name, handle, self._c.byref(count), buffer)
        return code, [] if code else list(struct.iter_unpack(RUNNING, buffer.raw))[: count.value]
