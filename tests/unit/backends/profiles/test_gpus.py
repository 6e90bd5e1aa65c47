"""What errors of NVML mean; how its stub is built, by which its readers are tested."""

import shutil
import subprocess
from pathlib import Path

import pytest

from shunter.backends.live import EXPLANATIONS, GpuFault, fault_of_code

SOURCE = Path(__file__).with_name("nvml_stub.c")


def compiled(folder: Path, *options: str) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler (cc, gcc or clang): the stub of NVML cannot be built")
    library = folder / "libnvidia-ml.so.1"
    command = [compiler, "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", *options]
    subprocess.run([*command, "-o", str(library), str(SOURCE)], check=True)
    return library


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        (3, GpuFault.not_supported),
        (4, GpuFault.no_permission),
        (6, GpuFault.not_found),
        (9, GpuFault.no_driver),
        (12, GpuFault.no_library),
        (13, GpuFault.old_driver),
        (15, GpuFault.lost),
        (16, GpuFault.reset_required),
        (18, GpuFault.version_mismatch),
        (999, GpuFault.unknown),
        (777, GpuFault.unknown),  # of an NVML that is yet to come
    ],
)
def test_error_is_a_fault_with_a_meaning(code: int, fault: GpuFault) -> None:
    assert fault_of_code(code) is fault
    assert {*GpuFault} == {*EXPLANATIONS}
