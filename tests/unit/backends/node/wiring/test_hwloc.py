"""What hwloc tells of GPUs: topologies of our own making, and the real lstopo if it is there."""

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from shunter.backends.node.host import (
    TopologyError,
    WiringReport,
    report_by_hwloc,
    report_in,
    wiring,
)
from tests.unit.backends.node.wiring.test_sources import Machine, readings, says, wiring_of
from tests.unit.backends.node.wiring.topologies import BUSES, Topology

TEXT = Topology().text()
SOCKETS = [0] * 4 + [1] * 4
FIRST_ROW = ["X", "PIX", "NODE", "NODE", "SYS", "SYS", "SYS", "SYS"]
FLAT = [f"0000:00:{number:02x}.0" for number in (3, 4, 5, 6, 0x13, 0x14, 0x15, 0x16)]
"""GPUs as a virtual machine has them: all on one host bridge."""

needs_lstopo = pytest.mark.skipif(
    not any(map(shutil.which, wiring.PROGRAMS)), reason="install hwloc, whose lstopo is asked"
)


def printing(tmp_path: Path, script: str, name: str = "lstopo") -> Path:
    """Put an lstopo of ours into a folder; return the folder."""
    program = tmp_path / name
    program.write_text(f"#!{sys.executable} -IS\n{script}")
    program.chmod(0o755)
    return tmp_path


@pytest.fixture
def corrected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A file that stands for the machine, as an operator has written it."""
    path = tmp_path / "corrected.xml"
    path.write_text(TEXT)
    monkeypatch.setenv("HWLOC_XMLFILE", str(path))
    return path


@pytest.fixture
def uncorrected(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in wiring.CORRECTED:
        monkeypatch.delenv(name, raising=False)


def assert_whole(told: WiringReport) -> None:
    assert told.pci[0] == FIRST_ROW
    assert told.pci[5] == ["SYS"] * 4 + ["PIX", "X", "NODE", "NODE"]
    assert told.sockets == SOCKETS
    assert told.cpus == [[0, 1, 2, 3]] * 4 + [[4, 5, 6, 7]] * 4


def test_switches_sockets_and_cpus_are_those_of_the_topology() -> None:
    assert_whole(report_in(TEXT.encode(), BUSES))
    some = report_in(TEXT.encode(), BUSES[3:1:-1])
    assert (some.pci, some.sockets) == ([["X", "PIX"], ["PIX", "X"]], [0, 0])


@needs_lstopo
def test_real_lstopo_reads_the_topology_and_tells_it_again(corrected: Path) -> None:
    assert_whole(report_by_hwloc(BUSES))


@needs_lstopo
def test_real_lstopo_writes_the_form_of_hwloc_1_which_is_read_too(corrected: Path) -> None:
    """There `Socket` lies in `NUMANode`; flag 1 of an export is that form."""
    command = ["lstopo-no-graphics", "-i", str(corrected), "--of", "xml", "--whole-io"]
    ran = subprocess.run(
        [*command, "--export-xml-flags", "1"], capture_output=True, check=True, timeout=20
    )
    assert b'type="Socket"' in ran.stdout
    assert_whole(report_in(ran.stdout, BUSES))


@needs_lstopo
def test_real_lstopo_says_of_this_machine_that_it_lacks_the_gpus(uncorrected: None) -> None:
    told = report_by_hwloc(BUSES)
    assert (told.pci, told.sockets) == ([], [])
    assert told.cause == "it shows no device 00000000:43:00.0"


@needs_lstopo
def test_real_lstopo_that_is_given_a_cut_file_leaves_a_word_why(corrected: Path) -> None:
    corrected.write_text(TEXT[: len(TEXT) // 2])
    told = report_by_hwloc(BUSES)
    assert (told.pci, told.sockets) == ([], [])
    assert "fails with exit code 1" in told.cause


def test_devices_that_are_near_to_the_whole_machine_have_switches_and_no_sockets() -> None:
    told = report_in(Topology(is_near=False).text().encode(), BUSES)
    assert told.pci[0] == ["X", "PIX", *["SYS"] * 6]
    assert told.sockets == [None] * 8


def test_packages_are_the_sockets_where_there_is_one_numa_node() -> None:
    text = re.sub(r'nodeset="0x0000000[23]"', 'nodeset="0x00000001"', TEXT)
    sockets = report_in(text.encode(), BUSES).sockets
    assert sockets == [sockets[0]] * 4 + [sockets[4]] * 4
    assert sockets[0] != sockets[4]


@pytest.mark.parametrize(("kind", "word"), [("0-1", "PHB"), ("1-1", "PIX")])
def test_topmost_bridge_is_a_switch_unless_it_is_a_host_bridge(kind: str, word: str) -> None:
    """Some versions leave host bridges out."""
    gpus = "".join(f'<object type="PCIDev" pci_busid="{bus[4:].lower()}"/>' for bus in BUSES[:2])
    bridge = f'<object type="Bridge" bridge_type="{kind}">{gpus}</object>'
    text = f'<topology><object type="Machine">{bridge}</object></topology>'
    assert report_in(text.encode(), BUSES[:2]).pci == [["X", word], [word, "X"]]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "its XML cannot be read"),
        ("Machine (16GB total)\n", "its XML cannot be read"),
        (TEXT[:-20], "its XML cannot be read"),
        ("<html><body/></html>", "its XML is no topology"),
        (TEXT.replace("0000:64:00.0", "0000:65:00.0"), "it shows no device 00000000:64:00.0"),
        (TEXT.replace("0000:64:00.0", "0000:63:00.0"), "it has two devices 0000:63:00.0"),
        (TEXT.replace('cpuset="0x0000000f"', 'cpuset="0-3"'), "a set of its CPUs cannot be read"),
        (
            TEXT.replace('.dtd">', '.dtd" [<!ENTITY a "b">]>').replace("0x0000000f", "&a;"),
            "its XML declares entities",
        ),
        (
            "<topology>" + '<object type="Group">' * 300 + "</object>" * 300 + "</topology>",
            "it has more objects than a server could have",
        ),
        (
            "<topology>" + '<object type="PU"/>' * (1 << 18) + "</topology>",
            "it has more objects than a server could have",
        ),
    ],
    ids=["empty", "text", "cut", "html", "absent", "twice", "set", "entities", "deep", "many"],
)
def test_text_that_is_no_topology_of_these_gpus_says_why(text: str, cause: str) -> None:
    with pytest.raises(TopologyError, match=re.escape(cause)):
        report_in(text.encode(), BUSES)


@given(st.integers(0, len(TEXT) - 1))
def test_cut_anywhere_it_is_no_topology(cut: int) -> None:
    text = TEXT[:cut].encode()
    if TEXT[cut:].strip():
        with pytest.raises(TopologyError):
            report_in(text, BUSES)


@given(st.data())
def test_topology_with_anything_in_it_is_read_or_refused(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(TEXT)))
    upto = data.draw(st.integers(at, min(len(TEXT), at + 40)))
    text = TEXT[:at] + data.draw(st.text(max_size=20)) + TEXT[upto:]
    try:
        told = report_in(text.encode("utf-8", "surrogatepass"), BUSES)
    except TopologyError:
        return
    assert len(told.pci) == len(told.sockets) == len(told.cpus) == len(BUSES)


@given(st.binary(max_size=200))
def test_no_bytes_are_too_strange_to_be_read(text: bytes) -> None:
    with pytest.raises(TopologyError):
        report_in(text, BUSES)


def test_driver_that_tells_no_address_leaves_nothing_to_look_for() -> None:
    for buses in ((*BUSES[:7], None), (*BUSES[:7], BUSES[0]), (*BUSES[:7], "0")):
        with pytest.raises(TopologyError, match="does not tell the PCI address of each GPU"):
            report_in(TEXT.encode(), buses)


@pytest.mark.parametrize(
    ("script", "cause"),
    [
        ("import time; time.sleep(60)", "lstopo did not answer within 0.5 s"),
        ("import os, time; os.close(1); time.sleep(60)", "lstopo did not end within 0.5 s"),
        ("while True: print('<!-- ' + 'x' * 1000 + ' -->')", "lstopo prints more than 8 MiB"),
        ("raise SystemExit(3)", "lstopo fails with exit code 3"),
    ],
    ids=["silent", "lingering", "endless", "failing"],
)
def test_program_that_misbehaves_is_ended_and_said(
    script: str, cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiring, "LIMIT_S", 0.5 if "0.5" in cause else 20.0)
    monkeypatch.setenv("PATH", str(printing(tmp_path, script)))
    told = report_by_hwloc(BUSES)
    assert (told.pci, told.cause) == ([], cause)


def test_version_that_knows_another_option_is_asked_by_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown option is the name of a file to lstopo, which none gets."""
    script = (
        "import sys, pathlib\n"
        "if sys.argv[3] == '--filter': print(pathlib.Path(%r).read_text())\n"
        "else: pathlib.Path(sys.argv[3]).write_text('')\n"
    )
    (tmp_path / "kept").write_text(TEXT)
    monkeypatch.setenv("PATH", str(printing(tmp_path, script % str(tmp_path / "kept"))))
    assert_whole(report_by_hwloc(BUSES))


def test_host_without_hwloc_is_not_blamed_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert report_by_hwloc(BUSES) == WiringReport("hwloc", [], [], [])


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uncorrected: None) -> Machine:
    """A machine whose lstopo prints the topology, and which has no nvidia-smi."""
    (tmp_path / "topology").write_text(TEXT)
    script = f"import pathlib; print(pathlib.Path({str(tmp_path / 'topology')!r}).read_text())"
    monkeypatch.setenv("PATH", str(printing(tmp_path, script)))
    says(monkeypatch, "", "nvidia-smi is not installed")
    return Machine(tmp_path / "sys")


def in_sysfs(machine: Machine, nodes: list[int]) -> list[str]:
    """Hang the GPUs as the topology does; return how NVML calls them."""
    return [
        machine.gpu(
            f"pci0000:{bus - 3:02x}/0000:{bus - 3:02x}:01.1/0000:{bus - 2:02x}:00.0/"
            f"0000:{bus - 1:02x}:{4 * at:02x}.0/0000:{bus + at:02x}:00.0",
            nodes[place],
            f"{4 * nodes[place]}-{4 * nodes[place] + 3}" if nodes[place] >= 0 else "0-7",
        )
        for place, (bus, at) in enumerate(
            (bus, at) for bus in (0x43, 0x63, 0xA3, 0xC3) for at in (0, 1)
        )
    ]


def renamed(buses: Sequence[str], to: Sequence[str]) -> str:
    """Return the topology with other places for its GPUs."""
    places = dict(
        zip((bus.lower()[4:] for bus in buses), (bus.lower()[-12:] for bus in to), strict=True)
    )
    return re.sub(r'(?<="PCIDev" pci_busid=")[^"]*', lambda found: places[found[0]], TEXT)


SWITCHES = ["X", "PIX", *["SYS"] * 6]
CROSSED = [BUSES[at] for at in (0, 4, 2, 6, 1, 5, 3, 7)]
UNKNOWN = (
    "sysfs shows no such devices, hwloc: it shows no device 00000000:43:00.0, and "
    "nvidia-smi topo: nvidia-smi is not installed"
)
ACROSS = "hwloc has GPUs of one switch (sysfs) on several sockets"


@pytest.mark.parametrize(
    ("devices", "topology", "by", "first_row", "sockets", "cause"),
    [
        ("none", TEXT, "hwloc", FIRST_ROW, SOCKETS, ""),
        ("of no socket", TEXT, "sysfs and hwloc", SWITCHES, SOCKETS, ""),
        ("of no socket", renamed(BUSES, CROSSED), "sysfs", SWITCHES, [None] * 8, ACROSS),
        ("flat", renamed(BUSES, FLAT), "hwloc", FIRST_ROW, SOCKETS, ""),
        ("flat", TEXT, "sysfs", ["X", *["PHB"] * 7], [None] * 8, ""),
        ("none", "<topology/>", "", None, [None] * 8, UNKNOWN),
    ],
    ids=["all", "sockets", "across a switch", "bridges", "no more of it", "nothing"],
)
def test_hwloc_tells_what_sysfs_does_not(
    machine: Machine,
    devices: str,
    topology: str,
    by: str,
    first_row: list[str] | None,
    sockets: list[int | None],
    cause: str,
) -> None:
    """The firmware tells neither sockets nor CPUs; a virtual machine has all on one bridge."""
    (machine.root.parent / "topology").write_text(topology)
    buses: Sequence[str] = BUSES
    if devices == "of no socket":
        buses = in_sysfs(machine, [-1] * 8)
    elif devices == "flat":
        buses = [machine.gpu(f"pci0000:00/{bus}", -1, "0-7") for bus in FLAT]
    found = wiring_of(readings(*buses), str(machine.root))
    assert (found["by"], found["cause"]) == (by, cause)
    assert found["pci"][:1] == ([first_row] if first_row else [])
    assert [gpu["socket"] for gpu in found["gpus"]] == sockets
    assert sockets != SOCKETS or found["gpus"][7]["cpus"] == [4, 5, 6, 7]


def test_hwloc_is_not_asked_where_sysfs_tells_all(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiring, "report_by_hwloc", lambda _: pytest.fail("it was asked"))
    buses = in_sysfs(machine, [1] * 4 + [0] * 4)
    found = wiring_of(readings(*buses), str(machine.root))
    assert (found["by"], [gpu["socket"] for gpu in found["gpus"]]) == ("sysfs", [1] * 4 + [0] * 4)


@needs_lstopo
def test_corrected_topology_comes_before_sysfs(
    corrected: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The firmware has all GPUs on socket 0; the file of the operator knows better."""
    says(monkeypatch, "", "nvidia-smi is not installed")
    machine = Machine(tmp_path / "sys")
    buses = in_sysfs(machine, [0] * 8)
    found = wiring_of(readings(*buses), str(machine.root))
    assert (found["by"], found["pci"][0]) == ("hwloc", FIRST_ROW)
    assert [gpu["socket"] for gpu in found["gpus"]] == SOCKETS

    corrected.write_text("<topology>")
    found = wiring_of(readings(*buses), str(machine.root))
    assert (found["by"], {gpu["socket"] for gpu in found["gpus"]}) == ("sysfs", {0})
    assert found["cause"].startswith("hwloc: ")
    assert found["cause"].endswith(f"; HWLOC_XMLFILE={corrected}")
