"""What sysfs tells of PCI devices: bridges above them, their NUMA nodes, the CPUs near to them."""

# Paths are strings, as in supervisor.py.
# ruff: noqa: PTH110, PTH118, PTH123

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from shunter.backends.node.remote.wiring.records import Told, cpus_in, link_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

SYSFS = "/sys"


def told_by_sysfs(buses: Sequence[str | None], sysfs: str = SYSFS) -> tuple[Told, bool]:
    """Return what sysfs tells of GPUs, and whether it shows any bridge above them.

    Virtual machines hang them on the host bridge, whatever is above them in truth.
    """
    chains = [_chain(bus, sysfs) for bus in buses]
    nodes = [numa_node(bus, sysfs) for bus in buses]
    pci = link_rows(chains, nodes) if all(chains) else []
    told = Told("sysfs", pci, nodes, [local_cpus(bus, sysfs) for bus in buses])
    return told, any(len(chain) > 1 for chain in chains)


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
