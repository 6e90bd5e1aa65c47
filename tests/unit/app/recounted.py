"""Runs of which what is told is recounted: their simulation, and their events as lines of JSON."""

import json
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from shunter.cli import app
from shunter.config import make_config
from shunter.run import RunResult, simulate

Tree = dict[str, Any]

MADE = {"kind": "philly-like", "jobs": 60, "load": 1.6, "gpus_max": 8}
COMMON: Tree = {
    "cluster": {"nodes": [{"name": "n", "count": 3, "gpus": 4}]},
    "workload": {"generate": MADE},
}
COSTS = {"costs": {"start": "5s", "suspend": "7s", "resume": "9s"}}
RATED = {
    "workload": {
        "generate": {"kind": "gavel-like", "jobs": 30, "jobs_per_hour": 60.0, "gpus_max": 1},
        "throughputs": "builtin:gavel",
    },
    "cluster": {"nodes": [{"name": "n", "count": 2, "gpus": 2, "type": "v100"}]},
}
SHARING = {"gavel": {"space_sharing": True}}
RUNS: dict[str, Tree] = {
    "at once": {"policy": {"name": "las"}},
    "with costs": {"policy": {"name": "tiresias"}, "simulation": COSTS},
    "failing": {"policy": {"name": "fifo"}, "simulation": {"failures": {"mtbf": "20h"}}},
    "in turns": {"policy": {"name": "gandiva", "trigger": "event", "slicing": {}}},
    "with samples": {
        "policy": {"name": "las"},
        "simulation": {"samples": {"every": "10m"}},
        **RATED,
    },
    "packed": {"policy": {"name": "gavel", "round": "6m", "params": SHARING}, **RATED},
}


class Recounted:
    """A run, and what the log has of it."""

    def __init__(self, url: str, tree: Tree) -> None:
        self.url = url
        self.result: RunResult = simulate(make_config({**COMMON, **tree, "log": {"url": url}}))

    @cached_property
    def events(self) -> list[Tree]:
        lines = CliRunner().invoke(app, ["log", "export", self.url]).stdout.splitlines()
        return [json.loads(line) for line in lines]

    def told(self, *words: str) -> str:
        """Return what a command prints, which must succeed."""
        done = CliRunner().invoke(app, [*words])
        assert done.exit_code == 0, done.output
        return done.stdout


_made: dict[str, Recounted] = {}


def recounted(run: str | Tree, factory: pytest.TempPathFactory) -> Recounted:
    """Return a run by its name or by what its config has besides, simulated once."""
    tree = RUNS[run] if isinstance(run, str) else run
    key = json.dumps(tree, sort_keys=True)
    if key not in _made:
        folder: Path = factory.mktemp("recounted")
        _made[key] = Recounted(str(folder / "run.db"), tree)
    return _made[key]
