"""A server of two sockets, two switches on each and two GPUs below each, in the XML of hwloc 2."""

from collections.abc import Iterator, Sequence
from itertools import count

BUSES = tuple(f"00000000:{bus}:00.0" for bus in ("43", "44", "63", "64", "A3", "A4", "C3", "C4"))
"""Where its GPUs are, as NVML says it."""
ROOTS = ((0x40, 0x60), (0xA0, 0xC0))
"""The buses of the host bridges of each socket; below each of them is one switch."""
HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n'
PRESENT = ("0x0000000f", "0x000000f0")


class Topology:
    """Writes a topology; its objects are numbered in order.

    Args:
        cpus: the CPUs of each socket, as sets.
        is_near: the host bridges are on their sockets, and not on the machine as a whole.
        roots: the host bridges of each socket.
    """

    def __init__(
        self,
        cpus: Sequence[str] = PRESENT,
        *,
        is_near: bool = True,
        roots: Sequence[Sequence[int]] = ROOTS,
    ) -> None:
        self._numbers = count(1)
        self._cpus, self._is_near, self._roots = cpus, is_near, roots

    def text(self) -> str:
        """Return the file."""
        every = f"0x{sum(int(each, 16) for each in self._cpus):08x}"
        sets = (
            f'cpuset="{every}" complete_cpuset="{every}" allowed_cpuset="{every}" '
            'nodeset="0x00000003" complete_nodeset="0x00000003" allowed_nodeset="0x00000003"'
        )
        inner = [self._package(at) for at in range(len(self._cpus))]
        if not self._is_near:
            inner += [self._host_bridge(bus) for roots in self._roots for bus in roots]
        machine = self._object("Machine", f'os_index="0" {sets}', *inner)
        return f'{HEAD}<topology version="2.0">\n{machine}</topology>\n'

    def _package(self, at: int) -> str:
        cpus, node = self._cpus[at], f"0x{1 << at:08x}"
        inner = [
            self._object("NUMANode", f'os_index="{at}" {_sets(cpus, node)} local_memory="1000000"')
        ]
        for number in _bits(cpus):
            one = f'os_index="{number}" {_sets(f"0x{1 << number:08x}", node)}'
            inner.append(self._object("Core", one, self._object("PU", one)))
        if self._is_near:
            inner += [self._host_bridge(bus) for bus in self._roots[at]]
        return self._object("Package", f'os_index="{at}" {_sets(cpus, node)}', *inner)

    def _host_bridge(self, bus: int) -> str:
        """Return a host bridge, a root port below it, and a switch of two GPUs."""
        ports = [
            self._bridge(f"{bus + 2:02x}:{4 * at:02x}.0", bus + 3 + at, bus + 3 + at, 3)
            for at in range(2)
        ]
        gpus = [
            self._object("PCIDev", f'pci_busid="0000:{bus + 3 + at:02x}:00.0" {_kind("0302")}')
            for at in range(2)
        ]
        below = "".join(port.format(gpu) for port, gpu in zip(ports, gpus, strict=True))
        upstream = self._bridge(f"{bus + 1:02x}:00.0", bus + 2, bus + 4, 2).format(below)
        root = self._bridge(f"{bus:02x}:01.1", bus + 1, bus + 4, 1).format(upstream)
        spans = f'bridge_type="0-1" depth="0" bridge_pci="0000:[{bus:02x}-{bus + 4:02x}]"'
        return self._object("Bridge", spans, root)

    def _bridge(self, bus: str, first: int, last: int, depth: int) -> str:
        spans = f'bridge_type="1-1" depth="{depth}" bridge_pci="0000:[{first:02x}-{last:02x}]"'
        return self._object("Bridge", f'{spans} pci_busid="0000:{bus}" {_kind("0604")}', "{}")

    def _object(self, kind: str, given: str, *inner: str) -> str:
        begin = f'<object type="{kind}" {given} gp_index="{next(self._numbers)}"'
        return f"{begin}>\n{''.join(inner)}</object>\n" if inner else f"{begin}/>\n"


def _sets(cpus: str, node: str) -> str:
    return f'cpuset="{cpus}" complete_cpuset="{cpus}" nodeset="{node}" complete_nodeset="{node}"'


def _kind(number: str) -> str:
    return f'pci_type="{number} [10de:20b0] [10de:134f] a1" pci_link_speed="31.500000"'


def _bits(cpus: str) -> Iterator[int]:
    return (at for at in range(32) if int(cpus, 16) >> at & 1)
