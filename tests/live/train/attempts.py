"""Attempts of one training script under a real channel, as the supervisor would start them.

A script prints a line for each mini-batch, its number and its loss as hexadecimal digits, and asks
for its own suspension by creating the file that the supervisor would create, after the mini-batch
that `STOP_AT` names. Each attempt is a process of its own, begun with another seed: only what was
saved carries chance over. It is forked from one that has imported the library, which takes longer
than the training.
"""

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from shunter.train import channel
from tests.unit.train.toy import Supervisor

__all__ = ["attempt", "attempts", "undisturbed"]

ROOT = Path(__file__).parents[3]
PATIENCE_S = 300
PATHS = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
OFFLINE = {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": PATHS}
PARENT = """
import importlib, json, os, signal, sys, warnings
warnings.simplefilter("ignore")
importlib.import_module(sys.argv[1])
importlib.import_module("torch._dynamo")  # as each script would, at its first optimizer
for line in sys.stdin:
    told = json.loads(line)
    pid = os.fork()
    if not pid:
        signal.alarm(told["patience_s"])
        os.chdir(told["folder"])
        os.environ.clear()
        os.environ.update(told["environment"])
        for number, name in enumerate((os.devnull, "stdout", "stderr")):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), number)
        sys.argv = ["-c", *told["words"]]
        exec(compile(told["script"], "<script>", "exec"), {"__name__": "__main__"})
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


def undisturbed(folder: Path, library: str, script: str, *words: str) -> list[str]:
    """Run a script to its end outside Shunter; return what it printed."""
    folder.mkdir()
    return _ran(folder, library, (script, *words), {}, 0)


def attempts(
    folder: Path, library: str, script: str, *words: str, stops: tuple[int, ...]
) -> list[str]:
    """Suspend a script after each of some mini-batches, then let it end; return all it printed."""
    folder.mkdir()
    printed = []
    for number, stop_at in enumerate((*stops, 0), start=1):
        printed += attempt(folder, library, script, *words, number=number, stop_at=stop_at)
    return printed


def attempt(
    folder: Path, library: str, script: str, *words: str, number: int, stop_at: int
) -> list[str]:
    """Run one attempt, which is suspended after a mini-batch, or ends where that is 0."""
    with Supervisor(folder / f"attempt-{number}") as supervisor:
        told = {
            **supervisor.environment(folder / "checkpoints"),
            channel.ATTEMPT: str(number),
            "STOP_AT": str(stop_at),
        }
        code = channel.EXIT_SUSPENDED if stop_at else 0
        printed = _ran(folder, library, (script, *words), told, code)
        assert not supervisor.told("failed")
        assert bool(supervisor.told("saved")) == bool(stop_at)
    return printed


def _ran(
    folder: Path, library: str, script: tuple[str, ...], told: Mapping[str, str], code: int
) -> list[str]:
    seed = told.get(channel.ATTEMPT, "1")
    environment = {"SEED": seed, "STOP_AT": "0", **os.environ, **OFFLINE, **told}
    parent = _importing(library)
    assert parent.stdin is not None
    assert parent.stdout is not None
    request = {
        "folder": str(folder),
        "environment": environment,
        "script": script[0],
        "words": script[1:],
        "patience_s": PATIENCE_S,
    }
    parent.stdin.write(json.dumps(request) + "\n")
    parent.stdin.flush()
    ended = parent.stdout.readline()
    stdout = (folder / "stdout").read_text(encoding="utf-8")
    assert ended == f"{code}\n", stdout + (folder / "stderr").read_text(encoding="utf-8")
    return [line for line in stdout.splitlines() if line.startswith("step ")]


@cache
def _importing(library: str) -> subprocess.Popen[str]:
    """Return a process that has imported a library and forks one for each script."""
    parent = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", PARENT, library],
        env={**os.environ, **OFFLINE},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(parent.kill)
    return parent
