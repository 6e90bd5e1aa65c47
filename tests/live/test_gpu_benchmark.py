"""The script for a real GPU runs where there is none: with a stub of NVML, and in a rehearsal."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.unit.backends.profiles.test_gpus import compiled

pytestmark = [pytest.mark.live, pytest.mark.xdist_group("gpu benchmark")]

RUN = Path(__file__).parents[2] / "benchmarks" / "gpu" / "run"
STUB = ("gpu 80 4000 16000", "gpu 0 10 16000", "named 1 00000000:41:00.0 NVIDIA A100-SXM4")
SMI = """#!/bin/sh
case "$*" in
*driver_version*) echo 580.00 ;;
*) echo "0, GPU-stub-0, Stub GPU, 00000000:01:00.0, {busy}, 4000, 16000"
   echo "1, GPU-stub-1, NVIDIA A100-SXM4, 00000000:41:00.0, 0, 10, 16000" ;;
esac
"""

REHEARSED: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "suspend": lambda found: found["resumed_at_step"] >= 5,
    "boundaries": lambda found: found["models"]["conv"]["wait_most_s"] < 60,
    "slicing": lambda found: found["left_of_other"] > 0,
    "pairs": lambda found: found["with MPS"] == {"not measured": "no GPU"},
    "determinism": lambda found: found["models"]["conv"]["flags"]["equal"],
}
"""The parts that a CPU can do, and what has to come of them."""


def ran(folder: Path, *words: str, **environment: str) -> Mapping[str, Any]:
    """Run the script; return its document."""
    out = folder / "gpu.json"
    own = {"PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": "", "TMPDIR": str(folder)}
    subprocess.run(
        [str(RUN), "--out", str(out), *words],
        env={**os.environ, **own, **environment},
        check=True,
        capture_output=True,
        timeout=570,
    )
    document: Mapping[str, Any] = json.loads(out.read_text())
    return document


def stub(folder: Path, busy: int) -> dict[str, str]:
    """Make NVML and nvidia-smi of a machine with two GPUs; return the environment."""
    compiled(folder)
    (folder / "stub").write_text("\n".join(STUB) + "\n")
    (folder / "nvidia-smi").write_text(SMI.format(busy=busy))
    (folder / "nvidia-smi").chmod(0o755)
    return {
        "LD_LIBRARY_PATH": str(folder),
        "SHUNTER_NVML_STUB": str(folder / "stub"),
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
    }


def test_readings_of_a_stub_agree_and_all_else_says_that_there_is_no_gpu(tmp_path: Path) -> None:
    document = ran(tmp_path, **stub(tmp_path, busy=80))
    parts = dict(document["parts"])
    assert document["driver"] == "580.00"
    readings = parts.pop("readings")
    assert (readings["gpus"], readings["differing"]) == (2, [])
    assert {name: part["not measured"] for name, part in parts.items()} == dict.fromkeys(
        parts, "no GPU"
    )
    assert len(parts) == 7


def test_readings_that_differ_are_named(tmp_path: Path) -> None:
    document = ran(tmp_path, "--only", "readings", **stub(tmp_path, busy=20))
    assert document["parts"]["readings"]["differing"] == [
        "utilisation of GPU 0: 0.8 by NVML, 0.2 by nvidia-smi"
    ]


@pytest.mark.long
@pytest.mark.rotating("part")
@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed: make live does it")
@pytest.mark.parametrize("part", sorted(REHEARSED))
def test_rehearsal_goes_through_a_part_on_a_cpu(part: str, tmp_path: Path) -> None:
    document = ran(tmp_path, "--rehearse", "--only", part)
    found = document["parts"][part]
    assert document["rehearsal"]
    assert "not measured" not in found, found
    assert REHEARSED[part](found), found


def test_part_that_is_not_there_is_refused(tmp_path: Path) -> None:
    words = [str(RUN), "--only", "reading"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "there is no part 'reading'" in done.stderr
