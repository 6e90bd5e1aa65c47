"""Fractions against those the public code returned (ECOS), recorded in ../shared.

Where an optimum is not unique, the centre of its face is compared: ECOS ends there within its own
tolerance when throughputs differ. With all throughputs equal it stops after a few steps, up to
0.01 off the centre, so the agnostic policy is not compared here.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shunter.policies.gavel import (
    Groups,
    Shares,
    Status,
    isolated,
    max_min_fairness,
    max_sum_throughput,
)

SHARED = Path(__file__).resolve().parents[6] / "shared"
TRACES = {"artifact": "artifact_evaluation", "medium": "medium_test"}


def solved(policy: str, groups: Groups, weights: "np.ndarray[Any, np.dtype[np.float64]]") -> Shares:
    if policy == "isolated":
        return isolated(groups)
    if policy == "max_sum_throughput_perf":
        return max_sum_throughput(groups)
    return max_min_fairness(groups, weights)


@pytest.mark.needs("../shared")
@pytest.mark.parametrize("trace", ["artifact", "medium"])
@pytest.mark.parametrize("policy", ["isolated", "max_min_fairness_perf", "max_sum_throughput_perf"])
def test_fractions_are_the_recorded_ones(policy: str, trace: str) -> None:
    recorded = SHARED / "reference" / "gavel" / "replay" / f"{trace}__{policy}.rounds.json"
    replay = json.loads(recorded.read_text())
    config = replay["config"]
    table = json.loads((SHARED / "traces" / "gavel" / config["throughputs"]).read_text())
    lines = (SHARED / "traces" / "gavel" / f"{TRACES[trace]}.trace").read_text().splitlines()
    jobs = [line.split("\t") for line in lines]
    gpus = dict(zip(("v100", "p100", "k80"), config["cluster"].split(":"), strict=True))
    types = sorted(kind for kind in gpus if int(gpus[kind]))
    capacity = np.array([float(gpus[kind]) for kind in types])

    compared = 0
    for _, allocation in replay["allocations"]:
        ids = sorted(allocation or {}, key=int)
        if not ids:
            continue
        rows = [jobs[int(job)] for job in ids]
        gangs, weights = (np.array([float(row[column]) for row in rows]) for column in (6, 7))
        keys = [str((row[0], int(row[5 + 1]))) for row in rows]
        rates = np.array([[table[kind][key]["null"] for kind in types] for key in keys])
        groups = Groups(rates, np.ones(len(ids)), gangs, capacity, idle=True)

        shares = solved(policy, groups, weights)

        expected = np.array([[allocation[job].get(kind, 0.0) for kind in types] for job in ids])
        assert shares.status in {Status.optimal, Status.stalled}
        assert np.abs(shares.fractions - expected).max() < 1e-3
        compared += 1
    assert compared
