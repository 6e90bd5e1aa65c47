"""How the GPUs of a host hang together: switches, NVLink, and the CPUs that are near to them.

    python3 -I -S FILE wiring BASE NONCE        see `host_wiring`
    python3 -I -S FILE note_wiring BASE         see `note_wiring`

    sysfs           the tree of bridges that PCI devices hang on, and their NUMA nodes
    hwloc           the same, where sysfs leaves it open and `lstopo` is installed
    nvidia-smi      the rest in the words of `topo -m`, and NVLink, which hides in its table what
                    two GPUs share else

The first that knows counts, for switches and for sockets. Where the environment names a topology
that somebody has corrected (`HWLOC_XMLFILE`), hwloc comes before sysfs. What cannot be read is left
open, with a word why.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from shunter.backends.node.host.gpus import read_gpus, said_by
from shunter.backends.node.messages import GpuReading, GpuWiring, Wiring
from shunter.backends.node.records import make_folder, put

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


NOTE_S = 60
NOTED = "wiring"
BY_PCI = ("X", "PIX", "PXB", "PHB", "NODE", "SYS")
BELOW_SWITCH = ("PIX", "PXB")
CPU_LIST = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
CPUS_MOST = 1 << 13
SYSFS = "/sys"


class WiringReport(NamedTuple):
    """What one source tells: words for two GPUs each, sockets and CPUs of each.

    Nothing of `pci` if it does not tell of all GPUs; `cause` says why.
    """

    by: str
    pci: list[list[str]]
    sockets: list[int | None]
    cpus: list[list[int]]
    cause: str = ""

    @property
    def has_switches(self) -> bool:
        """Whether some of the GPUs share a switch by it."""
        return any(word in BELOW_SWITCH for row in self.pci for word in row)

    @property
    def has_sockets(self) -> bool:
        """Whether it knows the socket of each GPU."""
        return bool(self.sockets) and None not in self.sockets


def host_wiring(_base: str, nonce: str) -> Wiring:
    """Return how the GPUs of this host are wired.

    A driver in trouble may never answer: who asks gives up in time.
    """
    seen = read_gpus()
    found = wiring_of(seen.gpus)
    if not seen.gpus:
        found.cause = seen.said or "it has no GPU"
    sys.stdout.write(f"\n{nonce} ")
    return found


def note_wiring(base: str) -> dict[str, object]:
    """Write how the GPUs of this host are wired into a folder that a daemon reads.

    A pilot has it done, which a daemon may not reach when it starts. A driver that does not answer
    leaves what was written before.
    """
    signal.alarm(NOTE_S)
    seen = read_gpus()
    if seen.gpus:
        make_folder(base)
        put(f"{base}/{NOTED}", wiring_of(seen.gpus))
    return {}


def wiring_of(gpus: Sequence[GpuReading], sysfs: str = SYSFS) -> Wiring:
    """Return how GPUs are wired, without those that are lost.

    Args:
        gpus: in order of index.
        sysfs: where the kernel tells of devices.
    """
    there = [gpu for gpu in gpus if gpu.uuid]
    buses = [gpu.bus for gpu in there]
    matrix = Matrix([], [], [], "it was not asked")
    if len(buses) > 1:
        matrix = _matrix(gpus)
    found = _combined(buses, sysfs, matrix)
    links = [[word if word.startswith("NV") else "" for word in row] for row in matrix.rows]
    return Wiring(
        gpus=tuple(
            [
                GpuWiring(index=gpu.index, uuid=gpu.uuid or "", socket=socket, cpus=tuple(cpus))
                for gpu, socket, cpus in zip(there, found.sockets, found.cpus)
            ]
        ),
        pci=tuple(map(tuple, found.pci)),
        links=tuple(map(tuple, links)),
        by=found.by,
        cause=found.cause if there else "",
        cpus=tuple(sorted(os.sched_getaffinity(0))),
    )


def _matrix(gpus: Sequence[GpuReading]) -> Matrix:
    """Return the driver's table of the GPUs that are there.

    It may have those in it that are lost.
    """
    said, fault = said_by(["nvidia-smi", "topo", "-m"])
    there = [at for at, gpu in enumerate(gpus) if gpu.uuid]
    found = matrix_in(said, len(gpus))
    if found.rows:
        rows = [[found.rows[one][two] for two in there] for one in there]
        return Matrix(rows, [found.cpus[at] for at in there], [found.numa[at] for at in there])
    found = matrix_in(said, len(there))
    return found if found.rows or not fault else Matrix([], [], [], fault)


def _combined(buses: Sequence[str | None], sysfs: str, matrix: Matrix) -> WiringReport:
    """Return what all sources tell together, each asked only where it may count."""
    kernel, has_bridges = report_by_sysfs(buses, sysfs)
    driver = WiringReport("nvidia-smi", _pci_words(matrix), matrix.numa, matrix.cpus, matrix.cause)
    corrected, hwloc = corrected_by(), WiringReport("hwloc", [], [], [])
    if len(buses) > 1 and (corrected or not (has_bridges and kernel.pci and kernel.has_sockets)):
        hwloc = report_by_hwloc(buses)
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
    return WiringReport(
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


def _causes(
    hwloc: WiringReport, driver: WiringReport, by_pci: WiringReport | None, corrected: str
) -> list[str]:
    """Return why nothing is known, or why a correction does not count."""
    asked = f"hwloc: {hwloc.cause}" if hwloc.cause else ""
    if by_pci is None:
        between = f"{asked}, and" if asked else "and"
        return [f"sysfs shows no such devices, {between} nvidia-smi topo: {driver.cause}"]
    return [f"{asked}; {corrected}"] if asked and corrected else []


def _is_at_odds(by_pci: WiringReport, by_socket: WiringReport) -> bool:
    """Say whether a switch of one would lie on several sockets of the other."""
    return any(
        word in BELOW_SWITCH and by_socket.sockets[one] != by_socket.sockets[two]
        for one, row in enumerate(by_pci.pci)
        for two, word in enumerate(row)
    )


def _completed(kernel: WiringReport, driver: WiringReport, count: int) -> list[int | None]:
    """Return the sockets that the kernel knows, and those that the driver adds."""
    rest = driver.sockets or [None] * count
    return [rest[at] if socket is None else socket for at, socket in enumerate(kernel.sockets)]


def link_rows(chains: Sequence[Sequence[object]], sockets: Sequence[int | None]) -> list[list[str]]:
    """Return the words for what joins devices, two by two.

    Args:
        chains: of each the host bridge, and the bridges above it in order.
        sockets: of each the socket; None: not known.
    """
    return [
        [
            "X" if one == two else _link(chain, other, sockets[one] == sockets[two] is not None)
            for two, other in enumerate(chains)
        ]
        for one, chain in enumerate(chains)
    ]


def _link(one: Sequence[object], other: Sequence[object], is_near: bool) -> str:
    apart = (place for place, (a, b) in enumerate(zip(one, other)) if a != b)
    shared = next(apart, min(len(one), len(other)))
    if shared > 1:  # a bridge, and not only where all of them begin
        return "PIX" if max(len(one), len(other)) - shared <= 1 else "PXB"
    if shared == 1:
        return "PHB"
    return "NODE" if is_near else "SYS"


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


def report_by_sysfs(buses: Sequence[str | None], sysfs: str = SYSFS) -> tuple[WiringReport, bool]:
    """Return what sysfs tells of GPUs, and whether it shows any bridge above them.

    Virtual machines hang them on the host bridge, whatever is above them in truth.
    """
    chains = [_chain(bus, sysfs) for bus in buses]
    nodes = [numa_node(bus, sysfs) for bus in buses]
    pci = link_rows(chains, nodes) if all(chains) else []
    told = WiringReport("sysfs", pci, nodes, [local_cpus(bus, sysfs) for bus in buses])
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


# PCI devices by hwloc: `lstopo --of xml --whole-io`, in the XML of hwloc 1.x and 2.x.
#
# hwloc knows errors of some machines, and an operator may correct the topology (`HWLOC_XMLFILE`) or
# the places of devices (`HWLOC_PCI_LOCALITY`).

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


def report_by_hwloc(buses: Sequence[str | None]) -> WiringReport:
    """Return what hwloc tells of GPUs; without a cause if it is not installed."""
    program = next((path for name in PROGRAMS if (path := shutil.which(name))), None)
    if program is None:
        return WiringReport("hwloc", [], [], [])
    until_s, causes = time.monotonic() + LIMIT_S, []
    # Named as its input as well: a build with libxml2 reads the machine itself, in silence, where
    # the file that only the environment names cannot be read (hwloc 2.9 with libhwloc-plugins).
    file = os.environ.get("HWLOC_XMLFILE")
    command = [program, "--of", "xml", *(("-i", os.path.abspath(file)) if file else ())]
    for options in OPTIONS:
        try:
            return report_in(_printed([*command, *options], until_s), buses)
        except (OSError, TopologyError) as error:
            causes.append(str(error))
    return WiringReport("hwloc", [], [], [], causes[0])


def report_in(text: bytes, buses: Sequence[str | None]) -> WiringReport:
    """Return what the XML of a topology tells of GPUs.

    Raises:
        TopologyError: it is none, or lacks one of the GPUs.
    """
    wanted = [_bus(bus or "") for bus in buses]
    if None in wanted or len({*wanted}) < len(wanted):
        raise TopologyError("the driver does not tell the PCI address of each GPU")
    found = devices_in(text, frozenset(bus for bus in wanted if bus is not None))
    absent = [bus for bus, known in zip(buses, wanted) if known not in found]
    if absent:
        raise TopologyError(f"it shows no device {absent[0]}")
    devices = [found[bus] for bus in wanted if bus is not None]
    sockets = _sockets(devices)
    rows = link_rows([each.chain for each in devices], sockets)
    return WiringReport("hwloc", rows, sockets, [list(each.cpus) for each in devices])


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
    """Return the numbers in a set of CPUs or nodes such as 0xf,,0x1; none if endless."""
    if text.startswith("0xf...f"):
        return ()
    if len(text) > CPUS_MOST or not SET.fullmatch(text):
        raise TopologyError("a set of its CPUs cannot be read")
    words = [int(word, 16) if word else 0 for word in reversed(text.split(","))]
    bits = sum(word << 32 * at for at, word in enumerate(words))
    return tuple(at for at in range(min(bits.bit_length(), CPUS_MOST)) if bits >> at & 1)


def _printed(command: Sequence[str], until_s: float) -> bytes:
    """Return what a program prints."""
    name = os.path.basename(command[0])
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


# The table of `nvidia-smi topo -m`, in any version.

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")  # newer versions underline the first line
ROW, CELL = re.compile(r"GPU\d+"), re.compile(r"X|NV\d+|PIX|PXB|PHB|NODE|SYS|SOC")
NUMA = re.compile(r"\d{1,4}")
OLD_WORDS = {"SOC": "SYS"}  # what versions before 2017 say of two sockets


class Matrix(NamedTuple):
    """The table of `nvidia-smi topo -m`: by GPU words, CPUs and NUMA node.

    Without rows `cause` says why.
    """

    rows: list[list[str]]
    cpus: list[list[int]]
    numa: list[int | None]
    cause: str = ""


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


def _affinity(line: str) -> tuple[list[int], int | None]:
    """Return the CPUs and the NUMA node behind the words of a row.

    Nothing where one is left out.
    Cells without a value are empty or N/A.
    """
    words = [cell.strip() for cell in line.split("\t")]
    last = max((at for at, word in enumerate(words) if CELL.fullmatch(word)), default=len(words))
    cpus, node = [*words[last + 1 : last + 3], "", ""][:2]
    return cpus_in(cpus), int(node) if NUMA.fullmatch(node) else None
