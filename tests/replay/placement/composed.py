"""Small random traces with contracts on a cluster with maps, under any policy and `topology`."""

from collections.abc import Mapping
from typing import Any

from shunter.config import LoadedConfig, make_config
from shunter.core import Job, RandomStream, State
from shunter.core.speeds import level_of
from shunter.events import BELOW_SERVER, IN_SERVER, KINDS, Event, JobId, JobSpec, Level
from shunter.run import RunResult, simulate
from shunter.workloads import JobEnd, QualityReport, Trace, TraceJob

MODELS = ("ResNet-18 (batch size 32)", "LM (batch size 10)", "Transformer (batch size 64)")
LEVELS = (Level.nvlink, Level.switch, Level.socket, Level.server, Level.rack)
CURVE = (((4,), 1.0), ((2, 2), 0.7), ((1, 1, 1, 1), 0.4))
SPLITS = (((2, 2),), ((4,), (2, 2)), ((1, 1, 1, 1),))
S = 1_000_000
ORDER = list(Level)


def composed_trace(seed: int, jobs: int = 14) -> Trace:
    """Return jobs of 1 to 4 GPUs, most of them with a contract, and with CPUs and memory."""
    rng = RandomStream(seed, "composed")
    found = []
    at_s = 0
    for number in range(jobs):
        at_s += rng.below(240)
        gpus = (1, 1, 2, 2, 4)[rng.below(5)]
        spec = JobSpec(
            gpus,
            model=MODELS[rng.below(len(MODELS))],
            cpus_milli=1000 * rng.below(3),
            memory_mb=1000 * rng.below(3),
            **_contract(rng, gpus),
        )
        lasts_us = (300 + rng.below(1800)) * S
        found.append(TraceJob(JobId(f"j{number}"), at_s * S, spec, lasts_us, JobEnd.finished))
    return Trace("composed", "generated", found, "", QualityReport(jobs, jobs, jobs))


def _contract(rng: RandomStream, gpus: int) -> dict[str, Any]:
    """Return what a job says of distance: one kind of contract, or nothing."""
    kind = rng.below(5)
    if kind == 0:
        level = LEVELS[rng.below(len(LEVELS))]
        return {"max_level": Level.server if gpus > 2 and level in BELOW_SERVER else level}
    if kind == 1 and gpus == 4:
        return {"shapes": SPLITS[rng.below(len(SPLITS))]}
    if kind == 2:
        curve = ((Level.server, 1.0), (Level.rack, 0.7))
        return {"tolerance": curve, "min_speed": (0.6, 0.8)[rng.below(2)]}
    if kind == 3 and gpus == 4:
        return {"shape_tolerance": CURVE, "min_speed": 0.6}
    return {}


def composed_config(name: str, seed: int, **sections: Mapping[str, Any]) -> LoadedConfig:
    """Return the config of a run: two racks of two servers, two switches each.

    In the second rack pairs are joined by NVLink across the sockets.

    Args:
        name: the policy.
        seed: of the run.
        sections: keys that are put into sections of the config.
    """
    nodes = [
        {
            "name": f"r{rack}n",
            "count": 2,
            "gpus": 4,
            "cpus": 16,
            "memory_gb": 64,
            "sockets": 2,
            "switches": 2,
            "rack": f"r{rack}",
            "type": "v100",
            **({"nvlink": [[0, 2], [1, 3]]} if rack == 2 else {}),
        }
        for rack in (1, 2)
    ]
    tree: dict[str, Any] = {
        "schema": 1,
        "seed": seed,
        "cluster": {"nodes": nodes},
        "workload": {
            "generate": {"kind": "philly-like", "jobs": 1},
            "throughputs": "builtin:gavel",
        },
        "policy": {"name": name, "round": 60, "placement": "topology"},
        "log": {"url": "none:"},
    }
    for section, keys in sections.items():
        tree[section] = {**tree.get(section, {}), **keys}
    return make_config(tree, "composed")


def played(loaded: LoadedConfig, trace: Trace) -> tuple[RunResult, list[Event]]:
    """Return a run and its events."""
    events: list[Event] = []

    def note(event: Any, view: object) -> None:
        events.append(event)

    found = simulate(loaded, trace=trace, listeners=[dict.fromkeys(KINDS.values(), note)])
    return found, events


def check_contract(job: Job, state: State) -> None:
    """Hold what a job is given to what it said of distance; all levels are described here."""
    spec, given = job.spec, job.allocation
    if not given.shares or not given.gpus:
        return
    nodes = {name: server.configuration for name, server in state.cluster.servers.items()}
    level, most = level_of(given, nodes), spec.level_max
    is_near = most is None or given.gpus == 1 or ORDER.index(level) <= ORDER.index(most)
    if spec.shapes_accepted and most not in BELOW_SERVER:
        split = sorted(share.gpus for share in given.shares)
        assert split in [sorted(shape) for shape in spec.shapes_accepted], f"{job.job_id}: {split}"
        is_near = is_near or most in IN_SERVER
    assert is_near, f"{job.job_id} is within one {level}, and accepts {most}"
