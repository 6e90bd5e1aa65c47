"""The mechanisms that size jobs: what each GPU of a job is guaranteed, and what it would use.

`proportional` gives each GPU its part of its server. `greedy` asks for what makes the model
fastest, and a job that does not fit so waits (both: Mohan et al., Synergy, OSDI 2022, section 4).
`tune` runs whoever `proportional` would run, on the same GPUs: each job keeps at least what gives
it the speed of its proportional share, and in the order of the policy takes what is left where its
GPUs are, up to what makes it fastest (section 4.2). `opt` does the same but for the order: two
programs find the sizes with which all of them together are fastest (section 4.1). What a job asks
for itself is a floor.

Deviation of `tune`: the paper takes from jobs placed before when a later one lacks its share; here
everybody's share is set apart first, so nothing has to be taken back, and what is left can be
shared out in parts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise, product
from typing import Protocol

from shunter.core.cluster import Pool
from shunter.core.cluster.server import Health
from shunter.core.performance.correction import MeasuredCell, corrected
from shunter.core.performance.sensitivity import Sensitivity, SensitivityTable
from shunter.events.records import fact
from shunter.events.values import JobSpec, Resources

# The sizes that a job could have: points of its model's matrix, and how fast it is there.

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


# Programs that choose sizes: the largest sum of speeds with the CPUs and memory of some servers.
#
# One form for both of Synergy's programs (Mohan et al., OSDI 2022, section 4.1): with one server
# that has all there is, it says what no sizes can beat; with every server by itself, and the GPUs
# of each job where they are, it says which sizes to give. Who solves it is not known here.


@fact
class Choice:
    """Jobs that are alike, each of which takes one of some sizes.

    Attributes:
        options: the sizes.
        gpus: how many GPUs each of the jobs has on which server, by its place in the program.
        count: how many jobs there are.
        liked: which option is taken if nothing is lost by it; None: any.
        known: which option is known to fit, if all take theirs.
    """

    options: tuple[Option, ...]
    gpus: tuple[tuple[int, int], ...]
    count: int = 1
    liked: int | None = None
    known: int = 0


@fact
class Program:
    """Choices, and the CPUs and memory of each server that they may have together.

    `is_whole`: each job takes one option; otherwise parts of several, which no sizes can beat.
    """

    choices: tuple[Choice, ...]
    room: tuple[Resources, ...]
    is_whole: bool


@fact
class Answer:
    """What was found: an option for each choice (none, if nothing was), and a bound.

    `bound` is the sum of speeds that no answer exceeds, infinite if nobody knows; `gap` how far
    below it the one that was found may be. A program that is not whole is answered by its bound.
    """

    chosen: tuple[int, ...]
    bound: float
    gap: float = 0.0


class Solver(Protocol):
    """Whoever solves programs: the same ones again in the same way."""

    def solve(self, programs: Sequence[Program]) -> Sequence[Answer]:
        """Return the answer to each program, in order."""


class Mechanism(StrEnum):
    """How jobs are sized."""

    proportional = "proportional"
    greedy = "greedy"
    tune = "tune"
    opt = "opt"


_PROPORTIONAL, _GREEDY, _TUNE, _OPT = Mechanism  # members are slow to look up
_GROWING = (_TUNE, _OPT)


@fact
class Whole:
    """The kinds of servers of a pool, and the least share of a GPU on any of them.

    Where they `are_units`, each job has its units' CPUs, which no mechanism changes.
    """

    servers: tuple[Resources, ...]
    fair: Resources
    are_units: bool = False

    def most_each(self, gpus: int) -> Resources | None:
        """Return what each GPU finds on any server that holds the gang, if one does."""
        large = [server for server in self.servers if server.gpus >= gpus]
        if not large:
            return None
        cpus_milli = min([server.cpus_milli for server in large])
        return Resources(0, cpus_milli // gpus, min([each.memory_mb for each in large]) // gpus)

    @property
    def most(self) -> Resources:
        """What one GPU could have of any server, if no other one there were in use."""
        cpus_milli = max([server.cpus_milli for server in self.servers], default=0)
        memory_mb = max([server.memory_mb for server in self.servers], default=0)
        return Resources(0, cpus_milli, memory_mb)


@dataclass(frozen=True)
class Sizing:
    """A mechanism, and how sensitive models are; all amounts are for each GPU.

    `solver` solves the programs of `opt`; without one, or where it finds nothing, sizes are those
    of `tune`. `measured` are the models of which the table is corrected.
    """

    mechanism: Mechanism
    table: SensitivityTable | None = None
    solver: Solver | None = None
    measured: frozenset[str] = frozenset()

    def corrected(self, cells: Mapping[str, Sequence[MeasuredCell]]) -> "Sizing":
        """Return the mechanism with a table that is corrected by what jobs measured."""
        if self.table is None or not cells:
            return self
        return replace(self, table=corrected(self.table, cells), measured=frozenset(cells))

    @property
    def is_by_model(self) -> bool:
        """Whether jobs with equal demands may need different shares to start."""
        return self.mechanism is _GREEDY

    def guaranteed(self, spec: JobSpec, whole: Whole) -> Resources:
        """Return what each GPU of a job must find where it starts.

        With `greedy` a gang that is on no single server has no more than its proportional share:
        whether servers together have more, in equal parts, depends on how it is spread.
        """
        floor = floor_of(spec)
        is_by_model = self.is_by_model and not whole.are_units
        if is_by_model and (matrix := self._matrix(spec)) is not None:
            best = fastest(self.table, spec, whole)
            return most_of(floor, least_of(matrix.best, whole.fair)) if best is None else best
        return most_of(floor, whole.fair)

    def least(self, spec: JobSpec, guaranteed: Resources) -> Resources:
        """Return the least with which a job is as fast as with what it is guaranteed."""
        matrix = self._matrix(spec)
        if not self.grows or matrix is None:
            return guaranteed
        least = matrix.best_within(guaranteed.cpus_milli, guaranteed.memory_mb)
        return most_of(floor_of(spec), least)

    @property
    def grows(self) -> bool:
        """Whether jobs may have more than they are guaranteed."""
        return self.mechanism in _GROWING

    def wanted(self, spec: JobSpec, most: Resources) -> Resources:
        """Return the least of what a job could have that makes it as fast as all of it."""
        matrix = self._matrix(spec)
        if matrix is None:
            return most
        best = matrix.best_within(most.cpus_milli, most.memory_mb)
        floor = floor_of(spec)
        return best if floor is NO_RESOURCES else most_of(floor, best)

    def sought(self, spec: JobSpec, whole: Whole) -> Resources | None:
        """Return what a job looks for where it starts; None: any server will do."""
        matrix = self._matrix(spec) if self.grows and not whole.are_units else None
        if matrix is None:
            return None
        best = fastest(self.table, spec, whole)
        if best is None:  # no single server holds it, and each GPU has no more than one has
            best = most_of(floor_of(spec), least_of(matrix.best, whole.most))
        guaranteed = self.guaranteed(spec, whole)
        return None if best.fit_beside(guaranteed) else most_of(best, guaranteed)

    def options(self, spec: JobSpec, least: Resources) -> Options | None:
        """Return the sizes that a job could have; None: nobody knows its model."""
        matrix = self._matrix(spec)
        return None if matrix is None else options_of(matrix, floor_of(spec), least)

    def speed(self, spec: JobSpec, per_gpu: Resources) -> float:
        """Return the speed of a job by its shares; 1 where nobody knows its model."""
        matrix = self._matrix(spec)
        return 1.0 if matrix is None else matrix.speed(per_gpu.cpus_milli, per_gpu.memory_mb)

    def _matrix(self, spec: JobSpec) -> Sensitivity | None:
        return None if self.table is None else self.table.of(spec)


def fastest(table: SensitivityTable | None, spec: JobSpec, whole: Whole) -> Resources | None:
    """Return the least for each GPU that makes a job fastest on some server.

    None: nobody knows its model, no server holds all its GPUs, or it does not want them on one.
    """
    matrix = None if table is None else table.of(spec)
    is_split = bool(spec.shapes) and (spec.gpus,) not in spec.shapes
    most = None if is_split else whole.most_each(spec.gpus)
    if matrix is None or most is None:
        return None
    return most_of(floor_of(spec), least_of(matrix.best, most))


def whole_of(*pools: Pool) -> Whole:
    """Return what there is in some pools; units only where there are no GPUs."""
    of_gpus = [pool for pool in pools if not pool.unit_cpus_milli]
    are_units = bool(pools) and not of_gpus
    found = {
        Resources(where.gpus, where.cpus_milli, where.memory_mb): None
        for where in (
            server.configuration
            for pool in of_gpus or pools
            for server in pool.servers
            if server.health is not Health.removed
        )
        if where.gpus
    }
    if not found:
        return Whole((), Resources())
    cpus_milli = min(where.cpus_milli // where.gpus for where in found)
    memory_mb = min(where.memory_mb // where.gpus for where in found)
    return Whole(tuple(found), Resources(0, cpus_milli, memory_mb), are_units)


def floor_of(spec: JobSpec) -> Resources:
    """Return what a job asks for itself, for each GPU, rounded up."""
    if not spec.cpus_milli and not spec.memory_mb:
        return NO_RESOURCES
    gpus = max(1, spec.gpus)
    return Resources(0, -(-spec.cpus_milli // gpus), -(-spec.memory_mb // gpus))


NO_RESOURCES = Resources()


def most_of(one: Resources, other: Resources) -> Resources:
    """Return the more of both, of each resource."""
    cpus_milli = max(one.cpus_milli, other.cpus_milli)
    return Resources(0, cpus_milli, max(one.memory_mb, other.memory_mb))


def least_of(one: Resources, other: Resources) -> Resources:
    """Return the less of both, of each resource."""
    cpus_milli = min(one.cpus_milli, other.cpus_milli)
    return Resources(0, cpus_milli, min(one.memory_mb, other.memory_mb))
