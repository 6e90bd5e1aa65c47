"""The cheapest block of GPUs that moves can free for a gang on one server.

    block      the GPUs that the gang gets: of one server, within one group of the level it accepts
    movers     jobs that hold GPUs of that group; where CPUs or memory are asked for, of the server
    places     GPUs of one server each, free when the mover's turn comes, outside the block, no
               farther apart than those it leaves

A move costs a fixed time of all GPUs of the job. Groups that lack the fewest GPUs are looked at
first, and of each the sets of movers by their cost, so the search ends where nothing cheaper can
come. Each set is tried in every order and on every server, until one works (Xiao, SOSP-SRC 2017,
asks for aligned blocks and a bound on moves; the search is ours).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, NamedTuple

from shunter.core.cluster import Pool, Server
from shunter.core.performance.speed_model import level_of
from shunter.core.placement.fitting import groups_within, pick_emptiest, pick_gpus
from shunter.core.planning.draft import Draft, Needs
from shunter.core.state import Job
from shunter.core.view import View
from shunter.events.values.allocation import Allocation, Share
from shunter.events.values.ids import NodeName
from shunter.events.values.job_spec import BELOW_SERVER, LEVEL_ORDER, Demand, Level
from shunter.events.values.resources import Resources

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
