"""opt: the largest sum of speeds, as if the whole cluster were one server.

Each job gets one point of the grid, all cores and memory within the cluster's, nobody slower than
at the fair share (P1 of section 5.4). With `highs` that is solved as the simulator does; with
`exact` by what is left of cores and of memory, job after job: among the best answers the one with
the least memory, then the fewest cores, then the one in which earlier jobs are faster.

The simulator's second program spreads jobs over servers in fractions, of which nothing is used: an
equal part of every job on each server is always an answer. So jobs have a speed here, and no place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from shunter.errors import ConfigError
from shunter_peers.synergy.jobs import PlayedJob, Server, profiles
from shunter_peers.synergy.orders import Totals
from shunter_peers.synergy.program import solved_cells
from shunter_peers.synergy.servers import Placed

Solver = Literal["highs", "exact"]

CPU_POINTS: Final = (1, 2, 3, 4, 5, 6, 9, 12, 24)
MEMORY_GB_POINTS: Final = (20.83, 62.5, 125.0, 187.5, 250.0)
FAIR: Final = (3.0, 62.5)
FAIR_CELL: Final = CPU_POINTS.index(3) * len(MEMORY_GB_POINTS) + MEMORY_GB_POINTS.index(62.5)
UNIT_GB: Final = 62.5
SPEED_UNITS: Final = 100
"""Of which every speed in the tables is a whole number."""


@dataclass(frozen=True, slots=True)
class Point:
    """A point of the grid: what a GPU has there, and its speed over the fair one.

    `more_cpus` and `more_units` are cores and units of memory above the model's least.
    """

    cpus: int
    memory_gb: float
    speed: float
    more_cpus: int = 0
    more_units: int = 0


def place_optimally(
    jobs: Sequence[PlayedJob], totals: Totals, server: Server, solver: Solver
) -> list[Placed]:
    """Give each of some jobs, which all have their GPUs, its point of the grid.

    Raises:
        ConfigError: servers are not those for which there are tables.
        PlanError: the solver failed.
    """
    if (server.cpus_per_gpu, server.memory_gb_per_gpu) != FAIR:
        raise ConfigError(
            "synergy_peer: mechanism 'opt' has tables for servers with 3 CPUs and 62.5 GB for each "
            f"GPU, not {server.cpus_per_gpu:g} and {server.memory_gb_per_gpu:g}"
        )
    wanted = tuple((job.model, job.gpus) for job in jobs)
    points = best_points(wanted, totals[1:], solver)
    return [
        Placed(job, point.cpus, point.memory_gb, point.speed, [])
        for job, point in zip(jobs, points, strict=True)
    ]


# Twice in a round: by the policy, and by the world it is played in.
@lru_cache(maxsize=4)
def best_points(
    wanted: tuple[tuple[str, int], ...], room: tuple[float, float], solver: Solver
) -> tuple[Point, ...]:
    """Return the point of each job.

    Args:
        wanted: model and GPUs of each, in the order in which they are tried.
        room: cores and GB of the cluster, enough for the fair share of all.
        solver: who finds them.
    Raises:
        PlanError: the solver failed.
    """
    if solver == "exact":
        return _exact(wanted, room)
    known = profiles(FAIR[0])
    speeds = [np.array(known[model].table, float).ravel() for model, _ in wanted]
    cpus = np.repeat(np.array(CPU_POINTS, float), len(MEMORY_GB_POINTS))
    memory_gb = np.tile(np.array(MEMORY_GB_POINTS), len(CPU_POINTS))
    sizes = [gpus for _, gpus in wanted]
    chosen = solved_cells(sizes, speeds, (cpus, memory_gb), FAIR_CELL, room)
    return tuple(
        Point(int(cpus[cell]), float(memory_gb[cell]), float(speed[cell]))
        for cell, speed in zip(chosen, speeds, strict=True)
    )


def _exact(wanted: Sequence[tuple[str, int]], room: tuple[float, float]) -> tuple[Point, ...]:
    """Return the best point of each job, by dividing what is beyond their least."""
    grid = _grid()
    points = [grid[model] for model, _ in wanted]
    sizes = [gpus for _, gpus in wanted]
    least = list(zip(sizes, [options[0] for options in points], strict=True))
    cpus = room[0] - sum(gpus * point.cpus for gpus, point in least)
    left_gb = room[1] - sum(gpus * point.memory_gb for gpus, point in least)
    return tuple(_chosen(sizes, points, int(cpus), int(left_gb / UNIT_GB + 1e-9)))


def _chosen(
    sizes: Sequence[int], points: Sequence[Sequence[Point]], cpus: int, units: int
) -> list[Point]:
    """Return the best point of each job, with so much beyond their least."""
    best: NDArray[np.int64] = np.zeros((cpus + 1, units + 1), np.int64)
    picks: list[NDArray[np.int8]] = []
    # A unit of speed is worth more than all memory, a unit of memory more than all cores.
    of_unit, of_speed = cpus + 1, (cpus + 1) * (units + 1)
    for gpus, options in zip(reversed(sizes), reversed(points), strict=True):
        after, best = best, np.full_like(best, np.iinfo(np.int64).min)
        pick = np.zeros(best.shape, np.int8)
        for number in reversed(range(len(options))):  # of equals, the fastest
            point = options[number]
            more, more_units = point.more_cpus * gpus, point.more_units * gpus
            if more > cpus or more_units > units:
                continue
            value = round(point.speed * SPEED_UNITS) * of_speed - more_units * of_unit - more
            there = after[: cpus + 1 - more, : units + 1 - more_units] + value
            known = best[more:, more_units:]
            is_better = there > known
            known[is_better] = there[is_better]
            pick[more:, more_units:][is_better] = number
        picks.append(pick)
    found: list[Point] = []
    for gpus, options, pick in zip(sizes, points, reversed(picks), strict=True):
        point = options[int(pick[cpus, units])]
        cpus -= point.more_cpus * gpus
        units -= point.more_units * gpus
        found.append(point)
    return found


@cache
def _grid() -> Mapping[str, tuple[Point, ...]]:
    """Return the points of each model that are not slower than fair, without waste."""
    found: dict[str, tuple[Point, ...]] = {}
    for model, profile in profiles(FAIR[0]).items():
        every = [
            Point(cpus, memory_gb, profile.table[row][column])
            for row, cpus in enumerate(CPU_POINTS)
            for column, memory_gb in enumerate(MEMORY_GB_POINTS)
            if profile.table[row][column] >= 1.0
        ]
        kept = [point for point in every if not any(_beats(other, point) for other in every)]
        least = kept[0]
        found[model] = tuple(
            Point(
                point.cpus,
                point.memory_gb,
                point.speed,
                point.cpus - least.cpus,
                round((point.memory_gb - least.memory_gb) / UNIT_GB),
            )
            for point in kept
        )
    return found


def _beats(other: Point, point: Point) -> bool:
    """Say whether another point is as fast for no more, and not the same."""
    return (
        other != point
        and other.speed >= point.speed
        and other.cpus <= point.cpus
        and other.memory_gb <= point.memory_gb
    )
