"""One small simulated log under each policy of the tree, with everything in it that jobs wait for.

Two GPU types, racks, CPUs, a quota, guards, dependencies, levels, priorities, servers that break,
and starts and suspensions that take their time.
"""

from importlib.metadata import entry_points
from pathlib import Path
from random import Random
from typing import Any

from shunter.app.config import make_config
from shunter.app.runs.simulation import simulate

__all__ = ["BOUNDS_GPU_S", "MIN_RUNTIME_S", "POLICIES", "PREEMPTIONS_MOST", "simulated"]

POLICIES = tuple(
    sorted(
        point.name
        for point in entry_points(group="shunter.policies")
        if point.value.startswith("shunter.policies.")
    )
)
JOBS = 36
MIN_RUNTIME_S, PREEMPTIONS_MOST = 600, 2
BOUNDS_GPU_S = (1800, 9000)
COSTS = {"start": "20s", "suspend": "10s", "resume": "30s", "migrate": "40s"}
PARAMS: dict[str, dict[str, Any]] = {
    "las": {"queues_gpu_s": list(BOUNDS_GPU_S)},
    "min_cost": {"prices": {"v100": 2.0, "k80": 1.0}},
    "min_cost_slo": {"prices": {"v100": 2.0, "k80": 1.0}},
}
COLUMNS = (
    "job_id,submit_s,gpus,duration_s,user,queue,cpus,gpu_type,max_level,priority,depends_on,model"
)


def simulated(name: str, folder: Path) -> str:
    """Simulate the jobs under a policy into a log in a folder; return its address."""
    trace, url = folder / "jobs.csv", str(folder / f"{name}.db")
    trace.write_text(_trace(), encoding="utf-8")
    guards = {
        "min_runtime": f"{MIN_RUNTIME_S}s",
        "max_preemptions_per_job_hour": PREEMPTIONS_MOST,
    }
    policy: dict[str, Any] = {"name": name, "guards": guards}
    if name in PARAMS:
        policy["params"] = {name: PARAMS[name]}
    if name == "gandiva":
        policy["slicing"] = {"quantum": "60s"}
    servers = [
        {"name": "gpu[1-3]", "gpus": 4, "type": "v100", "rack": "r1", "cpus": 32},
        {"name": "k1", "gpus": 4, "type": "k80", "rack": "r2", "cpus": 32},
    ]
    tree = {
        "seed": 5,
        "cluster": {"nodes": servers},
        "workload": {"trace": str(trace)},
        "policy": policy,
        "queues": {"a": {"quota_gpus": 10}, "b": {}},
        "simulation": {
            "costs": COSTS,
            "failures": {"mtbf": "6h", "mttr": "40m"},
            "samples": {"every": "60s", "noise": 0.05},
        },
        "log": {"url": url, "snapshot_every": 100},
    }
    simulate(make_config(tree, name), overwrite=True)
    return url


def _trace() -> str:
    rng, rows, at_s = Random(7), [COLUMNS], 0
    for number in range(JOBS):
        gpus = rng.choice([1, 1, 2, 2, 3, 4, 4, 8])
        cells = [
            f"j{number}",
            at_s,
            gpus,
            rng.choice([300, 900, 1800, 3600, 7200]),
            f"u{rng.randrange(3)}",
            rng.choice("ab"),
            *_wishes(rng, gpus),
            rng.choice(["", "", "", 1]),
            f"j{rng.randrange(number)}:any" if number and rng.random() < 0.08 else "",
            f"m{gpus}",
        ]
        rows.append(",".join(map(str, cells)))
        at_s += rng.choice([0, 60, 200, 500])
    return "\n".join([*rows, ""])


def _wishes(rng: Random, gpus: int) -> tuple[str, str, str]:
    """Return the CPUs, the GPU type and the level that a job asks for, empty for none."""
    chosen = (
        rng.choice(["", "", "", "12", "30"]),
        rng.choice(["", "", "", "v100", "k80"]),
        rng.choice(["", "", "", "server", "rack"]),
    )
    return chosen if gpus <= 4 else ("", "", "")
