"""Small simulated logs, one under each policy, and what is compared of them."""

from pathlib import Path
from typing import Any

from shunter.config import make_config
from shunter.run import simulate

COSTS = {"start": "20s", "suspend": "10s", "resume": "30s", "migrate": "40s"}
SLICING = {"quantum": "60s"}
SAMPLES = {"every": "60s", "noise": 0.05}


def tree(name: str, **sections: Any) -> dict[str, Any]:
    """Return the config of a small run under a policy, with parts of it replaced."""
    found: dict[str, Any] = {
        "seed": 5,
        "cluster": {"nodes": [{"name": "gpu[1-3]", "gpus": 4, "type": "v100", "rack": "r1"}]},
        "workload": {"generate": {"jobs": 40, "load": 1.4, "gpus_max": 8}},
        "policy": {"name": name},
    }
    return found | sections


def simulated(folder: Path, config: dict[str, Any], snapshot_every: int = 100) -> str:
    """Simulate a config into a log; return its address."""
    url = str(folder / "run.db")
    log = {"url": url, "snapshot_every": snapshot_every}
    simulate(make_config({**config, "log": log}, "test"), overwrite=True)
    return url
