import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from shunter.backends.live import EXPLANATIONS, GpuFault, GpuUse
from tests.doubles.gpu_reader import GpuReader, NoGpus, fault_of

SOURCE = Path(__file__).with_name("nvml_stub.c")

Machine = Callable[..., GpuReader]


def compiled(folder: Path, *options: str) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler (cc, gcc or clang): the stub of NVML cannot be built")
    library = folder / "libnvidia-ml.so.1"
    command = [compiler, "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", *options]
    subprocess.run([*command, "-o", str(library), str(SOURCE)], check=True)
    return library


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="module")
def old_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("nvml-old"), "-DOLD")


@pytest.fixture
def binding(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A fresh nvidia-ml-py: it keeps its library and its functions in globals."""
    spec = importlib.util.find_spec("pynvml")
    if spec is None or spec.loader is None:
        pytest.skip("nvidia-ml-py is not installed: the extra `nvml`")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "pynvml", module)  # it looks itself up
    spec.loader.exec_module(module)
    return module


def reader_of(binding: ModuleType, library: Path) -> GpuReader:
    vars(binding)["nvmlLib"] = ctypes.CDLL(str(library))
    return GpuReader(binding)


@pytest.fixture
def machine(
    binding: ModuleType, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Machine:
    def described(*statements: str) -> GpuReader:
        (tmp_path / "stub").write_text("\n".join(statements))
        monkeypatch.setenv("SHUNTER_NVML_STUB", str(tmp_path / "stub"))
        return reader_of(binding, library)

    return described


def gpus(found: tuple[GpuUse, ...] | NoGpus) -> tuple[GpuUse, ...]:
    assert not isinstance(found, NoGpus)
    return found


def test_gpus_are_read(machine: Machine) -> None:
    found = gpus(machine("gpu 80 4000 16000 123 3900", "gpu 0 10 16000").read())
    assert found[0] == GpuUse(0, "GPU-stub-0", 0.8, 4000, 16000, {123: 3900}, {})
    assert found[1] == GpuUse(1, "GPU-stub-1", 0.0, 10, 16000, {}, {})


def test_only_the_asked_gpus_are_read(machine: Machine) -> None:
    found = gpus(machine("gpu 1 1 9", "gpu 2 2 9", "gpu 3 3 9").read([2, 0]))
    assert [each.index for each in found] == [2, 0]


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        (4, GpuFault.no_permission),
        (9, GpuFault.no_driver),
        (18, GpuFault.version_mismatch),
        (999, GpuFault.unknown),
        (777, GpuFault.unknown),  # of an NVML that is yet to come
    ],
)
def test_failed_opening_is_a_state(machine: Machine, code: int, fault: GpuFault) -> None:
    found = machine(f"fail init 0 {code}").read()
    assert isinstance(found, NoGpus)
    assert found.fault is fault
    assert EXPLANATIONS[fault] in found.explanation


def test_driver_that_is_loaded_later_is_seen(machine: Machine, tmp_path: Path) -> None:
    reader = machine("fail init 0 9")
    assert isinstance(reader.read(), NoGpus)
    (tmp_path / "stub").write_text("gpu 5 1 2")
    assert len(gpus(reader.read())) == 1


@pytest.mark.parametrize(("call", "code"), [("handle", 15), ("memory", 15), ("utilisation", 16)])
def test_lost_gpu_leaves_the_others_readable(machine: Machine, call: str, code: int) -> None:
    found = gpus(machine("gpu 10 1 9", "gpu 20 2 9", f"fail {call} 0 {code}").read())
    assert [each.is_lost for each in found] == [True, False]
    assert found[1].utilisation == 0.2


def test_unsupported_reading_leaves_the_rest(machine: Machine) -> None:
    statements = ("gpu 10 700 900 5 600", "fail utilisation 0 3", "fail processes 0 4")
    (found,) = gpus(machine(*statements).read())
    assert (found.utilisation, found.memory_mb, found.memory_by_pid) == (None, 700, None)
    assert found.faults == {
        "utilisation": GpuFault.not_supported,
        "processes": GpuFault.no_permission,
    }
    assert not found.is_lost


def test_library_without_the_function_is_an_old_driver(
    binding: ModuleType, old_library: Path, machine: Machine
) -> None:
    machine("gpu 10 700 900")
    (found,) = gpus(reader_of(binding, old_library).read())
    assert found.faults == {"utilisation": GpuFault.old_driver}
    assert found.memory_mb == 700


def test_gpu_that_is_not_there_is_said_so(machine: Machine) -> None:
    (found,) = gpus(machine("gpu 1 1 9").read([5]))
    assert found.faults == {"device": GpuFault.not_found}


def test_machine_without_the_library_is_a_state(
    binding: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(binding, "CDLL", absent)
    found = GpuReader(binding).read()
    assert isinstance(found, NoGpus)
    assert found.fault is GpuFault.no_library


def test_machine_without_the_binding_is_a_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    found = GpuReader().read()
    assert isinstance(found, NoGpus)
    assert (found.fault, "extra" in found.explanation) == (GpuFault.no_binding, True)


def test_every_error_of_the_binding_has_a_meaning(binding: ModuleType) -> None:
    codes = [
        value
        for name, value in sorted(vars(binding).items())
        if name.startswith("NVML_ERROR_") and isinstance(value, int)
    ]
    assert len(codes) > 25
    faults = [fault_of(binding.NVMLError(code)) for code in codes]
    assert {GpuFault.lost, GpuFault.no_driver, GpuFault.no_library} <= {*faults}
    assert {*GpuFault} == {*EXPLANATIONS}


def test_what_this_machine_has_is_read_without_an_exception(binding: ModuleType) -> None:
    """On a machine with a GPU, this checks the layout of the real structures."""
    found = GpuReader(binding).read()
    read = () if isinstance(found, NoGpus) else found
    assert all(each.is_lost or (each.memory_total_mb or 0) > 0 for each in read)
    assert os.getpid() not in [pid for each in read for pid in each.memory_by_pid or {}]
