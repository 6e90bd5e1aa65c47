"""Which jobs are on which servers, and which servers are to be sized anew.

A server is sized anew once a job has come or left. So what a round costs follows what happened
since the last one, and jobs on all other servers keep what they have.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from shunter.core.sizing.mechanism import Sizing, Whole
from shunter.core.sizing.options import Options
from shunter.core.state import Job
from shunter.core.view import View
from shunter.events.rows import DERIVED
from shunter.events.values.allocation import Share
from shunter.events.values.fact import record
from shunter.events.values.ids import JobId, NodeName
from shunter.events.values.resources import Resources

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
