"""How long target shares take to compute, by the number of jobs: wall time, so never the same."""

import time
from dataclasses import dataclass
from typing import Final

from shunter.core.speeds import JobKind, ThroughputTable
from shunter.events import JobId
from shunter.policies.gavel import Demands, JobRequest, MaxMinFairness

SIZES: Final = (128, 256, 512, 1024, 2048)
_RUNS: Final = 3


@dataclass(frozen=True)
class Solved:
    """The best of some solves of a problem of so many jobs."""

    label: str
    jobs: int
    wall_s: float


def solve_times(table: ThroughputTable, shared: MaxMinFairness) -> list[Solved]:
    """Return how long max-min fairness takes, alone and with space sharing.

    Jobs go round over all kinds of the table; a quarter as many GPUs are of each type, as in the
    public code's own measurement.

    Args:
        table: throughputs.
        shared: the objective with space sharing.
    """
    kinds = [kind for kind in table.kinds if all(table.rate(name, kind) for name in table.alone)]
    return [
        Solved(label, jobs, _best(objective, _wanted(table, kinds, jobs)))
        for label, objective in (("LAS, aware", MaxMinFairness()), ("LAS, aware, shared", shared))
        for jobs in SIZES
    ]


def _wanted(table: ThroughputTable, kinds: list[JobKind], jobs: int) -> Demands:
    requests = tuple(
        JobRequest(JobId(str(number)), kinds[number % len(kinds)], 1_000_000)
        for number in range(jobs)
    )
    return Demands(requests, dict.fromkeys(table.alone, jobs // 4), table)


def _best(objective: MaxMinFairness, demands: Demands) -> float:
    walls = []
    for _ in range(_RUNS):
        begun = time.perf_counter()
        objective.fractions(demands)
        walls.append(time.perf_counter() - begun)
    return min(walls)
