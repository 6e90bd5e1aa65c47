"""How the GPUs of a host hang together: switches, NVLink, and the CPUs that are near to them.

    python3 -I -S FILE wiring BASE NONCE        see `host_wiring`

sysfs tells the tree of bridges that PCI devices hang on, and their NUMA nodes; `nvidia-smi topo -m`
tells the same in its words where sysfs shows no devices, and NVLink, which hides in its table what
two GPUs share else. What cannot be read is left open, with a word why. Only the standard library of
Python 3.8 or later.
"""

# Paths are strings, as in supervisor.py.
# ruff: noqa: PTH110, PTH118, PTH123

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from shunter.backends.node.remote.gpus import read_gpus, said_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shunter.backends.node.messages.wire import GpuReading

SYSFS = "/sys"
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")  # newer versions underline the first line
ROW, CELL = re.compile(r"GPU\d+"), re.compile(r"X|NV\d+|PIX|PXB|PHB|NODE|SYS|SOC")
BY_PCI = ("PIX", "PXB", "PHB", "NODE", "SYS")
CPU_LIST = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
CPUS_MOST = 1 << 13
NUMA = re.compile(r"\d{1,4}")
OLD_WORDS = {"SOC": "SYS"}  # what versions before 2017 say of two sockets


class GpuWiring(TypedDict):
    """A GPU with the socket that it is on (a NUMA node), and the CPUs near to it."""

    index: int
    uuid: str | None
    socket: int | None
    cpus: list[int]


class Wiring(TypedDict):
    """How the GPUs of a host are wired, and by whom that was told.

    `pci` has a word for each two of them, row by row: X, PIX, PXB, PHB, NODE, SYS, or nothing where
    that is open; `links` that of NVLink, such as NV2, or nothing. Without rows nothing is known:
    `cause` says why. `cpus` are those of the host that are ours.
    """

    gpus: list[GpuWiring]
    pci: list[list[str]]
    links: list[list[str]]
    by: str
    cause: str
    cpus: list[int]


class Matrix(NamedTuple):
    """The table of `nvidia-smi topo -m`: by GPU words, CPUs and NUMA node.

    Without rows `cause` says why.
    """

    rows: list[list[str]]
    cpus: list[list[int]]
    numa: list[int | None]
    cause: str = ""


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


def wiring_of(gpus: Sequence[GpuReading], sysfs: str = SYSFS) -> Wiring:
    """Return how GPUs are wired, without those that are lost.

    Args:
        gpus: in order of index.
        sysfs: where the kernel tells of devices.
    """
    there = [gpu for gpu in gpus if gpu.get("uuid")]
    buses = [gpu["bus"] for gpu in there]
    matrix, by = Matrix([], [], [], "it was not asked"), ""
    if len(buses) > 1:
        said, fault = said_by(["nvidia-smi", "topo", "-m"])
        matrix = Matrix([], [], [], fault) if fault else matrix_in(said, len(buses))
    pci = _links_by_sysfs(buses, sysfs)
    if pci:
        by = "sysfs"
    elif matrix.rows:
        pci = [[word if _is_pci(word) else "" for word in row] for row in matrix.rows]
        by = "nvidia-smi"
    told: list[GpuWiring] = []
    for at, gpu in enumerate(there):
        socket, cpus = numa_node(gpu["bus"], sysfs), local_cpus(gpu["bus"], sysfs)
        if matrix.rows:
            socket = matrix.numa[at] if socket is None else socket
            cpus = cpus or matrix.cpus[at]
        index, uuid = gpu["index"], gpu["uuid"]
        told.append({"index": index, "uuid": uuid, "socket": socket, "cpus": cpus})
    cause = "" if pci else f"sysfs shows no such devices, and nvidia-smi topo: {matrix.cause}"
    return {
        "gpus": told,
        "pci": pci,
        "links": [[word if word.startswith("NV") else "" for word in row] for row in matrix.rows],
        "by": by,
        "cause": cause if there else "",
        "cpus": sorted(os.sched_getaffinity(0)),
    }


def matrix_in(said: str, count: int) -> Matrix:
    """Return what `nvidia-smi topo -m` has printed of so many GPUs.

    Cells are separated by tabs, names of columns have spaces in them, and between GPUs and
    affinities there may be network devices. So cells are known by what they look like; affinities,
    which old versions lack, by the names of their columns too.
    """
    rows: list[list[str]] = []
    cpus: list[list[int]] = []
    numa: list[int | None] = []
    for line in ESCAPES.sub("", said).splitlines(keepends=True):
        words = line.split()
        # The first line names columns; where a network device has a row, it comes after all GPUs.
        if not words or not ROW.fullmatch(words[0]) or "X" not in words[1:]:
            continue
        if words[0] != f"GPU{len(rows)}":
            return Matrix([], [], [], f"its row {len(rows) + 1} is of {words[0]}")
        cells = [OLD_WORDS.get(word, word) for word in words[1 : 1 + count]]
        strange = [cell for cell in cells if not CELL.fullmatch(cell)]
        if len(cells) < count or strange or cells[len(rows) : len(rows) + 1] != ["X"]:
            return Matrix([], [], [], f"its row of {words[0]} cannot be read")
        rows.append(cells)
        near, node = _affinity(line) if line.endswith("\n") else ([], None)  # or it was cut off
        cpus.append(near if "CPU Affinity" in said else [])
        numa.append(node if "NUMA Affinity" in said else None)
    if len(rows) != count:
        return Matrix([], [], [], f"it tells of {len(rows)} GPUs, and there are {count}")
    if any(rows[one][two] != rows[two][one] for one in range(count) for two in range(one)):
        return Matrix([], [], [], "its table is not the same in rows and columns")
    return Matrix(rows, cpus, numa)


def numa_node(bus: str | None, sysfs: str = SYSFS) -> int | None:
    """Return the socket that a GPU hangs on, by its PCI bus id; None if nobody knows."""
    try:
        with open(f"{_device(bus, sysfs)}/numa_node", encoding="ascii") as file:
            node = int(file.read())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def local_cpus(bus: str | None, sysfs: str = SYSFS) -> list[int]:
    """Return the CPUs near to a GPU, by its PCI bus id; none if nobody knows."""
    try:
        with open(f"{_device(bus, sysfs)}/local_cpulist", encoding="ascii") as file:
            return cpus_in(file.read().strip())
    except (OSError, ValueError):
        return []


def cpus_in(text: str) -> list[int]:
    """Return the numbers in a list such as 0-3,8; none if it is no such list."""
    if not CPU_LIST.fullmatch(text):
        return []
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if int(last or first) >= CPUS_MOST:
            return []
        found.update(range(int(first), int(last or first) + 1))
    return sorted(found)


def sockets(sysfs: str = SYSFS) -> int:
    """Return how many sockets the CPUs of this process lie in."""
    packages = set()
    for cpu in sorted(os.sched_getaffinity(0)):
        path = f"{sysfs}/devices/system/cpu/cpu{cpu}/topology/physical_package_id"
        try:
            with open(path, encoding="ascii") as file:
                packages.add(file.read().strip())
        except OSError:
            continue
    return max(1, len(packages))


def _is_pci(word: str) -> bool:
    return word == "X" or word in BY_PCI


def _affinity(line: str) -> tuple[list[int], int | None]:
    """Return the CPUs and the NUMA node behind the words of a row.

    Nothing where one is left out.
    Cells without a value are empty or N/A.
    """
    words = [cell.strip() for cell in line.split("\t")]
    last = max((at for at, word in enumerate(words) if CELL.fullmatch(word)), default=len(words))
    cpus, node = [*words[last + 1 : last + 3], "", ""][:2]
    return cpus_in(cpus), int(node) if NUMA.fullmatch(node) else None


def _links_by_sysfs(buses: list[str | None], sysfs: str) -> list[list[str]]:
    chains = [_chain(bus, sysfs) for bus in buses]
    if not all(chains):
        return []
    nodes = [numa_node(bus, sysfs) for bus in buses]
    rows = []
    for one, chain in enumerate(chains):
        row = [
            "X" if one == two else _link(chain, other, nodes[one] == nodes[two] is not None)
            for two, other in enumerate(chains)
        ]
        rows.append(row)
    return rows


def _link(one: list[str], other: list[str], is_near: bool) -> str:
    """Return the word for what joins two devices, given the bridges above each."""
    apart = (place for place, (a, b) in enumerate(zip(one, other)) if a != b)  # noqa: B905  for 3.8
    shared = next(apart, min(len(one), len(other)))
    if shared > 1:  # a bridge, and not only where all of them begin
        return "PIX" if max(len(one), len(other)) - shared <= 1 else "PXB"
    if shared == 1:
        return "PHB"
    return "NODE" if is_near else "SYS"


def _chain(bus: str | None, sysfs: str) -> list[str]:
    """Return the host bridge and all bridges above a device; none if it is not there."""
    path = _device(bus, sysfs)
    if not os.path.exists(path):
        return []
    parts = os.path.realpath(path).split("/")
    begin = next((place for place, part in enumerate(parts) if part.startswith("pci")), None)
    return [] if begin is None else parts[begin:-1]


def _device(bus: str | None, sysfs: str) -> str:
    """Return the folder of a device; NVML gives its domain more digits."""
    domain, _, rest = (bus or "").lower().partition(":")
    return os.path.join(sysfs, "bus/pci/devices", f"{domain[-4:]}:{rest}")
