"""What each job must find free where it starts, while a plan is drafted.

Only what is guaranteed counts then, to those that run as well: whoever has more gives it up for a
job that lacks its share. Where nobody asks for CPUs or memory himself, a server that has GPUs free
has the shares of these GPUs too, so numbers of GPUs are all there is to look at.
"""

from collections.abc import Sequence

from shunter.core.planning.draft import Draft
from shunter.core.sizing.book import Bounds, BoundsKey, SizeBook
from shunter.core.sizing.mechanism import Sizing, Whole, whole_of
from shunter.core.sizing.options import Options
from shunter.core.state import Job
from shunter.core.view import View
from shunter.events.values.allocation import Share
from shunter.events.values.fact import replace
from shunter.events.values.job_spec import Demand
from shunter.events.values.resources import Resources


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
