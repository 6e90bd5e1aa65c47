"""Attempts of one training script under a real channel, as the supervisor would start them.

A script prints a line for each mini-batch, its number and its loss as hexadecimal digits, and asks
for its own suspension by creating the file that the supervisor would create, after the mini-batch
that `STOP_AT` names. Each attempt is a process of its own, begun with another seed: only what was
saved carries chance over.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from shunter.train import channel
from tests.unit.train.toy import Supervisor

__all__ = ["attempt", "attempts", "undisturbed"]

ROOT = Path(__file__).parents[3]
PATIENCE_S = 300.0


def undisturbed(folder: Path, script: str, *words: str) -> list[str]:
    """Run a script to its end outside Shunter; return what it printed."""
    folder.mkdir()
    return _ran(folder, script, words, {}, 0)


def attempts(folder: Path, script: str, *words: str, stops: tuple[int, ...]) -> list[str]:
    """Suspend a script after each of some mini-batches, then let it end; return all it printed."""
    folder.mkdir()
    printed = []
    for number, stop_at in enumerate((*stops, 0), start=1):
        printed += attempt(folder, script, *words, number=number, stop_at=stop_at)
    return printed


def attempt(folder: Path, script: str, *words: str, number: int, stop_at: int) -> list[str]:
    """Run one attempt, which is suspended after a mini-batch, or ends where that is 0."""
    with Supervisor(folder / f"attempt-{number}") as supervisor:
        told = {
            **supervisor.environment(folder / "checkpoints"),
            channel.ATTEMPT: str(number),
            "STOP_AT": str(stop_at),
        }
        printed = _ran(folder, script, words, told, channel.EXIT_SUSPENDED if stop_at else 0)
        assert not supervisor.told("failed")
        assert bool(supervisor.told("saved")) == bool(stop_at)
    return printed


def _ran(
    folder: Path, script: str, words: tuple[str, ...], told: Mapping[str, str], code: int
) -> list[str]:
    seed = told.get(channel.ATTEMPT, "1")
    environment = {"SEED": seed, "STOP_AT": "0", "PYTHONPATH": str(ROOT), **os.environ, **told}
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, *words],
        cwd=folder,
        env={**environment, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    return [line for line in ran.stdout.splitlines() if line.startswith("step ")]
