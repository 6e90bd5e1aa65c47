"""What hwloc tells of GPUs: the bridges above them, their sockets, and the CPUs near to them.

    lstopo --of xml --whole-io

hwloc reads what sysfs tells too, but it knows errors of some machines, and takes a topology that an
operator has corrected in place of the machine (`HWLOC_XMLFILE`), or the places of devices alone
(`HWLOC_PCI_LOCALITY`). Devices are known by their PCI bus ids. Its XML is read in the forms of
hwloc 1.x and 2.x: objects within each other, I/O objects within what they are near to. XML that is
cut, too large or makes no sense is none, with a word why.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from shunter.backends.node.remote.wiring.records import CPUS_MOST, Told, link_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PROGRAMS = ("lstopo-no-graphics", "lstopo", "hwloc-ls")
OPTIONS = (("--whole-io",), ("--filter", "io:all"))  # those of 1.x and 2.x, and of 2.x and later
LIMIT_S = 5.0  # for all tries together; what asks the host gives up after 15 s
BYTES_MOST = 1 << 23
ELEMENTS_MOST, DEPTH_MOST = 1 << 17, 256
READ_BYTES = 1 << 16
CORRECTED = ("HWLOC_XMLFILE", "HWLOC_PCI_LOCALITY")
WITHOUT_DRIVERS = "-cuda,-nvml,-opencl,-rsmi,-levelzero,-gl"
"""Components that would open each GPU; where devices are, none of them tells."""
IO = frozenset({"Bridge", "PCIDev", "OSDev", "Misc"})
PACKAGES = frozenset({"Package", "Socket"})
BUS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])")
SET = re.compile(r"(0x[0-9a-f]{1,8})?(,(0x[0-9a-f]{1,8})?)*")


class Device(NamedTuple):
    """Where a PCI device is: the bridges above it, and what it is near to.

    `node` is a NUMA node and `package` the place of a CPU package; None where it is near to several
    of them, or nobody knows.
    """

    chain: tuple[int, ...]
    node: int | None
    package: int | None
    cpus: tuple[int, ...]


class TopologyError(ValueError):
    """A text is no topology of hwloc, or one that cannot be."""


def corrected_by(environment: Mapping[str, str] = os.environ) -> str:
    """Return how an operator has corrected what hwloc tells; nothing if none has."""
    return " ".join(f"{name}={environment[name]}" for name in CORRECTED if environment.get(name))


def told_by_hwloc(buses: Sequence[str | None]) -> Told:
    """Return what hwloc tells of GPUs; without a cause if it is not installed."""
    program = next((path for name in PROGRAMS if (path := shutil.which(name))), None)
    if program is None:
        return Told("hwloc", [], [], [])
    until_s, causes = time.monotonic() + LIMIT_S, []
    for options in OPTIONS:
        try:
            return told_in(_printed([program, "--of", "xml", *options], until_s), buses)
        except (OSError, TopologyError) as error:
            causes.append(str(error))
    return Told("hwloc", [], [], [], causes[0])


def told_in(text: bytes, buses: Sequence[str | None]) -> Told:
    """Return what the XML of a topology tells of GPUs.

    Raises:
        TopologyError: it is none, or lacks one of the GPUs.
    """
    wanted = [_bus(bus or "") for bus in buses]
    if None in wanted or len({*wanted}) < len(wanted):
        raise TopologyError("the driver does not tell the PCI address of each GPU")
    found = devices_in(text, frozenset(bus for bus in wanted if bus is not None))
    absent = [bus for bus, known in zip(buses, wanted) if known not in found]  # noqa: B905  for 3.8
    if absent:
        raise TopologyError(f"it shows no device {absent[0]}")
    devices = [found[bus] for bus in wanted if bus is not None]
    sockets = _sockets(devices)
    rows = link_rows([each.chain for each in devices], sockets)
    return Told("hwloc", rows, sockets, [list(each.cpus) for each in devices])


def devices_in(text: bytes, wanted: frozenset[int]) -> dict[int, Device]:
    """Return the PCI devices of a topology that are wanted, by their addresses.

    Raises:
        TopologyError: it is none.
    """
    try:
        from xml.parsers import expat  # which some installations leave out
    except ImportError as error:
        raise TopologyError("this Python reads no XML") from error
    reading = _Reading(wanted)
    parser = expat.ParserCreate()
    parser.StartElementHandler = reading.begin
    parser.EndElementHandler = reading.end
    parser.StartDoctypeDeclHandler = reading.declare
    try:
        parser.Parse(text, True)  # noqa: FBT003  it takes no name
    except expat.ExpatError as error:
        raise TopologyError(f"its XML cannot be read: {error}") from error
    if not reading.is_topology:
        raise TopologyError("its XML is no topology")
    return reading.devices


class _Object(NamedTuple):
    """An object that has begun: its number, its type and what else is said of it."""

    number: int
    kind: str
    given: Mapping[str, str]


class _Reading:
    """What has been read of a topology so far; objects that have begun are a stack."""

    def __init__(self, wanted: frozenset[int]) -> None:
        self.devices: dict[int, Device] = {}
        self._wanted = wanted
        self.is_topology = False
        self._objects: list[_Object] = []
        self._count = 0

    def declare(
        self, _name: str, _system: str | None, _public: str | None, has_subset: bool
    ) -> None:
        """Refuse declarations: entities could make a small text a large one."""
        if has_subset:
            raise TopologyError("its XML declares entities")

    def begin(self, name: str, given: dict[str, str]) -> None:
        """Take in the begin of an element."""
        self._count += 1
        if self._count == 1:
            self.is_topology = name == "topology"
        if self._count > ELEMENTS_MOST or len(self._objects) >= DEPTH_MOST:
            raise TopologyError("it has more objects than a server could have")
        if name != "object":
            return
        self._objects.append(_Object(self._count, given.get("type", ""), given))
        bus = _bus(given.get("pci_busid", "")) if given.get("type") == "PCIDev" else None
        if bus in self.devices:
            raise TopologyError(f"it has two devices {given['pci_busid']}")
        if bus is not None and bus in self._wanted:
            self.devices[bus] = self._device()

    def end(self, name: str) -> None:
        """Take in the end of an element."""
        if name == "object":
            self._objects.pop()

    def _device(self) -> Device:
        """Return where the innermost object is."""
        bridges = [each for each in self._objects if each.kind == "Bridge"]
        chain = tuple(each.number for each in bridges)
        if bridges and not bridges[0].given.get("bridge_type", "").startswith("0-"):
            chain = (-chain[0], *chain)  # its host bridge is left out
        near = [each for each in self._objects if each.kind not in IO]
        packages = [each.number for each in near if each.kind in PACKAGES]
        inner = near[-1].given if near else {}
        nodes = _members(inner.get("nodeset", ""))
        return Device(
            chain,
            nodes[0] if len(nodes) == 1 else None,
            packages[-1] if packages else None,
            _members(inner.get("cpuset", "")),
        )


def _sockets(devices: Sequence[Device]) -> list[int | None]:
    """Return the sockets of devices: NUMA nodes, as in sysfs, or else packages.

    Both have numbers of their own, so it is one or the other for all of them. A machine that
    interleaves its memory has one node and several packages.
    """
    nodes, packages = [each.node for each in devices], [each.package for each in devices]
    if None in packages or (None not in nodes and len({*nodes}) >= len({*packages})):
        return nodes
    return packages


def _bus(text: str) -> int | None:
    """Return a PCI address as a number: NVML gives its domain more digits."""
    found = BUS.fullmatch(text.lower())
    return int("".join(found.groups()), 16) if found else None


def _members(text: str) -> tuple[int, ...]:
    """Return the numbers in a set of CPUs or nodes such as 0xf,,0x1; none if endless.

    Raises:
        TopologyError: it is no such set.
    """
    if text.startswith("0xf...f"):
        return ()
    if len(text) > CPUS_MOST or not SET.fullmatch(text):
        raise TopologyError("a set of its CPUs cannot be read")
    words = [int(word, 16) if word else 0 for word in reversed(text.split(","))]
    bits = sum(word << 32 * at for at, word in enumerate(words))
    return tuple(at for at in range(min(bits.bit_length(), CPUS_MOST)) if bits >> at & 1)


def _printed(command: Sequence[str], until_s: float) -> bytes:
    """Return what a program prints.

    Raises:
        OSError: it cannot be started.
        TopologyError: it fails, takes too long or prints too much.
    """
    name = os.path.basename(command[0])  # noqa: PTH119  paths are strings, as in supervisor.py
    environment = {**os.environ}
    if "HWLOC_XMLFILE" not in environment:  # which it would make without effect
        environment.setdefault("HWLOC_COMPONENTS", WITHOUT_DRIVERS)
    # An option that a version does not know is the name of a file to it, to be written here.
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        cwd="/proc",
    )
    assert process.stdout is not None, "it was asked for"
    pieces, size = [], 0
    try:
        while True:
            ready, _, _ = select.select(
                [process.stdout], [], [], max(0.0, until_s - time.monotonic())
            )
            if not ready:
                raise TopologyError(f"{name} did not answer within {LIMIT_S:g} s")
            piece = os.read(process.stdout.fileno(), READ_BYTES)
            if not piece:
                break
            pieces.append(piece)
            size += len(piece)
            if size > BYTES_MOST:
                raise TopologyError(f"{name} prints more than {BYTES_MOST >> 20} MiB")
        code = process.wait(max(0.0, until_s - time.monotonic()))
    except subprocess.TimeoutExpired as error:
        raise TopologyError(f"{name} did not end within {LIMIT_S:g} s") from error
    finally:
        process.stdout.close()
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()
    if code:
        raise TopologyError(f"{name} fails with exit code {code}")
    return b"".join(pieces)
