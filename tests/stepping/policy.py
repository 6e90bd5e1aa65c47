"""The literal greedy: sort all jobs, walk, let each run that fits; asked at every single round.

It shares the core with the engine (state, placement, approver, round loop), and nothing else: no
classes, no budgets, no timers. What it decides is right because it can be read.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from shunter.core import CPU_POOL, Change, Health, Job, Move, Plan, Pool, Rng, Start, Suspend, View
from shunter.core.planning import Placement, place, untangled
from shunter.events import Allocation, Because, Demand, JobId, Reason, Sharing, SuspendMode
from tests.stateless import Stateless
from tests.stepping.easy import backfilled
from tests.stepping.ranks import Rank
from tests.stepping.room import Room

HOUR_US = 3_600_000_000
NO_LIMIT_US = 365 * 24 * HOUR_US

Backfill = Callable[[list[Job], Room, View, int], Iterator[tuple[Job, str]]]


@dataclass
class Picked:
    """Who starts in which pool, and who must leave; who does both is moved.

    Of those, the first `settled` starts have their `places`, and the `gone` have left for them.
    """

    starts: list[tuple[Job, str]] = field(default_factory=list)
    victims: list[Job] = field(default_factory=list)
    settled: int = 0
    gone: list[Job] = field(default_factory=list)
    places: dict[JobId, Allocation] = field(default_factory=dict)


@dataclass(frozen=True)
class Stepping(Stateless):
    """One literal policy. `misfit` is what happens behind a job that does not fit."""

    name: str
    rank: Rank
    placement: Placement
    preemptive: bool = False
    misfit: str = "skip"
    oracle: bool = False
    default_limit_us: int = NO_LIMIT_US
    version: str = "1"

    def plan(self, memory: None, view: View, rng: Rng) -> Plan:
        barred: list[tuple[JobId, str]] = []
        settled = Picked()
        while True:
            picked = self._walk(view, barred, settled)
            places, misplaced = self._places(picked, view)
            if misplaced is None:
                return Plan(tuple(_changes(picked, places, view)))
            room = self._room(picked, places, misplaced[0], view) if self.preemptive else None
            if room is None:
                barred.append(misplaced)
            else:
                settled = room

    def _walk(self, view: View, barred: list[tuple[JobId, str]], settled: Picked) -> Picked:
        running = [job for job in view.jobs.values() if may_go_on(job)]
        waiting = [job for job in view.jobs.values() if job.is_eligible]
        room = Room.of(view, running, barred, lambda job: self._demand_of(job, view))
        picked = Picked(settled=settled.settled, gone=settled.gone, places=settled.places)
        picked.victims += settled.gone
        if not self.preemptive:
            for job in self._sorted(running, view):
                room.stay(job, pool_of(job, view))
            order = self._sorted(waiting, view)
        else:
            order = self._sorted([*running, *waiting], view)
        upto = order.index(settled.starts[-1][0]) if settled.starts else -1
        chosen = {job.job_id: pool for job, pool in settled.starts}
        for job in settled.gone:
            room.leave(job, pool_of(job, view))
        for number, job in enumerate(order):
            if job in settled.gone:
                if job.job_id not in chosen and (number <= upto or not may_move(job, view)):
                    continue
            elif may_go_on(job):
                if room.is_enough_for(job, pool_of(job, view)):
                    room.stay(job, pool_of(job, view))
                else:
                    room.leave(job, pool_of(job, view))
                    picked.victims.append(job)
                    if number > upto and may_move(job, view) and (pools := room.pools_for(job)):
                        room.start(job, pools[0])
                        picked.starts.append((job, pools[0]))
                continue
            pools = room.pools_for(job)
            if number <= upto:
                pools = [chosen[job.job_id]] if job.job_id in chosen else []
            if pools:
                room.start(job, pools[0])
                picked.starts.append((job, pools[0]))
            elif number <= upto:
                continue
            elif self.misfit == "stop":
                break
            elif self.misfit == "easy":
                starts = picked.starts
                starts += backfilled(order[number:], starts, room, view, self.default_limit_us)
                break
        return picked

    def _room(
        self, picked: Picked, places: dict[JobId, Allocation], job_id: JobId, view: View
    ) -> Picked | None:
        """Settle a start that found no place, and who leaves for it; None: there is none."""
        number = next(at for at, (job, _) in enumerate(picked.starts) if job.job_id == job_id)
        job, _ = picked.starts[number]
        demand = self._demand_of(job, view)
        if replace(demand, max_level=None, shapes=(), cpus_milli=0, memory_mb=0) == demand:
            return None
        order = self._sorted([each for each in view.jobs.values() if may_go_on(each)], view)
        rank = self._rank_of(job, view)
        behind = [other for other in order if self._rank_of(other, view) > rank]
        before = [places[other.job_id] for other, _ in picked.starts[:number]]
        gone = [*picked.victims]
        for other in behind:
            without = [each for each in gone if each != other]
            if other in gone and other not in picked.gone and _fits(without, before, view):
                gone = without
        rooms = []
        for pool in _pools_for(demand, view):
            could = [one for one in behind if one not in gone and pool_of(one, view) == pool]
            none = self._placed(job, pool, gone, before, view)
            where = none or self._placed(job, pool, [*gone, *could], before, view)
            if where is None:
                continue
            leave = [] if none else could
            for other in list(leave):
                fewer = [each for each in leave if each != other]
                nearer = self._placed(job, pool, [*gone, *fewer], before, view)
                if _fits([*gone, *fewer], [*before, where], view):
                    leave = fewer
                elif nearer is not None:
                    leave, where = fewer, nearer
            rooms.append(([-order.index(each) for each in leave], pool, where, leave))
        if not rooms:
            return None
        _, pool, where, leave = min(rooms, key=lambda room: room[0])
        starts = [*picked.starts[:number], (job, pool)]
        known = {other.job_id: places[other.job_id] for other, _ in picked.starts[:number]}
        return Picked(starts, [], number + 1, [*gone, *leave], {**known, job.job_id: where})

    def _placed(
        self, job: Job, pool: str, gone: list[Job], before: list[Allocation], view: View
    ) -> Allocation | None:
        """Return the place of a job in one pool once some have left and others have come."""
        pools = _pools_without(gone, view)
        _take(pools, before, view)
        shares = place(self.placement, pools[pool], self._demand_of(job, view))
        return None if isinstance(shares, Reason) else Allocation(shares)

    def _rank_of(self, job: Job, view: View) -> tuple[int, int, int, int]:
        return (band(job, view), -job.priority, self.rank(job, view), job.ordinal)

    def _sorted(self, jobs: list[Job], view: View) -> list[Job]:
        return sorted(jobs, key=lambda job: self._rank_of(job, view))

    def _places(
        self, picked: Picked, view: View
    ) -> tuple[dict[JobId, Allocation], tuple[JobId, str] | None]:
        pools = _pools_without(picked.victims, view)
        places = dict(picked.places)
        _take(pools, places.values(), view)
        for job, pool in picked.starts[picked.settled :]:
            shares = self._place(job, pool, pools, view)
            if isinstance(shares, Reason):
                return places, (job.job_id, pool)
            places[job.job_id] = Allocation(shares)
        return places, None

    def _place(self, job: Job, pool: str, pools: Mapping[str, Pool], view: View) -> Any:
        demand = self._demand_of(job, view)
        if demand.gpus:
            return place(self.placement, pools[pool], demand)
        tried = _pools_for(demand, view)
        found = [place(self.placement, pools[name].copied(), demand) for name in tried]
        for name, shares in zip(tried, found, strict=True):
            if not isinstance(shares, Reason):
                return place(self.placement, pools[name], demand)
        return Reason.cpu_or_memory_short

    def _demand_of(self, job: Job, view: View) -> Demand:
        classing = self.placement.classing
        tight = classing is not None and classing.is_tight(job.spec, view.messages)
        return replace(job.demand, tight=tight)


def may_go_on(job: Job) -> bool:
    """Say whether a job has GPUs (or a promise of some) and is not about to end."""
    return bool(job.allocation.shares) and not job.end_cause and job.exit_code is None


def may_move(job: Job, view: View) -> bool:
    """Say whether the plan that evicts a job may give it another place."""
    servers = [view.cluster.servers[share.node] for share in job.allocation.shares]
    alone = job.allocation.sharing is Sharing.exclusive
    near = all(server.health is Health.up for server in servers)
    return view.moves_evicted and alone and near and job.spec.migratable and not job.is_on_hold


def pool_of(job: Job, view: View) -> str:
    """Return the GPU type on which a job runs."""
    return view.cluster.servers[job.allocation.shares[0].node].configuration.gpu_type


def band(job: Job, view: View) -> int:
    """Return 0 for a guarded job, 1 for a starved one, 2 for all others."""
    guards, now_us = view.guards, view.now_us
    if job.allocation.shares:
        recent = [at_us for at_us in job.preempted_at_us if at_us > now_us - HOUR_US]
        limit = guards.preemptions_per_hour
        young = job.since_us is not None and now_us - job.since_us < guards.min_runtime_us
        harassed = limit is not None and len(recent) >= limit
        if job.spec.suspend_mode is SuspendMode.never or young or harassed:
            return 0
    bound_us, since_us = guards.starvation_us, job.waiting_since_us
    starved = bound_us is not None and since_us is not None and now_us - since_us >= bound_us
    return 1 if starved else 2


def _pools_without(victims: list[Job], view: View) -> dict[str, Pool]:
    """Return the pools as they are once the victims have left."""
    pools = {name: pool.copied() for name, pool in view.pools.items()}
    for share in [share for job in victims for share in job.allocation.shares]:
        server = view.cluster.servers[share.node]
        pool, at = pools[server.configuration.gpu_type], server.position
        if server.is_up:
            pool.set_free(at, pool.free[at] | share.gpu_mask & ~server.quarantined)
            pool.cpus_free[at] += share.cpus_milli
            pool.memory_free[at] += share.memory_mb
    return pools


def _take(pools: Mapping[str, Pool], places: Iterable[Allocation], view: View) -> None:
    """Take what some jobs were given."""
    for share in [share for where in places for share in where.shares]:
        server = view.cluster.servers[share.node]
        pool, at = pools[server.configuration.gpu_type], server.position
        pool.set_free(at, pool.free[at] & ~share.gpu_mask)
        pool.cpus_free[at] -= share.cpus_milli
        pool.memory_free[at] -= share.memory_mb


def _fits(gone: list[Job], places: list[Allocation], view: View) -> bool:
    """Say whether some places are free, each for one job, once some jobs have left."""
    pools = _pools_without(gone, view)
    for share in [share for where in places for share in where.shares]:
        server = view.cluster.servers[share.node]
        pool, at = pools[server.configuration.gpu_type], server.position
        if share.gpu_mask & ~pool.free[at]:
            return False
        _take(pools, [Allocation((share,))], view)
        if pool.cpus_free[at] < 0 or pool.memory_free[at] < 0:
            return False
    return True


def _pools_for(demand: Demand, view: View) -> list[str]:
    """Return the pools in which a job may be, in the order in which they are tried."""
    if not demand.gpus:
        return [*([CPU_POOL] if CPU_POOL in view.pools else []), *_others(view)]
    return [name for name in demand.gpu_types or view.pools if name in view.pools]


def _others(view: View) -> list[str]:
    return [name for name in view.pools if name != CPU_POOL]


def _changes(picked: Picked, places: dict[JobId, Allocation], view: View) -> Iterator[Change]:
    gainers = tuple(job.job_id for job, _ in picked.starts if job not in picked.victims)
    because = Because("outranked", (), gainers)
    moves = {}
    for victim in picked.victims:
        place = places.get(victim.job_id)
        if place is None:
            yield Suspend(victim.job_id, because)
        elif place != victim.allocation:
            moves[victim.job_id] = Move(victim.job_id, place, because)
    for some in untangled(moves, view):
        yield from some
    for job, _ in picked.starts:
        if job not in picked.victims:
            yield Start(job.job_id, places[job.job_id], Because("fits"))
