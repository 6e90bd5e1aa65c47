"""NVML by ctypes alone, against a library of our own; on a machine with a GPU against the real one.

The stub proves how our side counts, maps errors and finds processes; it proves nothing of a driver.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from shunter.backends.live import GpuFault, use_told
from shunter.backends.node import GpuReading
from shunter.backends.node.host import nvml_gpus
from tests.doubles.gpu_reader import GpuReader, NoGpus
from tests.unit.backends.profiles.test_gpus import compiled

Machine = Callable[..., tuple[list[GpuReading], int]]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def machine(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    def described(*statements: str, of: Path = library) -> tuple[list[GpuReading], int]:
        (tmp_path / "stub").write_text("\n".join(statements) + "\n")
        monkeypatch.setenv("SHUNTER_NVML_STUB", str(tmp_path / "stub"))
        return nvml_gpus(str(of))

    return described


def test_gpus_are_read_with_their_names_and_places(machine: Machine) -> None:
    found, code = machine(
        "gpu 80 4000 16000 123 3900", "gpu 0 10 16000", "named 0 00000000:41:00.0 NVIDIA A100-SXM4"
    )
    assert code == 0
    assert found[0] == {
        "index": 0,
        "faults": {},
        "uuid": "GPU-stub-0",
        "name": "NVIDIA A100-SXM4",
        "bus": "00000000:41:00.0",
        "memory_total_mb": 16000,
        "memory_mb": 4000,
        "utilisation": 0.8,
        "memory_by_pid": {123: 3900},
    }
    assert (found[1]["uuid"], found[1]["name"], found[1]["memory_by_pid"]) == (
        "GPU-stub-1",
        "Stub GPU",
        {},
    )


def test_reading_is_the_one_that_the_binding_gives(
    machine: Machine, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: far hosts and this machine tell the same of the same GPU, faults included."""
    import ctypes

    binding = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    found, _ = machine(
        *("gpu 80 4000 16000 123 3900", "gpu 5 10 16000", "gpu 7 1 9"),
        *("fail utilisation 0 3", "fail processes 1 4", "fail memory 2 15"),
    )
    monkeypatch.setattr(binding, "nvmlLib", ctypes.CDLL(str(library)))
    assert tuple(use_told(each) for each in found) == GpuReader(binding).read()


@pytest.mark.parametrize(
    ("statements", "code"),
    [
        *((["fail init 0 {code}"], code) for code in (4, 9, 18, 777, 999)),
        (["gpu 1 1 9", "fail count 0 {code}"], 999),
    ],
)
def test_host_whose_library_tells_nothing_has_its_code(
    machine: Machine, statements: list[str], code: int
) -> None:
    assert machine(*(each.format(code=code) for each in statements)) == ([], code)


def test_host_without_a_library_has_a_code_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "libnvidia-ml.so.1"
    assert nvml_gpus(str(path)) == ([], 12)
    path.write_text("no library")
    assert nvml_gpus(str(path)) == ([], 12)


@pytest.mark.parametrize("call", ["handle", "uuid", "memory", "utilisation", "processes", "bus"])
def test_lost_gpu_leaves_the_others_readable(machine: Machine, call: str) -> None:
    found, _ = machine("gpu 10 1 9", "gpu 20 2 9", f"fail {call} 0 15")
    assert use_told(found[0]).is_lost
    assert (found[1]["utilisation"], found[1]["faults"]) == (0.2, {})


def test_missing_function_leaves_the_rest(
    machine: Machine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    old = compiled(tmp_path_factory.mktemp("old"), "-DOLD")
    ((reading,), _) = machine("gpu 10 700 900", of=old)
    found = use_told(reading)
    assert found.faults == {"utilisation": GpuFault.old_driver}
    assert (found.memory_mb, found.utilisation) == (700, None)


def test_what_this_machine_has_is_what_the_binding_reads() -> None:
    """On a machine with a GPU, this checks the layout of the real structures."""
    binding = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    found, code = nvml_gpus()
    known = GpuReader(binding).read()
    if isinstance(known, NoGpus):
        assert found == []
        assert code != 0
        return
    assert [each["uuid"] for each in found] == [each.uuid for each in known]
    assert [each["memory_total_mb"] for each in found] == [each.memory_total_mb for each in known]
