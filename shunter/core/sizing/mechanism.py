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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from shunter.core.cluster import Pool
from shunter.core.cluster.server import Health
from shunter.core.performance.correction import MeasuredCell, corrected
from shunter.core.performance.sensitivity import Sensitivity, SensitivityTable
from shunter.core.sizing.options import Options, options_of
from shunter.core.sizing.programs import Solver
from shunter.events.values.fact import fact
from shunter.events.values.job_spec import JobSpec
from shunter.events.values.resources import Resources


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
