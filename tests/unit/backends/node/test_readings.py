"""Readings of GPUs in the background: taken now and then, and never waited for."""

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shunter.backends.live import GpuFault, use_told
from shunter.backends.node import GpuReading
from shunter.backends.node.host import Readings, gpus
from tests.faults.supervised import wait_for

READING = {"index": 0, "faults": {}}


def telling(answer: dict[str, Any]) -> list[str]:
    """Return a command that prints noise, and an answer."""
    said = f"Welcome\n\nGPUS {json.dumps(answer)}\n"
    return [sys.executable, "-I", "-S", "-c", f"import sys; sys.stdout.write({said!r})"]


def polled(readings: Readings) -> Any:
    """Poll until there is an answer, empty or not; return it."""
    found: list[Any] = []

    def look() -> bool:
        told = readings.poll()
        found.extend([] if told is None else [told])
        return bool(found)

    wait_for(look, "an answer")
    return found[0]


def test_reading_is_told_once_and_taken_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "EVERY_S", 1000.0)
    readings = Readings(telling({"gpus": [READING], "by": "NVML", "code": 0}))
    assert polled(readings) == (GpuReading.decoded(READING),)
    assert readings.poll() is None
    assert readings._asked is None, "asked again before its time"


def test_agent_imports_no_threads() -> None:
    """Each fork of it would take a third longer."""
    looks = "import sys; print(*{'threading', 'subprocess'} & set(sys.modules))"
    program = f"import shunter.backends.node.session; {looks}"
    words = [sys.executable, "-I", "-c", program]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "\n"


def test_host_without_gpus_is_asked_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "EVERY_S", 0.0)
    readings = Readings(telling({"gpus": [], "by": "", "code": 12}))
    assert polled(readings) == ()
    assert readings.poll() is None
    assert readings._asked is None


@pytest.mark.parametrize("said", ["", "Welcome\n", "\nGPUS {broken"])
def test_answer_that_is_none_leaves_nothing_known(said: str) -> None:
    program = f"import sys; sys.stdout.write({said!r})"
    assert polled(Readings([sys.executable, "-I", "-S", "-c", program])) == ()


def test_driver_that_hangs_leaves_nothing_known_and_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody waits for it: what asks it may stay in the kernel for ever."""
    monkeypatch.setattr(gpus, "HUNG_S", 0.0)
    monkeypatch.setattr(gpus, "EVERY_S", 0.0)
    readings = Readings(["sleep", "60"])
    assert readings.poll() is None
    asked = readings._asked
    assert asked is not None
    try:
        assert readings.poll() == ()
        assert readings.poll() is None
        assert readings._asked is asked
    finally:
        os.kill(asked.pid, signal.SIGKILL)
        os.waitpid(asked.pid, 0)


def program(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *lines: str, code: int = 0, to: int = 1
) -> None:
    """Have an nvidia-smi that prints lines, and no NVML.

    Args:
        folder: where it is, the only one in PATH.
        monkeypatch: undoes that.
        lines: what it prints of GPUs.
        code: its exit code.
        to: where lines that are no row go; 1: where rows go.
    """
    path = folder / "nvidia-smi"
    said = "".join(f"echo '{line}' >&{1 if line[0].isdigit() else to}\n" for line in lines)
    path.write_text(f"#!/bin/sh\n{said}exit {code}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(gpus, "nvml_gpus", lambda: ([], 12))


def test_program_is_asked_where_the_library_tells_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reading that a card does not offer is `[N/A]` in its words."""
    program(
        tmp_path,
        monkeypatch,
        "0, GPU-a, Tesla V100, 00000000:41:00.0, 35, 100, 16160",
        "1, GPU-b, Tesla V100, 00000000:42:00.0, [N/A], 200, 16160",
    )
    told = gpus.gpus("", "NONCE")
    assert capsys.readouterr().out == "\nNONCE "
    assert (told["by"], told["code"]) == ("nvidia-smi", 12)
    first, second = map(use_told, told["gpus"])
    assert (first.uuid, first.utilisation, first.memory_mb) == ("GPU-a", 0.35, 100)
    assert (second.utilisation, second.memory_mb) == (None, 200)
    assert second.faults == {"utilisation": GpuFault.not_supported}


UNABLE = "Unable to determine the device handle for GPU"
LOST = "GPU is lost.  Reboot the system to recover this GPU"


@pytest.mark.parametrize("to", [1, 2])
@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (f"{UNABLE}2: 0000:12:00.0: {LOST}", GpuFault.lost),
        (f"{UNABLE} 0000:12:00.0: {LOST}", GpuFault.lost),
        (f"{UNABLE}0000:12:00.0: {LOST}", GpuFault.lost),
        (f"{UNABLE}2: 00000000:12:00.0: GPU requires reset", GpuFault.reset_required),
        (f"{UNABLE}2: 0000:12:00.0: Unknown Error", GpuFault.unknown),
    ],
)
def test_gpu_that_the_program_cannot_read_leaves_the_others(
    line: str, fault: GpuFault, to: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [f"{n}, GPU-{n}, NVIDIA A100, 00000000:1{n}:00.0, 0, 4, 81920" for n in (0, 1, 3)]
    program(tmp_path, monkeypatch, *rows[:2], line, rows[2], code=15, to=to)
    told = gpus.read_gpus()
    found = list(map(use_told, told["gpus"]))
    assert told["by"] == "nvidia-smi"
    assert [gpu.index for gpu in found] == [0, 1, 2, 3]
    assert [gpu.uuid for gpu in found] == ["GPU-0", "GPU-1", None, "GPU-3"]
    assert [gpu.faults for gpu in found] == [{}, {}, {"device": fault}, {}]


def test_gpu_whose_row_says_that_it_is_lost_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, reset = "[GPU is lost]", "[GPU requires reset]"
    program(
        tmp_path,
        monkeypatch,
        f"0, {lost}, {lost}, 00000000:10:00.0, {lost}, {lost}, {lost}",
        f"1, GPU-1, NVIDIA A100, 00000000:11:00.0, {reset}, {reset}, {reset}",
        "2, GPU-2, NVIDIA A100, 00000000:12:00.0, [Not Supported], 4, 81920",
        code=15,
    )
    found = list(map(use_told, gpus.read_gpus()["gpus"]))
    assert [gpu.loss for gpu in found] == [GpuFault.lost, GpuFault.reset_required, None]
    assert [gpu.uuid for gpu in found] == [None, "GPU-1", "GPU-2"]


def test_line_about_a_gpu_of_unknown_number_alone_is_a_reading_of_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: no GPU that may be well is taken out of use in its place."""
    program(tmp_path, monkeypatch, f"{UNABLE} 0000:12:00.0: {LOST}", code=15)
    told = gpus.read_gpus()
    assert (told.gpus, told.by) == ((), "")
    assert told["said"].endswith(LOST)
