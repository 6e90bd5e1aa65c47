"""The goal `make_room`: move running jobs so that a gang finds its GPUs together.

Enough GPUs are free for it, but not where its contract wants them (Xiao, SOSP-SRC 2017: the
migration module packs running jobs to make room for a large job with strict locality). Jobs are
moved exactly if the gain, which is stated, exceeds the cost, which is stated:

    gain = GPUs of the gang x how long it would still wait for a place without the moves
    cost = sum over the moves of GPUs of the job x the time that a move takes

How long it would wait is a guess: running jobs end one after another as `expected_us` says, and it
waits until their GPUs and those that are free now have a place for it. What this plan starts stays.

Other goals are tried and measured (`planner.py`), since whether they help nobody knows before. This
one is not for the mover, who gains nothing: what it makes possible is seen at once, and undoing it
would move jobs again. Moved is whom that planner may move, who has had GPUs to itself for ten times
what a move takes, so that moves take a tenth of its time at most; and at most so many in one plan.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop
from itertools import combinations
from typing import Final, NamedTuple

from pydantic import BaseModel, Field

from shunter.core.cluster import Pool, Server
from shunter.core.plan import Change, Move, Plan, Start, Suspend
from shunter.core.planning.draft import MAKE_ROOM, ROOM_MADE, Draft, Needs
from shunter.core.planning.placement import Placement, groups_within, pick_emptiest, pick_gpus
from shunter.core.speeds.speed_model import level_of
from shunter.core.state import Job
from shunter.core.view import View, expected_us
from shunter.events.values.allocation import Allocation, Share, Sharing
from shunter.events.values.ids import JobId, NodeName
from shunter.events.values.job_spec import BELOW_SERVER, LEVEL_ORDER, Demand, Level
from shunter.events.values.reasons import Because, ClassWait, Reason
from shunter.events.values.resources import Resources
from shunter.events.values.trials import MILLION
from shunter.policies.migration.planner import RUN_LEAST, may_move
from shunter.policies.params import Duration, PolicyParams

# The cheapest block of GPUs that moves can free for a gang on one server.
#
#     block      the GPUs of the gang: of one server, within one group of the level it accepts
#     movers     jobs with GPUs of that group; where CPUs or memory are asked for, of the server
#     places     GPUs of one server each, free when the mover's turn comes, outside the block, no
#                farther apart than those it leaves
#
# A move costs a fixed time of all GPUs of the job. Groups that lack the fewest GPUs are looked at
# first, and of each the sets of movers by their cost, so the search ends where nothing cheaper can
# come. Each set is tried in every order and on every server, until one works (Xiao, SOSP-SRC 2017,
# asks for aligned blocks and a bound on moves; the search is ours).

LOOKS_MOST: Final = 4_000
"""So many sets of movers and places of one are looked at in one plan at most."""

Moves = tuple[tuple[Job, Share], ...]


@dataclass(frozen=True)
class Room:
    """The place of a gang and who moves where for it; the cost in GPU-us."""

    share: Share
    moves: Moves
    cost_gpu_us: int


class _Group(NamedTuple):
    """GPUs of a server among which a gang could be, the ones that lack fewest first.

    `demand` is what the gang must find there.
    """

    lacking: int
    number: int
    mask: int
    server: Server
    pool: Pool
    demand: Demand


class Blocks:
    """Searches one draft.

    Args:
        view: the cluster and the jobs.
        draft: what is free after all that the plan does already.
        movable: who may be moved.
        cost_us: what a move costs each GPU of a job, in microseconds.
        needs: what movers must find; None: what they have.
    """

    def __init__(
        self,
        view: View,
        draft: Draft,
        movable: Sequence[Job],
        cost_us: int,
        needs: Needs | None = None,
    ) -> None:
        self._nodes = {name: server.configuration for name, server in view.cluster.servers.items()}
        self._draft = draft
        self._cost_us = cost_us
        self._needs = needs
        self._looks = 0
        self._movers: dict[NodeName, list[Job]] = {}
        for job in movable:
            for share in job.allocation.shares:
                self._movers.setdefault(share.node, []).append(job)

    def cheapest(
        self, demands: Mapping[str, Demand], moves_most: int, below_gpu_us: int
    ) -> Room | None:
        """Return the cheapest room for a gang below a bound; None: there is none.

        Of equally cheap ones that on the server that lacks the fewest GPUs.

        Args:
            demands: what the gang must find, by pool.
            moves_most: how many jobs may be moved.
            below_gpu_us: the bound, in GPU-microseconds.
        """
        best: Room | None = None
        for group in sorted(self._groups(demands)):
            if group.lacking * self._cost_us >= below_gpu_us or self._looks >= LOOKS_MOST:
                break
            for movers in self._sets(group, moves_most):
                cost_gpu_us = sum(self._cost(job) for job in movers)
                self._looks += 1
                if cost_gpu_us >= below_gpu_us or self._looks >= LOOKS_MOST:
                    break
                room = self._freed(group, movers, cost_gpu_us)
                if room is not None:
                    best, below_gpu_us = room, cost_gpu_us
                    break
        return best

    def take(self, room: Room, gang: Job) -> None:
        """Carry moves and start out in the draft: what is searched next stands on them."""
        for job, share in room.moves:
            self._draft.free(job)
            self._draft.allocate(job, Allocation((share,)))
        self._draft.allocate(gang, Allocation((room.share,)))
        moved = {job.job_id for job, _ in room.moves}
        for name, jobs in self._movers.items():
            self._movers[name] = [job for job in jobs if job.job_id not in moved]

    def _cost(self, job: Job) -> int:
        return job.allocation.gpus * self._cost_us

    def _groups(self, demands: Mapping[str, Demand]) -> Iterator[_Group]:
        """Yield the groups that could hold a gang, if all that may leave them did."""
        number = 0
        for name, demand in demands.items():
            pool = self._draft.pools[name]
            if pool.unit_cpus_milli or demand.gpus > pool.gpus_free:
                continue
            if not demand.accepts_split((demand.gpus,)):
                continue
            for server in pool.servers:
                if server.gpus_up < demand.gpus or server.name not in self._movers:
                    continue
                for mask in groups_within(server.configuration, demand.max_level):
                    if (mask & server.working_gpus).bit_count() >= demand.gpus:
                        free = (mask & pool.free[server.position]).bit_count()
                        lacking = max(0, demand.gpus - free)
                        yield _Group(lacking, number, mask, server, pool, demand)
                        number += 1

    def _sets(self, group: _Group, moves_most: int) -> list[tuple[Job, ...]]:
        """Return the sets of jobs that leave enough GPUs of a group, the cheapest first."""
        demand = group.demand
        node, any_will_do = group.server.name, bool(demand.cpus_milli or demand.memory_mb)
        held = {
            job.job_id: mask
            for job in self._movers[node]
            if (mask := _mask_on(job, node) & group.mask) or any_will_do
        }
        jobs = [job for job in self._movers[node] if job.job_id in held]
        most = sorted((mask.bit_count() for mask in held.values()), reverse=True)[:moves_most]
        if sum(most) < group.lacking:
            return []
        found = [
            movers
            for count in range(1, min(moves_most, len(jobs)) + 1)
            for movers in combinations(jobs, count)
            if sum(held[job.job_id].bit_count() for job in movers) >= group.lacking
        ]
        return sorted(
            found,
            key=lambda movers: (
                sum(self._cost(job) for job in movers),
                len(movers),
                [job.ordinal for job in movers],
            ),
        )

    def _freed(self, group: _Group, movers: tuple[Job, ...], cost_gpu_us: int) -> Room | None:
        """Return the room that movers make in a group; the draft stays as it is."""
        server, pool, demand = group.server, group.pool, group.demand
        node, draft = server.name, self._draft
        freed = sum(_mask_on(job, node) for job in movers)
        open_gpus = (pool.free[server.position] | freed & server.working_gpus) & group.mask
        mask = pick_gpus(server.configuration, open_gpus, demand.gpus, demand.max_level)
        block = Share(node, mask, demand.cpus_milli, demand.memory_mb)
        mark = draft.mark
        largest_first = sorted(movers, key=lambda job: (-job.allocation.gpus, job.ordinal))
        moves = self._placed(largest_first, block) if mask else None
        has_room = moves is not None and draft.has(block)
        draft.rollback(mark)
        return Room(block, moves, cost_gpu_us) if moves is not None and has_room else None

    def _placed(self, movers: Sequence[Job], block: Share) -> Moves | None:
        """Move jobs one after another, in any order that works; return where they go."""
        if not movers:
            return () if self._draft.has(block) else None
        draft = self._draft
        for job in movers:
            others = [other for other in movers if other is not job]
            for share in self._places(job, block):
                self._looks += 1
                if self._looks >= LOOKS_MOST:
                    return None
                mark = draft.mark
                draft.free(job)
                if draft.has(share):
                    draft.take(share)
                    rest = self._placed(others, block)
                    if rest is not None:
                        return ((job, share), *rest)
                draft.rollback(mark)
        return None

    def _places(self, job: Job, block: Share) -> Iterator[Share]:
        """Yield where a job could go now, the fullest servers first, or the emptiest."""
        demand, held = job.demand, job.allocation
        gpus = held.gpus
        if not demand.accepts_split((gpus,)):
            return
        gpu_type = self._nodes[held.shares[0].node].gpu_type
        pool, level = self._draft.pools[gpu_type], self._level(job)
        pick = pick_emptiest if demand.apart else pick_gpus
        beside = self._beside(job, gpu_type)
        rows = pool.buckets[gpus:]
        for row in [*reversed(rows)] if demand.apart else rows:
            bits = row
            while bits:
                position = (bits & -bits).bit_length() - 1
                bits &= bits - 1
                server = pool.servers[position]
                free = pool.free[position] & ~_mask_on(job, server.name)
                if server.name == block.node:
                    free &= ~block.gpu_mask
                if free.bit_count() >= gpus:
                    mask = pick(server.configuration, free, gpus, level)
                    if mask:
                        yield Share(server.name, mask, beside.cpus_milli, beside.memory_mb)

    def _beside(self, job: Job, pool: str) -> Resources:
        """Return the CPUs and memory that a mover must find."""
        if self._needs is None:
            return sum([share.beside for share in job.allocation.shares], Resources())
        demand = self._needs.demand(job.demand, job, pool)
        return Resources(0, demand.cpus_milli, demand.memory_mb)

    def _level(self, job: Job) -> Level | None:
        """Return within what a job's GPUs must be; None: anywhere on one server."""
        levels = [level_of(job.allocation, self._nodes)]
        if job.demand.max_level is not None:
            levels.append(job.demand.max_level)
        nearest = min(levels, key=LEVEL_ORDER.__getitem__)
        return nearest if nearest in BELOW_SERVER else None


def _mask_on(job: Job, node: NodeName) -> int:
    """Return the GPUs that a job was given on a server."""
    return sum(share.gpu_mask for share in job.allocation.shares if share.node == node)


@dataclass(frozen=True)
class MakingRoom:
    """Makes room for gangs of one server.

    Attributes:
        cost_us: what a move costs each GPU of a job, in microseconds.
        moves_most: how many jobs one plan moves at most.
        every_us: how long after a plan to look again, while gangs wait for a place.
    """

    cost_us: int
    moves_most: int
    every_us: int

    def after(
        self,
        plan: Plan,
        view: View,
        placement: Placement,
        gangs: Iterable[Job],
        needs: Needs | None = None,
    ) -> Plan:
        """Return a plan with the moves that pay, and the starts that they make possible."""
        waiting = list(gangs)
        if not waiting:
            return plan
        changed = frozenset(change.job_id for change in plan.changes)
        found: list[Change] = []
        started: list[Job] = []
        with Draft(view) as draft:
            if needs is not None:
                needs.settle(draft)
            draft.carry_out(plan.changes, view.jobs)
            for kept in view.proposals.reserved.values():
                draft.take_back(kept)
            movable = [job for job in view.jobs.values() if self._may_move(job, view, changed)]
            blocks = Blocks(view, draft, movable, self.cost_us, needs)
            in_vain: dict[tuple[tuple[str, Demand], ...], None] = {}
            for job in waiting:
                left = self.moves_most - len(found) + len(started)
                if not left or not movable:
                    break
                demands = _demands(job, draft, needs)
                if tuple(demands.items()) in in_vain or not _may_start(job, draft):
                    continue
                moved = changed.union(change.job_id for change in found)
                gain_gpu_us = job.demand.gpus * _wait_us(demands, view, draft, placement, moved)
                room = blocks.cheapest(demands, left, gain_gpu_us)
                if room is None:
                    in_vain[tuple(demands.items())] = None
                    continue
                blocks.take(room, job)
                found += _changes(job, room, gain_gpu_us)
                started.append(job)
        return _joined(plan, found, started, view) if started else plan

    def _may_move(self, job: Job, view: View, changed: frozenset[JobId]) -> bool:
        began_us = job.attempt_began_us
        return (
            may_move(job, view, changed)
            and job.allocation.sharing is Sharing.exclusive
            and began_us is not None
            and view.now_us - began_us >= RUN_LEAST * self.cost_us
            and view.guards.pinned_by(job, view.now_us) is None
        )


def _may_start(job: Job, draft: Draft) -> bool:
    """Say whether the quota of a job's queue has so many GPUs left."""
    left = draft.quota_left(job.spec.queue)
    return bool(job.demand.gpus) and (left is None or left >= job.demand.gpus)


def _demands(job: Job, draft: Draft, needs: Needs | None) -> dict[str, Demand]:
    """Return what a gang must find in each pool in which it may be."""
    demand = job.demand
    names = [name for name in demand.gpu_types or draft.pools if name in draft.pools]
    if needs is None:
        return dict.fromkeys(names, demand)
    return {name: needs.demand(demand, job, name) for name in names}


def _wait_us(
    demands: Mapping[str, Demand],
    view: View,
    draft: Draft,
    placement: Placement,
    changed: frozenset[JobId],
) -> int:
    """Return how long a gang would wait for a place, in microseconds.

    Where none is had even then: until the last job has ended that runs and is not changed.
    """
    now_us, mark = view.now_us, draft.mark
    ends = [
        (expected_us(job, now_us), job.ordinal, job)
        for job in view.jobs.values()
        if job.allocation.shares and job.job_id not in changed
    ]
    heapify(ends)  # the first few are often enough
    wait_us = 0
    while ends:
        wait_us, _, job = heappop(ends)
        draft.free(job)
        if any(
            not isinstance(draft.place(placement, name, demand), Reason)
            for name, demand in demands.items()
            if draft.pools[name].gpus_free >= demand.gpus
        ):
            break
    draft.rollback(mark)
    return wait_us


def _changes(gang: Job, room: Room, gain_gpu_us: int) -> list[Change]:
    """Return the moves and the start of the gang, with scores in GPU-seconds."""
    scores = (gain_gpu_us / MILLION, room.cost_gpu_us / MILLION)
    because = Because(MAKE_ROOM, scores, (gang.job_id,))
    moves = [Move(job.job_id, Allocation((share,)), because) for job, share in room.moves]
    start = Start(gang.job_id, Allocation((room.share,)), Because(ROOM_MADE, scores))
    return [*moves, start]


def _joined(plan: Plan, found: Sequence[Change], started: Sequence[Job], view: View) -> Plan:
    """Return a plan with further changes, without reasons that hold no more."""
    gone = {job.job_id for job in started}
    changed = {change.job_id for change in plan.changes if type(change) is not Suspend}
    still = {
        job.waits_as: None
        for job in view.jobs.values()
        if not job.allocation.shares and job.job_id not in gone and job.job_id not in changed
    }
    told = {each.demand: None for each in plan.waits}
    over = [
        ClassWait(demand, None)
        for demand in dict.fromkeys(job.waits_as for job in started)
        if demand not in still and demand not in told and demand in view.class_waits
    ]
    waits = [
        each if each.demand in still or each.wait is None else ClassWait(each.demand, None)
        for each in plan.waits
        if each.demand in still or each.wait is None or each.demand in view.class_waits
    ]
    return replace(
        plan,
        changes=(*plan.changes, *found),
        waits=(*waits, *over),
        job_waits=tuple([each for each in plan.job_waits if each[0] not in gone]),
        reservations=tuple([each for each in plan.reservations if each.job_id not in gone]),
        is_drafted=False,
    )


# What may be set of moves for waiting gangs: `[policy.topology.make_room]`.


class MakeRoomParams(BaseModel):
    """Moves of running jobs for gangs that wait for GPUs near together.

    Xiao, SOSP student research competition 2017.
    """

    model_config = PolicyParams.model_config

    cost: Duration = Field(
        gt=0,
        default=10_000_000,
        description="what a move costs each GPU of the job (Gandiva: 8 to 10 s with PyTorch); all "
        "moves for a gang together must cost less than its GPUs times the wait they save it",
    )
    moves_most: int = Field(
        default=4,
        ge=1,
        le=16,
        description="how many jobs one plan moves at most; the text leaves it open; ours",
    )
    every: Duration = Field(
        gt=0,
        default=60_000_000,
        description="how long after a plan to look again while a gang waits so and nothing else "
        "happens; ours",
    )

    def making_room(self) -> MakingRoom:
        """Return what plans them."""
        return MakingRoom(self.cost, self.moves_most, self.every)
