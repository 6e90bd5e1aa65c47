"""How the GPUs of a host hang together: switches, NVLink, and the CPUs that are near to them.

    python3 -I -S FILE wiring BASE NONCE        see `host_wiring`
    python3 -I -S FILE note_wiring BASE         see `note_wiring`

    sysfs           the tree of bridges that PCI devices hang on, and their NUMA nodes
    hwloc           the same, where sysfs leaves it open and `lstopo` is installed
    nvidia-smi      the rest in the words of `topo -m`, and NVLink, which hides in its table what
                    two GPUs share else

The first that knows counts, for switches and for sockets. Where the environment names a topology
that somebody has corrected (`HWLOC_XMLFILE`), hwloc comes before sysfs. What cannot be read is left
open, with a word why. Only the standard library of Python 3.8 or later.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from shunter.backends.node.records import make_folder, put
from shunter.backends.node.remote.gpus import read_gpus, said_by
from shunter.backends.node.remote.wiring.hwloc import corrected_by, told_by_hwloc
from shunter.backends.node.remote.wiring.records import BELOW_SWITCH, Told
from shunter.backends.node.remote.wiring.sysfs import SYSFS, told_by_sysfs
from shunter.backends.node.remote.wiring.topo_matrix import Matrix, matrix_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shunter.backends.node.messages.wire import Answer, GpuReading
    from shunter.backends.node.remote.wiring.records import GpuWiring, Wiring

NOTE_S = 60
NOTED = "wiring"
BY_PCI = ("X", "PIX", "PXB", "PHB", "NODE", "SYS")


def host_wiring(_base: str, nonce: str) -> Wiring:
    """Return how the GPUs of this host are wired.

    A driver in trouble may never answer: who asks gives up in time.
    """
    seen = read_gpus()
    found = wiring_of(seen["gpus"])
    if not seen["gpus"]:
        found["cause"] = seen.get("said", "") or "it has no GPU"
    sys.stdout.write(f"\n{nonce} ")
    return found


def note_wiring(base: str) -> Answer:
    """Write how the GPUs of this host are wired into a folder that a daemon reads.

    A pilot has it done, which a daemon may not reach when it starts. A driver that does not answer
    leaves what was written before.
    """
    signal.alarm(NOTE_S)
    seen = read_gpus()
    if seen["gpus"]:
        make_folder(base)
        put(f"{base}/{NOTED}", {**wiring_of(seen["gpus"])})
    return {}


def wiring_of(gpus: Sequence[GpuReading], sysfs: str = SYSFS) -> Wiring:
    """Return how GPUs are wired, without those that are lost.

    Args:
        gpus: in order of index.
        sysfs: where the kernel tells of devices.
    """
    there = [gpu for gpu in gpus if gpu.get("uuid")]
    buses = [gpu["bus"] for gpu in there]
    matrix = Matrix([], [], [], "it was not asked")
    if len(buses) > 1:
        matrix = _matrix(gpus)
    found = _combined(buses, sysfs, matrix)
    told: list[GpuWiring] = [
        {"index": gpu["index"], "uuid": gpu["uuid"], "socket": socket, "cpus": cpus}
        for gpu, socket, cpus in zip(there, found.sockets, found.cpus)  # noqa: B905  for 3.8
    ]
    return {
        "gpus": told,
        "pci": found.pci,
        "links": [[word if word.startswith("NV") else "" for word in row] for row in matrix.rows],
        "by": found.by,
        "cause": found.cause if there else "",
        "cpus": sorted(os.sched_getaffinity(0)),
    }


def _matrix(gpus: Sequence[GpuReading]) -> Matrix:
    """Return the driver's table of the GPUs that are there.

    It may have those in it that are lost.
    """
    said, fault = said_by(["nvidia-smi", "topo", "-m"])
    there = [at for at, gpu in enumerate(gpus) if gpu.get("uuid")]
    found = matrix_in(said, len(gpus))
    if found.rows:
        rows = [[found.rows[one][two] for two in there] for one in there]
        return Matrix(rows, [found.cpus[at] for at in there], [found.numa[at] for at in there])
    found = matrix_in(said, len(there))
    return found if found.rows or not fault else Matrix([], [], [], fault)


def _combined(buses: Sequence[str | None], sysfs: str, matrix: Matrix) -> Told:
    """Return what all sources tell together, each asked only where it may count."""
    kernel, has_bridges = told_by_sysfs(buses, sysfs)
    driver = Told("nvidia-smi", _pci_words(matrix), matrix.numa, matrix.cpus, matrix.cause)
    corrected, hwloc = corrected_by(), Told("hwloc", [], [], [])
    if len(buses) > 1 and (corrected or not (has_bridges and kernel.pci and kernel.has_sockets)):
        hwloc = told_by_hwloc(buses)
    sources = [hwloc, kernel, driver] if corrected else [kernel, hwloc, driver]
    by_pci = next((each for each in sources if each.pci), None)
    if by_pci is kernel and not has_bridges and hwloc.has_switches:
        by_pci = hwloc
    causes = _causes(hwloc, driver, by_pci, corrected)
    by_socket = None
    for source in sources:
        if not source.has_sockets or by_socket is not None:
            continue
        if by_pci is None or by_pci is source or not _is_at_odds(by_pci, source):
            by_socket = source
        else:
            causes.append(f"{source.by} has GPUs of one switch ({by_pci.by}) on several sockets")
    names = dict.fromkeys(each.by for each in (by_pci, by_socket) if each and by_pci)
    # One that does not know all sockets may be completed: NUMA nodes have one number each.
    near = [by_socket, *sources] if by_socket else [kernel, driver]
    return Told(
        " and ".join(names),
        by_pci.pci if by_pci else [],
        by_socket.sockets if by_socket else _completed(kernel, driver, len(buses)),
        [
            next((each.cpus[at] for each in near if each.cpus and each.cpus[at]), [])
            for at in range(len(buses))
        ],
        "; ".join(causes),
    )


def _pci_words(matrix: Matrix) -> list[list[str]]:
    return [[word if word in BY_PCI else "" for word in row] for row in matrix.rows]


def _causes(hwloc: Told, driver: Told, by_pci: Told | None, corrected: str) -> list[str]:
    """Return why nothing is known, or why a correction does not count."""
    asked = f"hwloc: {hwloc.cause}" if hwloc.cause else ""
    if by_pci is None:
        between = f"{asked}, and" if asked else "and"
        return [f"sysfs shows no such devices, {between} nvidia-smi topo: {driver.cause}"]
    return [f"{asked}; {corrected}"] if asked and corrected else []


def _is_at_odds(by_pci: Told, by_socket: Told) -> bool:
    """Say whether a switch of one would lie on several sockets of the other."""
    return any(
        word in BELOW_SWITCH and by_socket.sockets[one] != by_socket.sockets[two]
        for one, row in enumerate(by_pci.pci)
        for two, word in enumerate(row)
    )


def _completed(kernel: Told, driver: Told, count: int) -> list[int | None]:
    """Return the sockets that the kernel knows, and those that the driver adds."""
    rest = driver.sockets or [None] * count
    return [rest[at] if socket is None else socket for at, socket in enumerate(kernel.sockets)]
