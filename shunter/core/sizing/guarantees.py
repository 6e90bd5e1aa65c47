"""What each job must find free where it starts, while a plan is drafted.

Only what is guaranteed counts then, to those that run as well: whoever has more gives it up for a
job that lacks its share. Where nobody asks for CPUs or memory himself, a server that has GPUs free
has the shares of these GPUs too, so numbers of GPUs are all there is to look at.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from shunter.core.planning.draft import Draft
from shunter.core.sizing.mechanism import Options, Sizing, Whole, whole_of
from shunter.core.state import Job
from shunter.core.view import View
from shunter.events.records import DERIVED, record, replace
from shunter.events.values import Demand, JobId, NodeName, Resources, Share

# Which jobs are on which servers, and which servers are to be sized anew.
#
# A server is sized anew once a job has come or left. So what a round costs follows what happened
# since the last one, and jobs on all other servers keep what they have.

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


class Guarantees:
    """The guaranteed shares of one plan.

    Where CPUs and memory `are_looked_at`, the draft holds them as if everybody had what he is
    guaranteed. `asked`: whether a job that waits asks for any itself.
    """

    __slots__ = ("_book", "_view", "are_looked_at", "sizing")

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
