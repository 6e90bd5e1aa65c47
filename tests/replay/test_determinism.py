"""The same bytes under any hash seed, in a world with all that could be walked in any order.

Beside the kept runs (test_golden_runs.py), which have one kind of server and one queue: here are
GPU types, racks, levels, CPUs, quotas, guards and dependencies.
"""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from shunter.backends.simulated import Costs, Failures
from shunter.core import Guards
from shunter.events import Dependency, Level, encode_payload
from tests.factories import (
    POLICY_NAMES,
    World,
    job_id,
    las_policy,
    node_added,
    policy,
    quota,
    run,
    trace_job,
)
from tests.replay.specimens import digest_of

ROOT = Path(__file__).resolve().parents[2]
PRINT_DIGESTS = """
from tests.replay.test_determinism import digests
print("\\n".join(digests()))
"""

NODES = tuple(
    node_added(n, gpus, gpu_type=kind, rack=rack, cpus_milli=8000)
    for n, (gpus, kind, rack) in enumerate(
        [(4, "v100", "b"), (8, "k80", "a"), (4, "p100", "c"), (4, "v100", "a"), (2, "p100", "b")]
    )
)
WISHES: tuple[dict[str, Any], ...] = (
    {},
    {"gpu_types": ["k80", "v100"]},
    {"max_level": Level.rack},
    {"cpus_milli": 3000},
    {"priority": 1},
    {"depends_on": (Dependency(job_id(0)),)},
    {"gpu_types": ["p100"], "time_limit_us": 15},
)
CROWD = tuple(
    trace_job(n, (1, 2, 4, 3, 8)[n % 5], at=n // 4 * 3, lasts=5 + n * 7 % 40, **wishes)
    for n in range(40)
    for wishes in [{"queue": "abc"[n % 3], **WISHES[n % 7]}]
)
WORLD = World(
    servers=NODES,
    jobs=CROWD,
    queues=(quota("c", 6), quota("a", 9)),
    costs=Costs(1, 2, 1, 2),
    failures=Failures({node.node: node.configuration.rack for node in NODES}, 1, 200, 20, 300),
    guards=Guards(3, 2, 60),
    until_us=600,
)


@cache
def digests() -> list[str]:
    """Return the digest of the run under each policy."""
    chosen = {name: policy(name) for name in POLICY_NAMES} | {"las": las_policy()}
    return [
        f"{name} {digest_of(encode_payload(run(WORLD, chosen[name]).events))}"
        for name in POLICY_NAMES
    ]


@pytest.mark.rotating("seed")
@pytest.mark.parametrize("seed", ["0", "1", "2"])
def test_runs_of_all_policies_do_not_depend_on_the_hash_seed(seed: str) -> None:
    printed = subprocess.run(
        [sys.executable, "-c", PRINT_DIGESTS],
        capture_output=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed},
    )
    assert printed.stdout.decode().split("\n")[:-1] == digests()


def test_every_policy_decides_otherwise_in_this_world() -> None:
    assert len({line.split()[1] for line in digests()}) == len(POLICY_NAMES)
