"""Sizing servers: everybody keeps his least, and takes in order what he can use of what is left.

A job that starts gets its least where it is, whoever must give some of his up for that; then what
makes it faster, of what is left and of what lower-ranked jobs there have above their least. What a
job that ended leaves goes to those on its servers, in order. So a server is looked at when a job
comes or goes, and all others stay as they are. Where programs have found sizes for this round (see
`optimum`), jobs have these.

A gang has the same for each of its GPUs, for it is as fast as its slowest part.
"""

from collections.abc import Mapping

from shunter.core.planning.plan import Reshape
from shunter.core.sizing.guarantees import with_shares
from shunter.core.sizing.mechanism import NO_RESOURCES
from shunter.core.sizing.options import ROUNDING
from shunter.core.sizing.sizing_input import Shares, SizingInput
from shunter.events.values.allocation import Allocation, Share
from shunter.events.values.fact import fact
from shunter.events.values.ids import JobId, NodeName
from shunter.events.values.reasons import Because
from shunter.events.values.resources import Resources

__all__ = ["GROWN", "SHRUNK", "Servers", "Sized", "size_servers"]

GROWN, SHRUNK = "grown", "shrunk"
"""The rules by which a job gets more than it had, or gives some of it up."""


@fact
class Sized:
    """The shares of those that start, and the changes of those that run."""

    starts: Mapping[JobId, Shares]
    reshapes: tuple[Reshape, ...] = ()


def size_servers(given: SizingInput) -> Sized:
    """Size the servers on which anything happens."""
    if not given.guarantees.sizing.grows:
        return Sized({job_id: _guaranteed(given, job_id) for job_id in given.starts})
    servers = Servers(given)
    if given.book.answer is None:
        servers.tune()
    else:
        servers.take(given.book.answer)
    return Sized(
        {job_id: servers.shares(job_id) for job_id in given.starts},
        tuple([servers.reshape(job_id) for job_id in servers.changed()]),
    )


class Servers:
    """What jobs have of servers, for each GPU, and what is left of these."""

    __slots__ = (
        "_befores",
        "_bests",
        "_book",
        "_freed",
        "_guarantees",
        "_has",
        "_jobs",
        "_left",
        "_rank",
        "_shrunk_for",
        "_starting",
        "_view",
        "starts",
        "victims",
    )

    def __init__(self, given: SizingInput) -> None:
        self._guarantees, self._book, self._view = given.guarantees, given.book, given.view
        self.starts, self.victims, self._rank = given.starts, given.victims, given.rank
        self._jobs = given.view.jobs  # what is the same all round is looked up once
        self._bests: dict[JobId, Resources | None] = {}
        self._befores: dict[JobId, Resources] = {}
        self._has: dict[JobId, Resources] = {}
        self._freed: dict[NodeName, Resources] = {}
        for victim in given.victims:
            for share in self._jobs[victim].allocation.shares:
                freed = self._freed.get(share.node, NO_RESOURCES)
                self._freed[share.node] = freed + share.beside
        self._starting: dict[NodeName, list[JobId]] = {}
        for job_id, shares in given.starts.items():
            for share in shares:
                self._starting.setdefault(share.node, []).append(job_id)
        self._left: dict[NodeName, Resources] = {}
        self._shrunk_for: dict[JobId, dict[JobId, None]] = {}

    def tune(self) -> None:
        """Give those that start what they need, and share out what is left."""
        self._let_start()
        for node in self._book.unsized:
            self._make_room_for_kept(node)
        self._raise_measured()
        for job_id in self.starts:
            self._grow_at_the_cost_of_lower(job_id)
        self._share_out()

    def take(self, sizes: Mapping[JobId, Resources]) -> None:
        """Give jobs what was found for each GPU; those that start have their least."""
        self._let_begin()
        for job_id, size in sizes.items():
            holding = self._book.holdings.get(job_id)
            stays = holding is not None and not holding.leaves and job_id not in self.victims
            if stays or job_id in self.starts:
                self.set(job_id, size)
        for job_id in self.changed():
            gave = self.before(job_id) - self.has(job_id)
            if gave.cpus_milli > 0 or gave.memory_mb > 0:
                self._shrunk_for[job_id] = self._gainers(job_id, gave)

    def _let_start(self) -> None:
        """Give those that start their least; whoever is in the way has no more than his."""
        self._let_begin()
        for job_id, shares in self.starts.items():
            for share in shares:
                self._make_room(share.node, job_id)

    def _make_room_for_kept(self, node: NodeName) -> None:
        """Take back of a server what jobs were given that another one has kept."""
        for job_id in self._book.on.get(node, {}):
            if self._jobs[job_id].is_of_one_size:
                self._make_room(node, job_id)

    def _make_room(self, node: NodeName, gainer: JobId) -> None:
        """Let jobs have no more than their least while their server has too little."""
        if not self._is_short(node):
            return
        peers = self.peers(node)
        peers.sort(key=lambda peer: (len(self.where(peer)), -self.has(peer).cpus_milli))
        for peer in peers:
            self._shrink(peer, gainer)
            if not self._is_short(node):
                break

    def _raise_measured(self) -> None:
        """Give jobs their least that are slower than that, by what was measured since."""
        sizing, jobs = self._guarantees.sizing, self._view.jobs
        if not sizing.measured:
            return
        there = dict.fromkeys(peer for node in self.looked_at() for peer in self.peers(node))
        for job_id in there:
            spec = jobs[job_id].spec
            if spec.model not in sizing.measured:
                continue
            least = self._least(job_id)
            if sizing.speed(spec, self.has(job_id)) >= sizing.speed(spec, least) - ROUNDING:
                continue
            self.set(job_id, least)
            for share in self.where(job_id):
                self._make_room(share.node, job_id)

    def _let_begin(self) -> None:
        for job_id, shares in self.starts.items():
            if self._jobs[job_id].spec.gpus:
                self.set(job_id, self._least(job_id))
            else:
                for share in shares:
                    self._left[share.node] = self.left(share.node) - share.beside

    def _grow_at_the_cost_of_lower(self, job_id: JobId) -> None:
        """Let a job that starts have what it can use, if need be of lower-ranked ones."""
        best = self._best(job_id)
        if best is None:
            return
        for share in self.starts[job_id]:
            needed = (best - self._has[job_id]).times(share.gpus)
            if needed.fit_beside(self.left(share.node)):
                continue
            lower = [
                peer for peer in self.peers(share.node) if self._rank(peer) > self._rank(job_id)
            ]
            for peer in sorted(lower, key=self._rank, reverse=True):
                self._shrink(peer, job_id)
                if needed.fit_beside(self.left(share.node)):
                    break
        self.grow(job_id)

    def _share_out(self) -> None:
        """Let all on the servers that were looked at grow, in order."""
        there = dict.fromkeys(peer for node in self.looked_at() for peer in self.peers(node))
        for job_id in sorted(there, key=self._rank):
            self.grow(job_id)

    def _is_short(self, node: NodeName) -> bool:
        """Say whether a server has too little for all, once its victims have left."""
        left = self.left(node) + self._freed.get(node, NO_RESOURCES)
        return left.cpus_milli < 0 or left.memory_mb < 0

    def left(self, node: NodeName) -> Resources:
        """Return what is left of a server, without what victims have yet to give back."""
        left = self._left.get(node)
        if left is None:
            left = self._view.cluster.servers[node].beside_free
            for holding in self._book.on.get(node, {}).values():
                if holding.leaves:
                    left -= holding.on(node)  # it is decided, but not free yet
            self._left[node] = left
        return left

    def shares(self, job_id: JobId) -> Shares:
        """Return the shares of a job."""
        shares = self.where(job_id)
        return with_shares(shares, self._has[job_id]) if job_id in self._has else shares

    def changed(self) -> list[JobId]:
        """Return the running jobs that have other shares than before."""
        return [
            job_id
            for job_id, has in self._has.items()
            if job_id not in self.starts and has != self.before(job_id)
        ]

    def reshape(self, job_id: JobId) -> Reshape:
        """Return the change of a running job, with both speeds and who gains."""
        job, sizing = self._jobs[job_id], self._guarantees.sizing
        had, has = self.before(job_id), self.has(job_id)
        before, after = sizing.speed(job.spec, had), sizing.speed(job.spec, has)
        # What it gave up may have been of no use to it.
        is_less = after < before or (after == before and not had.fit_beside(has))
        gainers = tuple(self._shrunk_for.get(job_id, ())) if is_less else ()
        because = Because(SHRUNK if is_less else GROWN, (before, after), gainers)
        return Reshape(job_id, Allocation(self.shares(job_id), job.allocation.sharing), because)

    def _shrink(self, job_id: JobId, gainer: JobId) -> None:
        """Take from a job what it has above its least, for another one."""
        has = self.has(job_id)
        least = self._least(job_id)
        if has != least:
            self.set(job_id, least)
            self._shrunk_for.setdefault(job_id, {})[gainer] = None

    def grow(self, job_id: JobId) -> None:
        """Let a job have what it can use of what is left where its GPUs are."""
        best, has, shares = self._best(job_id), self.has(job_id), self.where(job_id)
        if best is None or has == best:
            return
        spare = [(self.left(share.node), share.gpus) for share in shares]
        most = Resources(
            0,
            has.cpus_milli + min([max(0, left.cpus_milli) // gpus for left, gpus in spare]),
            has.memory_mb + min([max(0, left.memory_mb) // gpus for left, gpus in spare]),
        )
        wanted = self._guarantees.sizing.wanted(self._jobs[job_id].spec, most)
        if wanted != has and wanted.fit_beside(most):
            self.set(job_id, wanted)

    def set(self, job_id: JobId, size: Resources) -> None:
        """Give a job so much for each GPU, whether its servers have it or not."""
        more = size - (self._has.get(job_id) or self.before(job_id))
        for share in self.where(job_id):
            self._left[share.node] = self.left(share.node) - more.times(share.gpus)
        self._has[job_id] = size

    def has(self, job_id: JobId) -> Resources:
        """Return what each GPU of a job has now."""
        return self._has.get(job_id) or self.before(job_id)

    def before(self, job_id: JobId) -> Resources:
        """Return what each GPU of a job had before; nothing, if it starts."""
        if job_id in self.starts:
            return NO_RESOURCES
        before = self._befores.get(job_id)
        if before is None:
            before = self._befores[job_id] = _each_gpu(self._jobs[job_id].allocation.shares[0])
        return before

    def where(self, job_id: JobId) -> Shares:
        """Return the GPUs of a job, with whatever it had or was placed with."""
        begun = self.starts.get(job_id)
        return self._jobs[job_id].allocation.shares if begun is None else begun

    def peers(self, node: NodeName) -> list[JobId]:
        """Return the jobs that run on a server, stay, and can be of other sizes."""
        return [
            job_id
            for job_id, holding in self._book.on.get(node, {}).items()
            if not holding.leaves
            and job_id not in self.victims
            and not (holding.asks and self._jobs[job_id].is_of_one_size)
            and self._best(job_id) is not None
        ]

    def sizable(self, node: NodeName) -> list[JobId]:
        """Return the jobs on a server that can be of other sizes, those that start first."""
        starting = self._starting.get(node, ())
        return [job_id for job_id in starting if self._best(job_id) is not None] + self.peers(node)

    def looked_at(self) -> list[NodeName]:
        """Return the servers on which anything happened."""
        nodes = dict.fromkeys(self._book.unsized)
        nodes.update(dict.fromkeys(self._left))
        return [node for node in nodes if node in self._view.cluster.servers]

    def _gainers(self, job_id: JobId, gave: Resources) -> dict[JobId, None]:
        """Return who starts where a job gave something up, or has more of that now."""
        found: dict[JobId, None] = {}
        for share in self.where(job_id):
            found.update(dict.fromkeys(self._starting.get(share.node, ())))
            for peer in self.peers(share.node):
                got = self.has(peer) - self.before(peer)
                if (got.cpus_milli > 0 < gave.cpus_milli) or (got.memory_mb > 0 < gave.memory_mb):
                    found[peer] = None
        return found

    def _least(self, job_id: JobId) -> Resources:
        return self._guarantees.least(self._jobs[job_id], self.where(job_id))

    def _best(self, job_id: JobId) -> Resources | None:
        """Return what makes a job fastest; None: it is always of one size."""
        if job_id not in self._bests:
            job = self._jobs[job_id]
            best = self._guarantees.best(job, self.where(job_id)) if job.spec.gpus else None
            self._bests[job_id] = best
        return self._bests[job_id]


def _guaranteed(given: SizingInput, job_id: JobId) -> Shares:
    """Return where a job starts, with what it is guaranteed there."""
    job, shares, guarantees = given.view.jobs[job_id], given.starts[job_id], given.guarantees
    if not job.spec.gpus:
        return shares
    return with_shares(shares, guarantees.per_gpu(job, guarantees.pool_of(shares)))


def _each_gpu(share: Share) -> Resources:
    return Resources(0, share.cpus_milli // share.gpus, share.memory_mb // share.gpus)
