"""A plan with the sizes of all that it starts, moves, proposes and lets go on."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from shunter.core.plan import EMPTY_PLAN, Change, Move, Plan, Proposal, Reshape, Start, Suspend
from shunter.core.planning import Draft, Placement
from shunter.core.recorded_words import GROWN, SHRUNK
from shunter.core.sizing.mechanism import (
    NO_RESOURCES,
    ROUNDING,
    Bounds,
    Guarantees,
    SizeBook,
    with_shares,
)
from shunter.core.state import Job
from shunter.core.view import View
from shunter.events import (
    Allocation,
    Because,
    Demand,
    JobId,
    JobSpec,
    NodeName,
    Resources,
    Share,
    replace,
)

Shares = tuple[Share, ...]
Rank = Callable[[JobId], int]


class SizingInput(NamedTuple):
    """One round, with its starts placed and nobody sized.

    Attributes:
        guarantees: what each job must have.
        book: who is on which server.
        view: the cluster.
        starts: where jobs start, in order; they may be on GPUs that victims have yet to leave. Who
            is moved leaves and starts.
        victims: the jobs that leave; what they hold is still theirs for a while.
        rank: the place of a job in the order of the policy; lower is first.
        proposals: who may start on one of several places, and where that is nobody knows yet.
    """

    guarantees: Guarantees
    book: SizeBook
    view: View
    starts: Mapping[JobId, Shares]
    victims: Mapping[JobId, None]
    rank: Rank
    proposals: tuple[Proposal, ...] = ()

    @classmethod
    def of(
        cls, plan: Plan, guarantees: Guarantees, book: SizeBook, view: View, rank: Rank
    ) -> "SizingInput":
        """Return the round that a plan without sizes makes."""
        starts = {
            change.job_id: change.allocation.shares
            for change in plan.changes
            if type(change) is Start or type(change) is Move
        }
        leave = [change.job_id for change in plan.changes if type(change) in _LEAVING]
        return cls(guarantees, book, view, starts, dict.fromkeys(leave), rank, plan.proposals)


_LEAVING = (Suspend, Move)


# Better places for those that start. Who starts is settled before: each gives its GPUs back in
# order and takes a better place, or else the very ones it had; so nobody loses a place.


def seek(
    guarantees: Guarantees,
    draft: Draft,
    placement: Placement,
    starts: Iterable[tuple[Job, Demand, str]],
    placed: Mapping[JobId, tuple[Share, ...]],
) -> dict[JobId, tuple[Share, ...]]:
    """Return where jobs start.

    Args:
        guarantees: what they are guaranteed, and could use.
        draft: what is free, without what they were placed on.
        placement: which servers are preferred.
        starts: jobs, what their classes demand, and their pools, in order.
        placed: where they were placed.
    """
    found = dict(placed)
    for job, demand, pool in starts:
        if not demand.gpus:
            continue
        best = guarantees.bounds(job, pool).sought
        if best is None:
            continue
        before = placed[job.job_id]
        for share in before:
            draft.give(share)
        mark = draft.mark
        wanted = replace(
            demand, cpus_milli=best.cpus_milli * demand.gpus, memory_mb=best.memory_mb * demand.gpus
        )
        better = draft.place(placement, pool, wanted)
        if isinstance(better, tuple) and len(better) <= len(before):
            found[job.job_id] = better
        else:
            draft.rollback(mark)
            for share in with_shares(before, guarantees.per_gpu(job, pool)):
                draft.take(share)
    return found


# A round looks at a job many times: what it is guaranteed, could use and has is found once.


class ServerRoom:
    """What is left of a server, without what victims have yet to give back."""

    __slots__ = ("cpus_milli", "memory_mb")

    def __init__(self, left: Resources) -> None:
        self.cpus_milli, self.memory_mb = left.cpus_milli, left.memory_mb

    def has(self, resources: Resources) -> bool:
        """Say whether so much is left."""
        return resources.cpus_milli <= self.cpus_milli and resources.memory_mb <= self.memory_mb

    def take(self, resources: Resources) -> None:
        """Take so much of it; it may be short of that."""
        self.cpus_milli -= resources.cpus_milli
        self.memory_mb -= resources.memory_mb


@dataclass(slots=True, eq=False)
class SizedJob:
    """A job where it runs or starts, all resources for each of its GPUs.

    Attributes:
        shares: its GPUs, with whatever it had or was placed with.
        least: what it keeps whatever happens.
        best: what makes it fastest; None: it is always of one size.
        before: what it had; nothing, if it starts.
        has: what it has now.
        rank: its place in the order of the policy; lower is first.
    """

    job_id: JobId
    spec: JobSpec
    shares: Shares
    least: Resources
    best: Resources | None
    before: Resources
    has: Resources
    rank: int


# A job that starts gets its least, from others if need be; then all take more, in order, of what is
# left and of what lower-ranked jobs there have above their least. A gang has the same for each of
# its GPUs, for it is as fast as its slowest part.

"""The rules by which a job gets more than it had, or gives some of it up."""


class Servers:
    """What jobs have of servers, for each GPU, and what is left of these."""

    def __init__(self, given: SizingInput) -> None:
        self._guarantees, self._book, self._view = given.guarantees, given.book, given.view
        self.starts, self.victims, self._rank = given.starts, given.victims, given.rank
        self._jobs = given.view.jobs
        self._known: dict[JobId, SizedJob] = {}
        self._resized: dict[JobId, SizedJob] = {}
        self._rooms: dict[NodeName, ServerRoom] = {}
        self._peers: dict[NodeName, list[SizedJob]] = {}
        self._freed: dict[NodeName, Resources] = {}
        for victim in given.victims:
            for share in self._jobs[victim].allocation.shares:
                freed = self._freed.get(share.node, NO_RESOURCES)
                self._freed[share.node] = freed + share.beside
        self._starting: dict[NodeName, list[JobId]] = {}
        for job_id, shares in given.starts.items():
            for share in shares:
                self._starting.setdefault(share.node, []).append(job_id)
        self._proposed = {
            share.node
            for proposal in given.proposals
            for target in proposal.candidates
            for share in target.shares
        }
        self._shrunk_for: dict[JobId, dict[JobId, None]] = {}

    def tune(self) -> None:
        """Give those that start what they need, and share out what is left."""
        self._let_start()
        for node in self._book.unsized:
            self._make_room_for_kept(node)
        self._raise_measured()
        for job_id in self.starts:
            if not self._starts_small(job_id):
                self._grow_at_the_cost_of_lower(self.sized(job_id))
        for sized in sorted(self._there(), key=_rank_of):
            self.grow(sized)

    def take(self, sizes: Mapping[JobId, Resources]) -> None:
        """Give jobs what was found for each GPU; those that start have their least."""
        self._let_begin()
        for job_id, size in sizes.items():
            holding = self._book.holdings.get(job_id)
            stays = holding is not None and not holding.leaves and job_id not in self.victims
            if stays or (job_id in self.starts and not self._starts_small(job_id)):
                self.set(self.sized(job_id), size)
        for sized in self._changed():
            gave = sized.before - sized.has
            if gave.cpus_milli > 0 or gave.memory_mb > 0:
                self._shrunk_for[sized.job_id] = self._gainers(sized, gave)

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
        for peer in self.as_they_give(node):
            self._shrink(peer, gainer)
            if not self._is_short(node):
                break

    def as_they_give(self, node: NodeName) -> list[SizedJob]:
        """Return the jobs of a server in the order in which they give something up.

        That is what is above their least. Those of one server come first, and of them who has most.
        """
        return sorted(self.peers(node), key=lambda peer: (len(peer.shares), -peer.has.cpus_milli))

    def _raise_measured(self) -> None:
        """Give jobs their least that are slower than that, by what was measured since."""
        sizing = self._guarantees.sizing
        if not sizing.measured:
            return
        for sized in self._there():
            spec, least = sized.spec, sized.least
            if spec.model not in sizing.measured:
                continue
            if sizing.speed(spec, sized.has) >= sizing.speed(spec, least) - ROUNDING:
                continue
            self.set(sized, least)
            for share in sized.shares:
                self._make_room(share.node, sized.job_id)

    def _let_begin(self) -> None:
        for job_id, shares in self.starts.items():
            sized = self.sized(job_id)
            if sized.spec.gpus:
                self.set(sized, sized.least)
            else:
                for share in shares:
                    self.room(share.node).take(share.beside)

    def _starts_small(self, job_id: JobId) -> bool:
        """Say whether a job starts where another one is proposed.

        What it had above its least it could not give up in the round in which it starts.
        """
        return any(share.node in self._proposed for share in self.starts[job_id])

    def _grow_at_the_cost_of_lower(self, sized: SizedJob) -> None:
        """Let a job that starts have what it can use, if need be of lower-ranked ones."""
        best = sized.best
        if best is None:
            return
        for share in sized.shares:
            needed, room = (best - sized.has).times(share.gpus), self.room(share.node)
            if room.has(needed):
                continue
            lower = [peer for peer in self.peers(share.node) if peer.rank > sized.rank]
            lower.sort(key=_rank_of, reverse=True)
            for peer in lower:
                self._shrink(peer, sized.job_id)
                if room.has(needed):
                    break
        self.grow(sized)

    def _is_short(self, node: NodeName) -> bool:
        """Say whether a server has too little for all, once its victims have left."""
        room = self.room(node)
        if room.cpus_milli >= 0 and room.memory_mb >= 0:
            return False
        freed = self._freed.get(node, NO_RESOURCES)
        return room.cpus_milli + freed.cpus_milli < 0 or room.memory_mb + freed.memory_mb < 0

    def room(self, node: NodeName) -> ServerRoom:
        """Return what is left of a server, without what victims have yet to give back."""
        room = self._rooms.get(node)
        if room is None:
            room = self._rooms[node] = ServerRoom(self._view.cluster.servers[node].beside_free)
            for beside in self._book.yet_to_leave(node):
                room.take(beside)
        return room

    def sized(self, job_id: JobId) -> SizedJob:
        """Return what a job has, which runs or starts."""
        sized = self._known.get(job_id)
        if sized is None:
            job, shares, before = self._jobs[job_id], self.starts.get(job_id), NO_RESOURCES
            if shares is None:
                shares = job.allocation.shares
                before = _each_gpu(shares[0])
            bounds, guarantees = _OF_ONE_SIZE, self._guarantees
            if job.spec.gpus:
                bounds = guarantees.bounds(job, guarantees.pool_of(shares))
            least, best, rank = bounds.least, bounds.best, self._rank(job_id)
            sized = SizedJob(job_id, job.spec, shares, least, best, before, before, rank)
            self._known[job_id] = sized
        return sized

    def shares(self, job_id: JobId) -> Shares:
        """Return the shares of a job."""
        sized = self.sized(job_id)
        return with_shares(sized.shares, sized.has) if job_id in self._resized else sized.shares

    def changed(self) -> list[JobId]:
        """Return the running jobs that have other shares than before."""
        return [sized.job_id for sized in self._changed()]

    def _changed(self) -> list[SizedJob]:
        starts = self.starts
        return [
            sized
            for job_id, sized in self._resized.items()
            if job_id not in starts and sized.has != sized.before
        ]

    def reshape(self, job_id: JobId) -> Reshape:
        """Return the change of a running job, with both speeds and who gains."""
        job, sizing, sized = self._jobs[job_id], self._guarantees.sizing, self.sized(job_id)
        had, has = sized.before, sized.has
        before, after = sizing.speed(job.spec, had), sizing.speed(job.spec, has)
        # What it gave up may have been of no use to it.
        is_less = after < before or (after == before and not had.fit_beside(has))
        gainers = tuple(self._shrunk_for.get(job_id, ())) if is_less else ()
        because = Because(SHRUNK if is_less else GROWN, (before, after), gainers)
        return Reshape(job_id, Allocation(self.shares(job_id), job.allocation.sharing), because)

    def _shrink(self, sized: SizedJob, gainer: JobId) -> None:
        """Take from a job what it has above its least, for another one."""
        if sized.has != sized.least:
            self.set(sized, sized.least)
            self._shrunk_for.setdefault(sized.job_id, {})[gainer] = None

    def grow(self, sized: SizedJob) -> None:
        """Let a job have what it can use of what is left where its GPUs are."""
        best, has = sized.best, sized.has
        if best is None or has == best:
            return
        most = self._most(sized)
        wanted = self._guarantees.sizing.wanted(sized.spec, most)
        if wanted != has and wanted.fit_beside(most):
            self.set(sized, wanted)

    def _most(self, sized: SizedJob) -> Resources:
        """Return what a job would have with all that is left where its GPUs are."""
        has, more = sized.has, None
        for share in sized.shares:
            room, gpus = self.room(share.node), share.gpus
            cpus_milli, memory_mb = room.cpus_milli // gpus, room.memory_mb // gpus
            if more is not None:
                cpus_milli, memory_mb = min(cpus_milli, more[0]), min(memory_mb, more[1])
            if cpus_milli <= 0 and memory_mb <= 0:
                return has  # so its other servers need not be looked at
            more = cpus_milli, memory_mb
        assert more is not None, "only jobs with GPUs grow"
        return has + Resources(0, max(0, more[0]), max(0, more[1]))

    def set(self, sized: SizedJob, size: Resources) -> None:
        """Give a job so much for each GPU, whether its servers have it or not."""
        has = sized.has
        cpus_milli = size.cpus_milli - has.cpus_milli
        memory_mb = size.memory_mb - has.memory_mb
        for share in sized.shares:
            room, gpus = self.room(share.node), share.gpus
            room.cpus_milli -= cpus_milli * gpus
            room.memory_mb -= memory_mb * gpus
        sized.has = size
        self._resized[sized.job_id] = sized

    def peers(self, node: NodeName) -> list[SizedJob]:
        """Return the jobs that run on a server, stay, and can be of other sizes."""
        peers = self._peers.get(node)
        if peers is None:
            victims, jobs = self.victims, self._jobs
            staying = [
                self.sized(job_id)
                for job_id, holding in self._book.on.get(node, {}).items()
                if not holding.leaves
                and job_id not in victims
                and not (holding.asks and jobs[job_id].is_of_one_size)
            ]
            peers = self._peers[node] = [sized for sized in staying if sized.best is not None]
        return peers

    def sizable(self, node: NodeName) -> list[SizedJob]:
        """Return the jobs on a server that can be of other sizes, those that start first."""
        starting = [self.sized(job_id) for job_id in self._starting.get(node, ())]
        return [sized for sized in starting if sized.best is not None] + self.peers(node)

    def looked_at(self) -> list[NodeName]:
        """Return the servers on which anything happened."""
        nodes = dict.fromkeys(self._book.unsized)
        nodes.update(dict.fromkeys(self._rooms))
        return [node for node in nodes if node in self._view.cluster.servers]

    def _there(self) -> dict[SizedJob, None]:
        """Return who runs on the servers on which anything happened."""
        there: dict[SizedJob, None] = {}
        for node in self.looked_at():
            there.update(dict.fromkeys(self.peers(node)))
        return there

    def _gainers(self, sized: SizedJob, gave: Resources) -> dict[JobId, None]:
        """Return who starts where a job gave something up, or has more of that now."""
        found: dict[JobId, None] = {}
        for share in sized.shares:
            found.update(dict.fromkeys(self._starting.get(share.node, ())))
            for peer in self.peers(share.node):
                got = peer.has - peer.before
                if (got.cpus_milli > 0 < gave.cpus_milli) or (got.memory_mb > 0 < gave.memory_mb):
                    found[peer.job_id] = None
        return found


_OF_ONE_SIZE = Bounds(NO_RESOURCES, None)
_rank_of = attrgetter("rank")


def _each_gpu(share: Share) -> Resources:
    gpus = share.gpus
    return Resources(0, share.cpus_milli // gpus, share.memory_mb // gpus) if gpus else NO_RESOURCES


def sized_plan(plan: Plan, given: SizingInput, *, is_drafted: bool) -> Plan:
    """Return a plan in which jobs get their sizes, also some of those that run.

    Suspensions come first, then what jobs give up and get, and then all that needs it.

    Args:
        plan: what the policy wants; jobs have what they are guaranteed.
        given: the round that it makes.
        is_drafted: whether changed sizes alone need no approval.
    """
    sizes = _Sizes(given)
    reshapes = sizes.reshapes()
    if not (plan.changes or plan.proposals or reshapes):
        return plan
    if plan is EMPTY_PLAN:
        return Plan(reshapes, is_drafted=is_drafted)
    leave: list[Change] = []
    come: list[Change] = []
    for change in plan.changes:
        if type(change) is Suspend:
            leave.append(change)
        elif type(change) is Start or type(change) is Move:
            come.append(replace(change, allocation=Allocation(sizes.of_start(change))))
        else:
            come.append(change)
    proposals = tuple([sizes.proposed(proposal) for proposal in plan.proposals])
    return replace(plan, changes=(*leave, *reshapes, *come), proposals=proposals)


class _Sizes:
    """The sizes of one round: what is guaranteed, and where jobs grow, more."""

    def __init__(self, given: SizingInput) -> None:
        self._guarantees, self._jobs = given.guarantees, given.view.jobs
        self._servers: Servers | None = None
        if given.guarantees.sizing.grows:
            self._servers = servers = Servers(given)
            if given.book.answer is None:
                servers.tune()
            else:
                servers.take(given.book.answer)

    def reshapes(self) -> tuple[Reshape, ...]:
        """Return the changes of those that run."""
        servers = self._servers
        if servers is None:
            return ()
        return tuple([servers.reshape(job_id) for job_id in servers.changed()])

    def of_start(self, change: Start | Move) -> Shares:
        """Return what a job has where it starts."""
        if self._servers is not None:
            return self._servers.shares(change.job_id)
        return self._guarantees.beside(self._jobs[change.job_id], change.allocation.shares)

    def proposed(self, proposal: Proposal) -> Proposal:
        """Return a proposal for the least of its job, with what others would give up.

        It comes on top of all changes of the plan: what is granted, nobody knows yet.
        """
        job, servers = self._jobs[proposal.job_id], self._servers
        targets = [
            replace(target, shares=self._least(job, target.shares))
            for target in proposal.candidates
        ]
        proposal = replace(proposal, candidates=tuple(targets))
        if servers is None:
            return proposal
        nodes = [share.node for target in targets for share in target.shares]
        givers = [peer for node in dict.fromkeys(nodes) for peer in servers.as_they_give(node)]
        gives = [
            self._given_up(peer, job) for peer in dict.fromkeys(givers) if peer.has != peer.least
        ]
        return replace(proposal, gives=tuple(gives))

    def _least(self, job: Job, shares: Shares) -> Shares:
        guarantees = self._guarantees
        if self._servers is None or not job.spec.gpus:
            return guarantees.beside(job, shares)
        return with_shares(shares, guarantees.bounds(job, guarantees.pool_of(shares)).least)

    def _given_up(self, sized: SizedJob, gainer: Job) -> Reshape:
        """Return the change by which a running job has its least, for another one."""
        job, sizing = self._jobs[sized.job_id], self._guarantees.sizing
        speeds = sizing.speed(job.spec, sized.has), sizing.speed(job.spec, sized.least)
        shares = with_shares(sized.shares, sized.least)
        because = Because(SHRUNK, speeds, (gainer.job_id,))
        return Reshape(job.job_id, Allocation(shares, job.allocation.sharing), because)
