"""Runs whose reports are looked at, with their events as lines of JSON."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from shunter.cli import app
from shunter.config import make_config
from shunter.run import RunResult, simulate

Tree = dict[str, Any]
RUNS: dict[str, Tree] = {
    "at once": {"policy": {"name": "las"}},
    "with costs": {
        "policy": {"name": "tiresias"},
        "simulation": {"costs": {"start": "5s", "suspend": "7s", "resume": "9s"}},
    },
    "failing": {"policy": {"name": "fifo"}, "simulation": {"failures": {"mtbf": "20h"}}},
    "in turns": {"policy": {"name": "gandiva", "trigger": "event", "slicing": {}}},
}


class Reported:
    """A run with its events, and the document of a report on it."""

    def __init__(self, folder: Path, tree: Tree) -> None:
        self.url = str(folder / "run.db")
        common = {
            "cluster": {"nodes": [{"name": "n", "count": 3, "gpus": 4}]},
            "workload": {
                "generate": {"kind": "philly-like", "jobs": 60, "load": 1.6, "gpus_max": 8}
            },
        }
        self.result: RunResult = simulate(make_config({**common, **tree, "log": {"url": self.url}}))
        printed = CliRunner().invoke(app, ["report", self.url, "--json"])
        assert printed.exit_code == 0, printed.output
        (self.run,) = json.loads(printed.stdout)["runs"]
        lines = CliRunner().invoke(app, ["log", "export", self.url]).stdout.splitlines()
        self.events: list[Tree] = [json.loads(line) for line in lines]


@pytest.fixture(scope="session", params=RUNS)
def reported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Reported:
    return Reported(tmp_path_factory.mktemp("reported"), RUNS[request.param])
