"""The mechanisms that size jobs: what each GPU of a job is guaranteed, and what it would use.

`proportional` gives each GPU its part of its server. `greedy` asks for what makes the model
fastest, and a job that does not fit so waits (both: Mohan et al., Synergy, OSDI 2022, section 4).
`tune` runs the jobs that `proportional` would run, on the same GPUs: each keeps at least what gives
it the speed of its proportional share, and in the order of the policy takes what is left, up to
what makes it fastest (section 4.2). `opt` sizes by two programs, which find the sizes with which
all jobs together are fastest (section 4.1). What a job asks for itself is a floor.

Deviation of `tune`: the paper takes from jobs placed before when a later one lacks its share; here
everybody's share is set apart first, so nothing has to be taken back.

First the sizes that a job could have, and programs that choose among them; then `Sizing`, what is
configured; then what a job demands of the whole cluster; last what each job is guaranteed.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise, product
from typing import NamedTuple, Protocol

from shunter.core.cluster import Cluster, Health, Pool
from shunter.core.planning import Draft
from shunter.core.speeds import MeasuredCell, Sensitivity, SensitivityTable, corrected
from shunter.core.state import Job
from shunter.core.view import View
from shunter.events import (
    DERIVED,
    Demand,
    GpuType,
    JobId,
    JobSpec,
    NodeName,
    Resources,
    Share,
    fact,
    record,
    replace,
)

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


# With one server that has all there is, a program says what no sizes can beat; with every server by
# itself, which sizes to give (Mohan et al., Synergy, OSDI 2022, section 4.1).


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
        return dataclasses.replace(
            self, table=corrected(self.table, cells), measured=frozenset(cells)
        )

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


# What a job does not ask for counts as the least with which its model is fastest (the best-case
# demand of Mohan et al., Synergy, OSDI 2022, section 4), else as the part that it asks of the GPUs.
# All servers count, up or not, so that draining one does not change the order.

WHOLE = 1 << 40
"""The unit in which parts are counted: so much is all that the cluster has."""


@dataclass(slots=True)
class _Totals:
    """What a cluster has, until a server joins or leaves."""

    cluster: Cluster | None = None
    version: int = 0
    all: Resources = NO_RESOURCES
    wholes: dict[tuple[GpuType, ...], Whole] = field(default_factory=dict)

    def look_at(self, cluster: Cluster) -> None:
        """Add up the servers again if they are others than before."""
        if self.cluster is cluster and self.version == cluster.version:
            return
        self.cluster, self.version, self.all = cluster, cluster.version, NO_RESOURCES
        self.wholes.clear()
        for server in cluster.servers.values():
            if server.health is not Health.removed:
                where = server.configuration
                self.all += Resources(where.gpus, where.cpus_milli, where.memory_mb)


@dataclass(frozen=True)
class Demands:
    """The demands of jobs; `table` says how sensitive models are, if anybody knows."""

    table: SensitivityTable | None = None
    _totals: _Totals = field(default_factory=_Totals, init=False, repr=False, compare=False)

    def parts(self, job: Job, view: View) -> tuple[int, int, int]:
        """Return the parts of all GPUs, CPUs and memory that a job demands.

        All are in parts of `WHOLE`. Of what no server names, the demand is that of GPUs.
        """
        totals, spec = self._totals, job.spec
        totals.look_at(view.cluster)
        there = totals.all
        gpus = spec.gpus * WHOLE // there.gpus if there.gpus else 0
        best = NO_RESOURCES
        if self.table is not None and spec.gpus and not (spec.cpus_milli and spec.memory_mb):
            best = fastest(self.table, spec, self._whole(spec, view)) or best
        cpus_milli = spec.cpus_milli or best.cpus_milli * spec.gpus
        memory_mb = spec.memory_mb or best.memory_mb * spec.gpus
        return (
            gpus,
            _part(cpus_milli, there.cpus_milli, gpus),
            _part(memory_mb, there.memory_mb, gpus),
        )

    def _whole(self, spec: JobSpec, view: View) -> Whole:
        """Return what the servers have on which a job may be."""
        wholes, types = self._totals.wholes, spec.gpu_types
        if types not in wholes:
            pools = view.pools
            wholes[types] = whole_of(*[pools[name] for name in types or pools if name in pools])
        return wholes[types]


def _part(amount: int, there: int, of_gpus: int) -> int:
    """Return what part an amount is; the part of the GPUs if either is 0."""
    return amount * WHOLE // there if amount and there else of_gpus


# A server is sized again only once a job has come or left, so a round costs what has happened.

BoundsKey = tuple[str, str, int, int, int]


class Bounds(NamedTuple):
    """What there is to know of jobs that are alike in one pool, for each GPU.

    Attributes:
        least: that with which they are as fast as with what they are guaranteed.
        best: what makes them fastest; None: they are always of one size.
        sought: what they look for where they start; None: any server will do.
    """

    least: Resources
    best: Resources | None
    sought: Resources | None = None


@record
class Holding:
    """What one job has; one that `leaves` has yet to give it back.

    It `asks` if its owner said how much, if it has no GPUs, or if it cannot have other shares.
    """

    shares: tuple[Share, ...]
    leaves: bool
    asks: bool

    def on(self, node: NodeName) -> Resources:
        """Return the CPUs and memory that it has of a server it is on."""
        return next(share for share in self.shares if share.node == node).beside


@dataclass(slots=True)
class SizeBook:
    """The holdings of all jobs that have any, and the servers to be sized anew.

    Where jobs `start_small`, with their least, their servers are to be sized anew once they have.
    `leaving` is what jobs that are moved have yet to give back where they were.
    `wholes` and `bounds` are what was found out of pools and kinds of jobs at one `version` of the
    cluster: pools by name, and by pool, model and demand the least and the most for each GPU, and
    all sizes. `answer` are the sizes that programs found for the round that comes next, for each
    GPU; None: none were. `sizing` goes by the table as it is corrected; None: to be made.
    """

    start_small: bool = False
    holdings: dict[JobId, Holding] = field(default_factory=dict)
    unsized: dict[NodeName, None] = field(default_factory=dict)
    leaving: dict[JobId, tuple[Share, ...]] = field(default_factory=dict)
    on: dict[NodeName, dict[JobId, Holding]] = field(default_factory=dict, metadata=DERIVED)
    asking: dict[JobId, None] = field(default_factory=dict, metadata=DERIVED)
    wholes: dict[str, Whole] = field(default_factory=dict, metadata=DERIVED)
    bounds: dict[BoundsKey, Bounds] = field(default_factory=dict, metadata=DERIVED)
    options: dict[BoundsKey, Options] = field(default_factory=dict, metadata=DERIVED)
    answer: dict[JobId, Resources] | None = field(default=None, metadata=DERIVED)
    version: int = field(default=-1, metadata=DERIVED)
    sizing: Sizing | None = field(default=None, metadata=DERIVED)

    def correct(self, model: str, view: View) -> None:
        """Size the servers anew on which jobs of a model are whose table was corrected."""
        self.sizing = None
        self.bounds.clear()
        self.options.clear()
        for job_id, holding in self.holdings.items():
            if view.jobs[job_id].spec.model == model:
                self.unsized.update(dict.fromkeys([share.node for share in holding.shares]))

    def look_at(self, cluster_version: int) -> None:
        """Forget what was found out of servers if others have joined or left."""
        if self.version != cluster_version:
            self.wholes.clear()
            self.bounds.clear()
            self.options.clear()
            self.version = cluster_version

    def restored(self) -> None:
        """Index the holdings by server."""
        for job_id, holding in self.holdings.items():
            self._index(job_id, holding)

    @classmethod
    def of(cls, view: View, *, start_small: bool = False) -> "SizeBook":
        """Return the book of a cluster as it is, all of it to be sized anew."""
        book = cls(start_small)
        for job in view.jobs.values():
            book.sync(job)
        book.unsized.update(dict.fromkeys(book.on))
        return book

    def sync(self, job: Job) -> None:
        """Note what a job has now, whatever it was."""
        shares, leaves = job.allocation.shares, False
        held = job.held.shares if job.since_us is not None else ()
        if not shares:
            shares, leaves = held, bool(held)
        if held is not shares or self.leaving:
            self._note_move(job.job_id, shares, held)
        before = self.holdings.get(job.job_id)
        if not shares:
            self._unhold(job.job_id)
            return
        is_same = before is not None and before.shares is shares and before.leaves is leaves
        if is_same and not job.keeps_shares:
            return  # nothing that counts here has changed
        asks = bool(job.spec.cpus_milli or job.spec.memory_mb or not job.spec.gpus)
        if job.keeps_shares:
            asks = asks or job.is_of_one_size
        if before is not None and before.leaves is leaves and before.asks is asks:
            if before.shares == shares:
                return
            if _gpus(before.shares) == _gpus(shares):
                before.shares = shares  # its servers were sized for it
                return
        self._unhold(job.job_id)
        holding = self.holdings[job.job_id] = Holding(shares, leaves, asks)
        self._index(job.job_id, holding)
        is_sized = any(share.cpus_milli or share.memory_mb for share in shares)
        if before is not None or leaves or not is_sized or self.start_small:
            self.unsized.update(dict.fromkeys([share.node for share in shares]))

    def yet_to_leave(self, node: NodeName) -> Iterator[Resources]:
        """Yield what of a server is given back, but not free yet."""
        for holding in self.on.get(node, {}).values():
            if holding.leaves:
                yield holding.on(node)
        for shares in self.leaving.values():
            for share in shares:
                if share.node == node:
                    yield share.beside

    def _note_move(self, job_id: JobId, shares: tuple[Share, ...], held: tuple[Share, ...]) -> None:
        """Note what a job has yet to leave.

        It was given other GPUs than it holds, or has left these now.
        """
        moves = bool(held) and _gpus(held) != _gpus(shares)
        left = self.leaving.pop(job_id, ())
        if moves:
            self.leaving[job_id] = held
        else:
            self.unsized.update(dict.fromkeys([share.node for share in left]))

    def drop(self, job_id: JobId) -> None:
        """Forget a job; its servers are to be sized anew."""
        self._note_move(job_id, (), ())
        self._unhold(job_id)

    def _unhold(self, job_id: JobId) -> None:
        holding = self.holdings.pop(job_id, None)
        if holding is None:
            return
        self.asking.pop(job_id, None)
        for share in holding.shares:
            self.unsized[share.node] = None
            there = self.on[share.node]
            del there[job_id]
            if not there:
                del self.on[share.node]

    def _index(self, job_id: JobId, holding: Holding) -> None:
        if holding.asks:
            self.asking[job_id] = None
        for share in holding.shares:
            self.on.setdefault(share.node, {})[job_id] = holding


def _gpus(shares: tuple[Share, ...]) -> list[tuple[NodeName, int]]:
    return [(share.node, share.gpu_mask) for share in shares]


# Jobs that run count with what they are guaranteed, for they give up the rest. Where nobody asks
# for CPUs or memory, free GPUs have their shares free too, so numbers of GPUs are all that counts.


class Guarantees:
    """The guaranteed shares of one plan.

    Where CPUs and memory `are_looked_at`, the draft holds them as if everybody had what he is
    guaranteed. `asked`: whether a job that waits asks for any itself.
    """

    def __init__(
        self, sizing: Sizing, book: SizeBook, view: View, draft: Draft, *, asked: bool
    ) -> None:
        self.sizing = sizing
        self._book = book
        self._view = view
        book.look_at(view.cluster.version)
        self.are_looked_at = asked or bool(book.asking) or sizing.is_by_model
        self.settle(draft)

    def settle(self, draft: Draft) -> None:
        """Let all who run count in a draft with what they are guaranteed."""
        if self.are_looked_at:
            for job_id, holding in self._book.holdings.items():
                if not holding.leaves:
                    job = self._view.jobs[job_id]
                    draft.count(job, self.shares(job))

    def demand(self, demand: Demand, job: Job, pool: str) -> Demand:
        """Return what a job needs to start in a pool."""
        if not demand.gpus or not self.are_looked_at:
            return demand
        per_gpu = self.per_gpu(job, pool)
        return replace(
            demand,
            cpus_milli=per_gpu.cpus_milli * demand.gpus,
            memory_mb=per_gpu.memory_mb * demand.gpus,
        )

    def shares(self, job: Job) -> Sequence[Share]:
        """Return what a running job is guaranteed, on the servers where it is.

        It is what the job has, where that goes by a model of which the table was corrected since,
        or where it keeps that.
        """
        shares = job.allocation.shares
        if not self.are_looked_at or not job.allocation.gpus or counts_as_it_is(self.sizing, job):
            return shares
        return with_shares(shares, self.per_gpu(job, self.pool_of(shares)))

    def beside(self, job: Job, shares: tuple[Share, ...]) -> tuple[Share, ...]:
        """Return where a job starts, with what it is guaranteed there."""
        if not job.spec.gpus:
            return shares
        return with_shares(shares, self.per_gpu(job, self.pool_of(shares)))

    def per_gpu(self, job: Job, pool: str) -> Resources:
        """Return what each GPU of a job is guaranteed in a pool."""
        return self.sizing.guaranteed(job.spec, self.whole(pool))

    def bounds(self, job: Job, pool: str) -> Bounds:
        """Return what a job keeps, could use and looks for in a pool."""
        key = self.key(job, pool)
        found = self._book.bounds.get(key)
        if found is None:
            units = self.whole(pool).are_units
            bounds = Bounds(self.per_gpu(job, pool), None) if units else self._bounds_in(pool, job)
            found = self._book.bounds[key] = bounds
        return found

    @staticmethod
    def key(job: Job, pool: str) -> BoundsKey:
        """Return what jobs have in common that could have the same sizes."""
        spec = job.spec
        return pool, spec.model, spec.gpus, spec.cpus_milli, spec.memory_mb

    def options(self, job: Job, pool: str) -> Options | None:
        """Return the sizes that a job could have; None: nobody knows its model."""
        key = self.key(job, pool)
        found = self._book.options.get(key)
        if found is None and not self.whole(pool).are_units:
            found = self.sizing.options(job.spec, self.bounds(job, pool).least)
            if found is not None:
                self._book.options[key] = found
        return found

    def _bounds_in(self, pool: str, job: Job) -> Bounds:
        """Return the bounds of a job in a pool of GPUs."""
        spec, sizing = job.spec, self.sizing
        least = sizing.least(spec, self.per_gpu(job, pool))
        best = sought = sizing.sought(spec, self.whole(pool))
        if best is not None and best.fit_beside(least):
            best = None
        if best is None and sizing.grows and spec.model in sizing.measured:
            best = least  # it may have more than that, by the table before
        return Bounds(least, best, sought)

    def pool_of(self, shares: Sequence[Share]) -> str:
        """Return the pool in which some shares are."""
        return self._view.cluster.servers[shares[0].node].configuration.gpu_type

    def whole(self, pool: str) -> Whole:
        """Return what a server of a pool has at least."""
        whole = self._book.wholes.get(pool)
        if whole is None:
            whole = self._book.wholes[pool] = whole_of(self._view.pools[pool])
        return whole


def counts_as_it_is(sizing: Sizing, job: Job) -> bool:
    """Say whether a running job counts with what it has, where others are to start.

    All others count with what they are guaranteed.
    """
    if sizing.is_by_model and job.spec.model in sizing.measured:
        return True
    return job.is_of_one_size


def with_shares(shares: Sequence[Share], per_gpu: Resources) -> tuple[Share, ...]:
    """Return the same GPUs, each with so many CPUs and so much memory."""
    cpus_milli, memory_mb = per_gpu.cpus_milli, per_gpu.memory_mb
    return tuple(
        [
            Share(share.node, share.gpu_mask, cpus_milli * share.gpus, memory_mb * share.gpus)
            for share in shares
        ]
    )
