"""How the GPUs of a host hang together: sockets and switches.

`nvidia-smi topo -m` says it in its words, NVLink among them. Without it sysfs tells the tree of
bridges that PCI devices hang on: two GPUs that share one are on a switch. Only the standard library
of Python 3.8 or later.
"""

# Paths are strings, as in supervisor.py.
# ruff: noqa: PTH110, PTH118, PTH123

from __future__ import annotations

import os

from shunter.backends.node.remote.gpus import said_by

SYSFS = "/sys"


def links(buses: list[str | None], sysfs: str = SYSFS) -> list[list[str]]:
    """Return how GPUs are joined, in the words of nvidia-smi, row by row.

    Args:
        buses: their PCI bus ids, in order of index.
        sysfs: where the kernel tells of devices.
    """
    if len(buses) < 2:
        return []
    said, _ = said_by(["nvidia-smi", "topo", "-m"])
    rows = []
    for line in said.splitlines():
        words = line.split()
        if words and words[0].startswith("GPU") and len(words) > len(buses) and "X" in words[1:]:
            rows.append(words[1 : 1 + len(buses)])
    return rows if len(rows) == len(buses) else _links_by_sysfs(buses, sysfs)


def numa_node(bus: str | None, sysfs: str = SYSFS) -> int | None:
    """Return the socket that a GPU hangs on, by its PCI bus id; None if nobody knows."""
    try:
        with open(f"{_device(bus, sysfs)}/numa_node", encoding="ascii") as file:
            node = int(file.read())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


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
