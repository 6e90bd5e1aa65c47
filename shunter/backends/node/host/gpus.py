"""What can be read of a host's GPUs, asked of a process that may take as long as it likes.

    python3 -I -S FILE gpus BASE NONCE      {"gpus": [...], "by", "code", "said"}

NVML knows most, and soonest; where it fails, nvidia-smi is asked, which has a library of its own in
some containers. `code` is why NVML failed, `said` why nvidia-smi did.
"""

from __future__ import annotations

import json
import os
import re
import signal
import struct
import sys
import time
from typing import TYPE_CHECKING

from shunter.backends.node.messages import ITEMS_MOST, GpuReading
from shunter.backends.node.shapes import (
    COUNT_MOST,
    Message,
    WrongMessageError,
    a_list,
    a_text,
    a_whole,
    an_object,
    field,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from ctypes import c_void_p
    from typing import Any


ASK_S = 20.0
EVERY_S, SELDOM_S, HUNG_S = 15.0, 600.0, 60.0
PIECE_BYTES = 1 << 16
NOT_SUPPORTED = 3
CODES = {"lost": 15, "reset": 16, "unknown": 999}
"""The codes of NVML (nvmlReturn_t) for words in which nvidia-smi says the same."""
UNREADABLE = re.compile(
    r"Unable to determine the device handle for GPU ?(?:(\d+): )?(?:[0-9A-Fa-f]+:[0-9A-Fa-f:.]+: )?"
)
QUERY = "index,uuid,name,pci.bus_id,utilization.gpu,memory.used,memory.total"


def _decoded_reading(value: object) -> GpuReading:
    """Return the reading of one GPU: without its values, if no GPU has such."""
    try:
        return GpuReading.decoded(value)
    except WrongMessageError:
        index = an_object(value).get("index")
        return GpuReading.decoded({"index": index, "faults": {"device": CODES["unknown"]}})


class GpuReadings(Message):
    """All GPUs of a host, who read them, and why others could not."""

    gpus: tuple[GpuReading, ...] = field(a_list(_decoded_reading, ITEMS_MOST))
    by: str = field(a_text(COUNT_MOST))
    code: int = field(a_whole())
    said: str = field(a_text(COUNT_MOST), default="")


def gpus(base: str, nonce: str) -> GpuReadings:
    """Return a reading of each GPU, by whom, and why not by others."""
    found = read_gpus()
    sys.stdout.write(f"\n{nonce} ")
    return found


def read_gpus() -> GpuReadings:
    """Return the same in this process, which may take as long as the driver does."""
    found, code = nvml_gpus()
    by, said = "NVML", ""
    if not found:
        found, said = program_gpus()
        by = "nvidia-smi" if found else ""
    return GpuReadings(gpus=tuple(found), by=by, code=code, said=said)


def gpus_command() -> list[str]:
    """Return the command that asks this very program of the GPUs."""
    if sys.argv[0] == "-c":  # that of the package, on the daemon's own machine
        return [*sys.orig_argv[: -len(sys.argv) + 1], "gpus", "", "GPUS"]
    this = os.path.abspath(sys.argv[0])
    return [sys.executable, "-I", "-S", this, "gpus", "", "GPUS"]


def gpus_in(said: str) -> GpuReadings:
    """Return the answer to the command."""
    answer = said.rpartition("\nGPUS ")[2]
    if not answer:
        return GpuReadings(gpus=(), by="", code=0)
    return GpuReadings.decoded(json.loads(answer))


def said_by(command: list[str], limit_s: float = ASK_S) -> tuple[str, str]:
    """Return what a program printed, and why it failed."""
    import subprocess  # not where an agent has this module: see `Asked`

    try:
        ran = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
    except FileNotFoundError:
        return "", f"{command[0]} is not installed"
    except subprocess.TimeoutExpired:
        return "", f"{command[0]} did not answer within {limit_s:g} s"
    except OSError as error:
        return "", str(error)
    fault = (ran.stderr or ran.stdout).strip()[-300:] or f"exit code {ran.returncode}"
    return ran.stdout, fault if ran.returncode else ""


class Asked:
    """A program that was asked, and what it has printed so far.

    It needs no `subprocess`: that imports `threading`, which every fork of an agent would pay for.
    """

    def __init__(self, command: list[str]) -> None:
        self._said = b""
        self._reader, writer = os.pipe()
        files = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, writer, 1),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ]
        try:
            self.pid = os.posix_spawnp(
                command[0], command, os.environ, file_actions=files, setsigdef=[signal.SIGPIPE]
            )
        except OSError:
            os.close(self._reader)
            raise
        finally:
            os.close(writer)
        os.set_blocking(self._reader, False)

    def answer(self) -> str | None:
        """Return all that it printed, once that is over; None before."""
        try:
            while piece := os.read(self._reader, PIECE_BYTES):
                self._said += piece
        except BlockingIOError:
            return None
        os.close(self._reader)
        return self._said.decode("utf-8", "replace")


class Readings:
    """Asks for readings from time to time, in the background."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._asked: Asked | None = None
        self._asked_s = self._next_s = 0.0
        self._is_hung = False

    def poll(self) -> tuple[GpuReading, ...] | None:
        """Return a reading of each GPU, once for each time that one was taken; else None.

        A driver that does not answer any more leaves nothing known, and is not asked again.
        """
        now_s = time.monotonic()
        if self._asked is None:
            if now_s >= self._next_s:
                self._asked, self._asked_s, self._is_hung = self._ask(), now_s, False
                self._next_s = now_s + EVERY_S
            return None
        said = self._asked.answer()
        if said is None:
            if self._is_hung or now_s - self._asked_s < HUNG_S:
                return None
            self._is_hung = True
            return ()
        self._asked = None
        try:
            found = gpus_in(said).gpus
        except ValueError:
            found = ()
        if not found:  # a host without any
            self._next_s = now_s + SELDOM_S
        return found

    def _ask(self) -> Asked | None:
        try:
            return Asked(self._command)
        except OSError:
            return None


def program_gpus() -> tuple[list[GpuReading], str]:
    """Return what nvidia-smi tells, and why it failed.

    Where a GPU is lost it fails, and tells of the others all the same.
    A line about a GPU that cannot be read names it by its number, in older versions by its place on
    the bus alone: then it is the first that no other line is about.
    """
    said, fault = said_by(["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"])
    found: dict[int, GpuReading] = {}
    unnumbered: list[int] = []
    for line in dict.fromkeys(line.strip() for line in f"{said}\n{fault}".split("\n")):
        parts = [part.strip() for part in line.split(",")]
        unreadable = UNREADABLE.match(line)
        if len(parts) == 7 and parts[0].isdigit():
            found[int(parts[0])] = _reading(parts)
        elif unreadable:
            code = _code(line[unreadable.end() :], CODES["unknown"])
            if unreadable[1]:
                number = int(unreadable[1])
                found[number] = GpuReading(index=number, faults={"device": code})
            else:
                unnumbered.append(code)
    for code in unnumbered if found else ():
        index = next(index for index in range(len(found) + 1) if index not in found)
        found[index] = GpuReading(index=index, faults={"device": code})
    return [found[index] for index in sorted(found)], fault


def _code(words: str, other: int) -> int:
    """Return the code for what nvidia-smi says of a GPU, or of a reading of it."""
    return next((code for word, code in CODES.items() if word in words.lower()), other)


def _reading(parts: list[str]) -> GpuReading:
    index, uuid, name, bus, busy, used, total = parts
    faults = {
        what: _code(told, NOT_SUPPORTED)
        for what, told in (("utilisation", busy), ("memory", used))
        if not told.isdigit()
    }
    if uuid.startswith("["):  # in brackets it says why there is none
        faults["uuid"] = _code(uuid, NOT_SUPPORTED)
    return GpuReading(
        index=int(index),
        uuid=None if uuid.startswith("[") else uuid,
        name=name,
        bus=bus,
        utilisation=int(busy) / 100 if busy.isdigit() else None,
        memory_mb=int(used) if used.isdigit() else None,
        memory_total_mb=int(total) if total.isdigit() else None,
        faults=faults,
    )


# GPUs by libnvidia-ml.so.1, called by ctypes: nothing is installed on a host, so no Python binding.
# Layouts are those of nvml.h. What cannot be read gives its code (nvmlReturn_t).

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
        found = GpuReading(index=index, faults=faults)
        handle = self._c.c_void_p()
        code = self.call("nvmlDeviceGetHandleByIndex_v2", index, self._c.byref(handle))
        if code:
            faults["device"] = code
            return found
        found.uuid = self._text(faults, "uuid", "nvmlDeviceGetUUID", handle)
        found.name = self._text(faults, "name", "nvmlDeviceGetName", handle)
        pci = self._record(faults, "bus", "nvmlDeviceGetPciInfo_v3", handle, PCI)
        found.bus = pci[-1].partition(b"\0")[0].decode("ascii", "replace") if pci else None
        memory = self._record(faults, "memory", "nvmlDeviceGetMemoryInfo", handle, MEMORY)
        found.memory_total_mb = memory[0] >> 20 if memory else None
        found.memory_mb = memory[2] >> 20 if memory else None
        rates = self._record(faults, "utilisation", "nvmlDeviceGetUtilizationRates", handle, RATES)
        found.utilisation = rates[0] / 100 if rates else None
        found.memory_by_pid = self._running(faults, handle)
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
