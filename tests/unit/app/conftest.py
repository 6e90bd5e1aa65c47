from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import pytest

from shunter import plugins
from shunter.config import LoadedConfig, make_config

CONFIG = """\
schema = 1
seed = 3
[cluster]
[[cluster.nodes]]
name = "gpu[1-2]"
gpus = 4
cpus = 8
[workload]
trace = "jobs.csv"
[policy]
name = "fifo"
trigger = "event"
"""
JOBS = """\
job_id,submit_s,gpus,duration_s,user,status
a,0,8,100,ana,finished
b,10,4,50,bo,finished
c,20,16,50,bo,finished
d,30,1,10,ana,failed
e,40,1,10,ana,cancelled
"""

WriteConfig = Callable[[str], Path]
Generated = Callable[..., LoadedConfig]
Install = Callable[..., None]


@pytest.fixture
def write_config(tmp_path: Path) -> WriteConfig:
    """Write a config file, beside a trace of five jobs."""

    def write(text: str = CONFIG) -> Path:
        (tmp_path / "jobs.csv").write_text(JOBS)
        path = tmp_path / "run.toml"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def config_file(write_config: WriteConfig) -> Path:
    return write_config(CONFIG)


@pytest.fixture
def generated() -> Generated:
    """Make a config of a few generated jobs; keywords with __ for dots set other values."""

    def make(**values: object) -> LoadedConfig:
        config = make_config(
            {
                "cluster": {"nodes": [{"name": "gpu[1-2]", "gpus": 4, "cpus": 16}]},
                "workload": {"generate": {"jobs": 60, "load": 1.5}},
            },
            "test",
        )
        keys = {key.replace("__", "."): value for key, value in values.items()}
        return config.replaced(keys, "test") if keys else config

    return make


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Have these plugins of a kind, and no others."""

    def install(kind: Any, **points: str) -> None:
        found = [EntryPoint(name, value, kind.group) for name, value in points.items()]
        monkeypatch.setattr(
            plugins,
            "entry_points",
            lambda group: found if group == kind.group else entry_points(group=group),
        )

    return install
