"""The sizes that a job could have: points of its model's matrix, and how fast it is there."""

from collections.abc import Iterable, Sequence
from itertools import pairwise, product

from shunter.core.performance.sensitivity import Sensitivity
from shunter.events.values.fact import fact
from shunter.events.values.resources import Resources

ROUNDING = 1e-9
"""By how much speeds may differ that are equal."""

_WHOLE_MILLI = 1000


@fact
class Option:
    """What each GPU of a job could have, and how fast the job would be."""

    per_gpu: Resources
    speed: float


@fact
class Options:
    """The sizes of jobs that are alike.

    Attributes:
        cells: points of the matrix, those with whole CPUs between them, and the least that is
            guaranteed; those that are as fast as that, and that none beats with as little.
        hull: options of which parts make up every size that is as fast as guaranteed: with as much
            of both resources at the most, and as fast at least.
        floor: what the jobs ask for themselves, for each GPU.
        guaranteed: the speed that is guaranteed.
    """

    cells: tuple[Option, ...]
    hull: tuple[Option, ...]
    floor: Resources
    guaranteed: float


def options_of(matrix: Sensitivity, floor: Resources, least: Resources) -> Options:
    """Return the sizes of jobs of one model.

    Args:
        matrix: how fast the model is.
        floor: what the jobs ask for themselves, for each GPU.
        least: what they have at least, for each GPU.
    """
    cpus = _axis(matrix.cpus_milli, floor.cpus_milli, least.cpus_milli)
    memory = _axis(matrix.memory_mb, floor.memory_mb, least.memory_mb)
    finer = _axis([*cpus, *range(0, cpus[-1], _WHOLE_MILLI)], floor.cpus_milli, least.cpus_milli)
    guaranteed = matrix.speed(least.cpus_milli, least.memory_mb)
    every = (_option(matrix, *amounts) for amounts in product(finer, memory))
    cells = _unbeaten([option for option in every if option.speed >= guaranteed - ROUNDING])
    return Options(cells, _hull(matrix, cpus, memory, guaranteed), floor, guaranteed)


def _axis(points: Iterable[int], floor: int, least: int) -> list[int]:
    """Return the points of an axis from a floor on, it and the least among them."""
    return sorted({floor, least, *[point for point in points if point > floor]})


def _option(matrix: Sensitivity, cpus_milli: int, memory_mb: int) -> Option:
    return Option(Resources(0, cpus_milli, memory_mb), matrix.speed(cpus_milli, memory_mb))


def _unbeaten(options: Iterable[Option]) -> tuple[Option, ...]:
    """Return the options that no other one beats, the slowest first."""
    kept: list[Option] = []
    for option in sorted(
        options, key=lambda one: (-one.speed, one.per_gpu.cpus_milli, one.per_gpu.memory_mb)
    ):
        if not any(other.per_gpu.fit_beside(option.per_gpu) for other in kept):
            kept.append(option)
    return tuple(reversed(kept))


def _hull(
    matrix: Sensitivity, cpus: Sequence[int], memory: Sequence[int], guaranteed: float
) -> tuple[Option, ...]:
    """Return options of which parts make up every size that is as fast as guaranteed.

    Between four points of the matrix a speed is made of theirs in the parts in which its size is
    made of theirs. So these are the corners wherever any size is faster than guaranteed; and where
    one of them is slower, nobody may have it, but it counts as if it were as fast.
    """
    speeds = {amounts: matrix.speed(*amounts) for amounts in product(cpus, memory)}
    corners = {amounts for amounts, speed in speeds.items() if speed >= guaranteed - ROUNDING}
    for few, many in pairwise(cpus):
        for little, much in pairwise(memory):
            if speeds[many, much] > guaranteed + ROUNDING:
                corners |= {(few, little), (few, much), (many, little), (many, much)}
    return _unbeaten(
        Option(Resources(0, *amounts), max(speeds[amounts], guaranteed))
        for amounts in sorted(corners)
    )
