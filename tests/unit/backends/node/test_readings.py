"""Readings of GPUs in the background: taken now and then, and never waited for."""

import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from shunter.backends.node.remote import gpus
from shunter.backends.node.remote.gpus import Readings
from shunter.backends.profiles import GpuFault, use_told
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
    assert polled(readings) == [READING]
    assert readings.poll() is None
    assert readings._asked is None, "asked again before its time"


def test_host_without_gpus_is_asked_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "EVERY_S", 0.0)
    readings = Readings(telling({"gpus": [], "by": "", "code": 12}))
    assert polled(readings) == []
    assert readings.poll() is None
    assert readings._asked is None


@pytest.mark.parametrize("said", ["", "Welcome\n", "\nGPUS {broken"])
def test_answer_that_is_none_leaves_nothing_known(said: str) -> None:
    program = f"import sys; sys.stdout.write({said!r})"
    assert polled(Readings([sys.executable, "-I", "-S", "-c", program])) == []


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
        assert readings.poll() == []
        assert readings.poll() is None
        assert readings._asked is asked
    finally:
        asked.kill()
        asked.communicate()


def test_program_is_asked_where_the_library_tells_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reading that a card does not offer is `[N/A]` in its words."""
    program = tmp_path / "nvidia-smi"
    program.write_text(
        "#!/bin/sh\n"
        "echo '0, GPU-a, Tesla V100, 00000000:41:00.0, 35, 100, 16160'\n"
        "echo '1, GPU-b, Tesla V100, 00000000:42:00.0, [N/A], 200, 16160'\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(gpus, "nvml_gpus", lambda: ([], 12))
    told = gpus.gpus("", "NONCE")
    assert capsys.readouterr().out == "\nNONCE "
    assert (told["by"], told["code"]) == ("nvidia-smi", 12)
    first, second = map(use_told, told["gpus"])
    assert (first.uuid, first.utilisation, first.memory_mb) == ("GPU-a", 0.35, 100)
    assert (second.utilisation, second.memory_mb) == (None, 200)
    assert second.faults == {"utilisation": GpuFault.not_supported}
