"""How long Gavel's problems take to solve, single-threaded, on generated throughputs.

    python -m benchmarks.gavel.solve [--best-of 5] [--small]

83 kinds of jobs stand for a table of throughputs; with `distinct` every job has a row of its own,
as if it had been measured. Prints a JSON document for each problem, one a line.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from shunter.policies.gavel import (
    Groups,
    Pairs,
    Shares,
    alike,
    finish_time_fairness,
    hierarchical,
    isolated_fractions,
    least_total_duration,
    max_min_fairness,
    water_filling,
)

KINDS, TYPES = 83, 3
Problem = tuple[str, float, Callable[[], Shares]]


def main() -> None:
    """Measure, and print a JSON document a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--best-of", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="a sixteenth of the jobs")
    options = parser.parse_args()
    for name, budget_s, solve in problems(16 if options.small else 1):
        print(json.dumps(measure(name, budget_s, solve, options.best_of)), flush=True)


def problems(part: int) -> Iterator[Problem]:
    """Yield names, budgets and problems."""
    for jobs, budget_s in ((2048, 0.010), (100_000, 0.050)):
        rows, gangs = table(jobs // part)
        yield f"max_min {jobs}", budget_s, partial(fair_grouped, rows, gangs)
    rows, gangs = table(2048 // part)
    yield "max_min 2048 distinct", 0.040, lambda: fair(each(rows, gangs))
    for jobs, budget_s in ((2048, 0.050), (8192, 0.080)):
        rows, gangs = table(jobs // part)
        shared = paired(grouped(rows, gangs))
        yield f"max_min {jobs} shared", budget_s, partial(fair, shared)
    few = table(1024 // part)
    for kind, groups in (("", grouped(*few)), (" distinct", each(*few))):
        yield from ((f"{name} 1024{kind}", 0.3, partial(solve, groups)) for name, solve in OTHERS)


def measure(
    name: str, budget_s: float, solve: Callable[[], Shares], runs: int
) -> dict[str, object]:
    """Solve so many times and return the best."""
    walls, found = [], []
    for _ in range(runs):
        begun = time.perf_counter()
        found.append(solve())
        walls.append(time.perf_counter() - begun)
    return {
        "benchmark": "gavel_solve",
        "policy": name,
        "status": found[0].status,
        "solves": found[0].solves,
        "wall_s": round(min(walls), 4),
        "budget_wall_s": budget_s,
    }


def table(jobs: int) -> tuple[np.ndarray, np.ndarray]:
    """Return throughputs and gangs of jobs of some kinds: fast GPUs help some more than others."""
    rng = np.random.default_rng(7)
    slow = 10 ** rng.uniform(-1, 2, (KINDS, 1))
    speedups = np.cumprod(1 + rng.uniform(0.1, 3.0, (KINDS, TYPES)), axis=1)
    gangs = np.repeat([1.0, 2.0, 4.0, 8.0], [26, 19, 19, 19])
    kinds = rng.integers(0, KINDS, jobs)
    return (slow * speedups)[kinds], gangs[kinds]


def grouped(rows: np.ndarray, gangs: np.ndarray) -> Groups:
    """Return jobs by kind, for as many GPUs of each type as a quarter of them."""
    first, _, counts = alike(np.column_stack([rows, gangs]))
    capacity = np.full(TYPES, len(rows) / 4.0)
    return Groups(rows[first], counts.astype(float), gangs[first], capacity)


def each(rows: np.ndarray, gangs: np.ndarray) -> Groups:
    """Return jobs one by one, with throughputs that differ by up to a tenth."""
    noise = np.random.default_rng(8).uniform(0.9, 1.1, rows.shape)
    capacity = np.full(TYPES, len(rows) / 4.0)
    return Groups(rows * noise, np.ones(len(rows)), gangs, capacity)


def paired(groups: Groups) -> Groups:
    """Return the groups with pairs of the same gang, of which a third fits into memory."""
    rng = np.random.default_rng(9)
    first, second = np.triu_indices(len(groups.counts))
    same = (first != second) | (groups.counts[first] > 1)
    fits = same & (groups.gangs[first] == groups.gangs[second]) & (rng.random(len(first)) < 0.35)
    first, second = first[fits], second[fits]
    slowed = rng.uniform(0.4, 0.9, (2, len(first), 1))
    slowed[1] = np.where((first == second)[:, None], slowed[0], slowed[1])
    rates = groups.rates[first] * slowed[0], groups.rates[second] * slowed[1]
    pairs = Pairs(first, second, *rates)
    return Groups(groups.rates, groups.counts, groups.gangs, groups.capacity, pairs)


def fair(groups: Groups) -> Shares:
    """Solve max-min fairness with equal weights."""
    return max_min_fairness(groups, np.ones(len(groups.counts)))


def fair_grouped(rows: np.ndarray, gangs: np.ndarray) -> Shares:
    """Group jobs, and solve max-min fairness for the groups."""
    return fair(grouped(rows, gangs))


def steps_of(groups: Groups) -> np.ndarray:
    """Return steps left: from minutes to days of work."""
    hours = 10 ** np.random.default_rng(10).uniform(-1, 2, len(groups.counts))
    steps: np.ndarray = hours * 3600 * groups.rates.max(axis=1)
    return steps


def finish(groups: Groups) -> Shares:
    """Solve finish-time fairness for jobs that have run for up to a day."""
    steps = steps_of(groups)
    alone = steps / (groups.rates * isolated_fractions(groups)).sum(axis=1)
    elapsed = np.random.default_rng(11).uniform(0, 86_400, len(steps))
    return finish_time_fairness(groups, elapsed, steps, 0.8 * elapsed + alone)


def entities(groups: Groups) -> Shares:
    """Solve hierarchical fairness of five entities."""
    count = len(groups.counts)
    return hierarchical(groups, np.arange(count) % 5, np.arange(1.0, 6.0), np.ones(count))


def queues(groups: Groups) -> Shares:
    """Solve hierarchical fairness of five entities, each first in, first out."""
    count = len(groups.counts)
    return hierarchical(groups, np.arange(count) % 5, np.arange(1.0, 6.0), None)


def filled(groups: Groups) -> Shares:
    """Solve water filling with equal weights."""
    return water_filling(groups, np.ones(len(groups.counts)))


OTHERS: tuple[tuple[str, Callable[[Groups], Shares]], ...] = (
    ("water_filling", filled),
    ("hierarchical", entities),
    ("hierarchical fifo", queues),
    ("finish_times", finish),
    ("makespan", lambda groups: least_total_duration(groups, steps_of(groups))),
)


if __name__ == "__main__":
    main()
