"""One small simulated log under each policy of the tree, with everything in it that jobs wait for.

Two GPU types, racks, CPUs, a quota, guards, dependencies, levels, priorities, servers that break,
and starts and suspensions that take their time. Some policies have more logs, with what else they
can be told: other placements, sizes, turns, pairs, schedulers of the jobs.
"""

import fcntl
import os
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from shunter.config import make_config
from shunter.run import setup, simulate

__all__ = [
    "BOUNDS_GPU_S",
    "MIN_RUNTIME_S",
    "POLICIES",
    "PREEMPTIONS_MOST",
    "RUNS",
    "SKEWED",
    "is_sized",
    "policy_of",
    "simulated",
    "simulated_once",
]

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
SPEEDS = {"throughputs": "builtin:gavel", "base_type": "v100"}
TURNS = {"slicing": {"quantum": "60s"}}
MAPS = {"switches": 2}
MEMORY = {"memory_gb": 256}
LEARNERS = ("ResNet-18 (batch size 32)", "LM (batch size 10)", "Transformer (batch size 16)")
SKEWED = ("vgg16", "alexnet")
SINGLE = {"gpus_most": 1, "models": LEARNERS, "servers": {"gpus": 1}}
VARIANTS: dict[str, dict[str, Any]] = {
    "fifo-events": {"policy": {"trigger": "event"}},
    "fifo-topology": {
        "policy": {"placement": "topology", "topology": {"make_room": {"cost": "10s"}}},
        "servers": MAPS,
    },
    "gandiva-growing": {
        "policy": {"params": {"gandiva": {"grow_after": "5m"}}, **TURNS},
        "elastic": True,
    },
    "gandiva-packed": {
        "policy": {"params": {"gandiva": {"packing": {"probe": "6m"}}}, **TURNS},
        "workload": SPEEDS,
        **SINGLE,
    },
    "gavel-aware": {"workload": SPEEDS, "models": LEARNERS},
    "max_min_fairness-in-pairs": {
        "policy": {"params": {"max_min_fairness": {"space_sharing": True}}},
        "workload": SPEEDS,
        **SINGLE,
    },
    "las-decentralised": {"policy": {"decentralised": {"staleness": "5s"}}},
    "las-sized": {"policy": {"sizing": "proportional"}, "servers": MEMORY},
    "las-skew": {
        "policy": {"placement": "skew"},
        "models": (*SKEWED, "resnet50", "inception3"),
    },
    "las-stale": {
        "policy": {"decentralised": {"staleness": "10m", "candidates": 1, "reserve_after": 3}}
    },
    "las-topology": {"policy": {"placement": "topology"}, "servers": MAPS},
    "las-tuned": {
        "policy": {"sizing": "tune"},
        "workload": {"sensitivity": "builtin:synergy"},
        "models": ("alexnet", "res18", "gnmt", "lstm"),
        "servers": MEMORY,
    },
    "srtf-decentralised": {"policy": {"decentralised": {"staleness": "60s", "candidates": 1}}},
    "srtf-events": {"policy": {"trigger": "event"}},
    "tiresias-decentralised": {"policy": {"decentralised": {}}},
    "two_level-srtf": {"policy": {"params": {"two_level": {"inside": "srtf"}}}},
}
"""What a policy is told otherwise, what its servers have and what its jobs are."""
RUNS = (*POLICIES, *VARIANTS)
COLUMNS = (
    "job_id,submit_s,gpus,duration_s,user,queue,cpus,gpu_type,max_level,priority,depends_on,model,"
    "gpus_min,gpus_max"
)


def policy_of(run: str) -> str:
    """Return the policy of a run, which may be told something otherwise."""
    return run.partition("-")[0]


def is_sized(run: str) -> bool:
    """Say whether the scheduler decides the CPUs of the jobs of a run."""
    return "sizing" in VARIANTS.get(run, {}).get("policy", {})


def simulated(run: str, folder: Path) -> str:
    """Simulate the jobs under a policy into a log in a folder; return its address."""
    name, variant = policy_of(run), VARIANTS.get(run, {})
    trace, url = folder / "jobs.csv", str(folder / f"{run}.db")
    trace.write_text(_trace(variant), encoding="utf-8")
    guards = {
        "min_runtime": f"{MIN_RUNTIME_S}s",
        "max_preemptions_per_job_hour": PREEMPTIONS_MOST,
    }
    policy: dict[str, Any] = {"name": name, "guards": guards}
    if name in PARAMS:
        policy["params"] = {name: PARAMS[name]}
    if name == "gandiva":
        policy |= TURNS
    policy |= variant.get("policy", {})
    parts = variant.get("servers", {})
    servers = [
        {"name": "gpu[1-3]", "gpus": 4, "type": "v100", "rack": "r1", "cpus": 32, **parts},
        {"name": "k1", "gpus": 4, "type": "k80", "rack": "r2", "cpus": 32, **parts},
    ]
    tree = {
        "seed": 5,
        "cluster": {"nodes": servers},
        "workload": {"trace": str(trace), **variant.get("workload", {})},
        "policy": policy,
        "queues": {"a": {"quota_gpus": 10}, "b": {}},
        "simulation": {
            "costs": COSTS,
            "failures": {"mtbf": "6h", "mttr": "40m"},
            "samples": {"every": "60s", "noise": 0.05},
        },
        "log": {"url": url, "snapshot_every": 100},
    }
    # A log names the version that wrote it; a release alone shall not change these.
    with patch.object(setup, "__version__", "frozen"):
        simulate(make_config(tree, name), overwrite=True)
    return url


def simulated_once(run: str, temporary: pytest.TempPathFactory) -> str:
    """Return the address of the log of a run, which all tests of a session only read."""
    base = temporary.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base  # forks have one folder
    folder = shared / "mixed_runs" / run
    folder.mkdir(parents=True, exist_ok=True)
    with Path(folder, "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        address = folder / "address"
        if not address.exists():
            address.write_text(simulated(run, folder))
        return address.read_text()


def _trace(variant: Mapping[str, Any]) -> str:
    """Return the trace; what varies draws no numbers, so that all else is the same."""
    models, most = variant.get("models", ()), variant.get("gpus_most", 8)
    is_elastic = variant.get("elastic", False)
    rng, rows, at_s = Random(7), [COLUMNS], 0
    for number in range(JOBS):
        gpus = rng.choice([1, 1, 2, 2, 3, 4, 4, 8])
        gpus = min(most, 2 if models and gpus == 3 else gpus)  # tables know no gangs of three
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
            models[number % len(models)] if models else f"m{gpus}",
            *((1, 4) if is_elastic and gpus < 4 and number % 2 else ("", "")),
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
