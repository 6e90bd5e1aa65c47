"""Who runs: the greedy walk in rank order, done incrementally.

The papers' rule: go through all jobs from the first rank to the last and let each run that fits
into what is left. The running jobs all fit together, so the walk can jump from one waiting job to
the next. A job finds at its turn what is free now, plus what running jobs ranked after it hold.
Going on, that only falls; so a class of equal jobs whose first member does not fit is out.

A victim may find other GPUs at its own turn: it is picked again, as a start, and the plan moves it.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import field
from heapq import heapify, heappop, heapreplace
from typing import Final, NamedTuple

from shunter.core.cluster import CPU_POOL
from shunter.core.planning import Draft, Placement, may_move_evicted, pools_without_gpus
from shunter.core.ranking.ranking import (
    FIRST,
    LAST,
    NO_POOL,
    ORDINAL_MASK,
    Entry,
    Index,
    Misfit,
    RankedUsage,
    Ranking,
    SummedUsage,
    WaitingClass,
    drift,
)
from shunter.core.sizing import Guarantees
from shunter.core.view import View
from shunter.events import Demand, JobId, QueueName, Reason, Share, Sharing, record, replace

_SKIPPED = Misfit.skipped  # members are slow to look up

_ALONE: Final = 1 << 62
"""The place of an evicted job among the heads: no equal job follows it in its class."""

Bars = dict[tuple[int, str], tuple[int, Reason]]

Skipped = Mapping[int, Reason]
NOTHING_SKIPPED: Skipped = {}


@record
class Selection:
    """The outcome of one walk: who starts where, who must leave, who found no room.

    `misfits` are reasons by class number, where more is known than that others rank first.
    `room_for` says for whom a victim leaves that was chosen for the place it has. A victim among
    the starts is moved; its entry there has the key of one that waits, and the pool that it leaves.
    """

    starts: list[tuple[Entry, str]] = field(default_factory=list)
    victims: list[Entry] = field(default_factory=list)
    misfits: dict[int, Reason] = field(default_factory=dict)
    head: Entry | None = None
    room_for: dict[JobId, JobId] = field(default_factory=dict)


@record
class Settled:
    """What was decided up to the job with a key, and who has left for it."""

    key: int
    picked: Selection
    placed: dict[JobId, tuple[Share, ...]]


class Walk:
    """One greedy walk over a ranking.

    `excluded` says, by class and pool, which is the first job that fits by count but could not be
    placed, and why; `skipped` are keys of single such jobs, where others of their class may fit.
    The walk treats running jobs of a policy without preemption as if they all ranked first. It goes
    on behind what is `settled`, if anything is.
    """

    def __init__(
        self,
        ranking: Ranking,
        view: View,
        index: Index,
        excluded: Bars,
        settled: Settled | None = None,
        skipped: Skipped = NOTHING_SKIPPED,
    ) -> None:
        self.ranking = ranking
        self.view = view
        self.preemptive = index.preemptive
        self.skips = index.misfit is _SKIPPED
        self.drift = drift(view.now_us) if index.drifts else 0
        self.excluded = excluded
        self.settled = settled
        self.skipped = skipped
        self.picked = Selection()
        self.free = {name: pool.gpus_free for name, pool in view.pools.items()}
        self.quota_free = {name: view.quota_free(name) for name in ranking.quotas}
        bounded = self.quota_free or excluded or skipped or settled is not None
        plain = len(self.free) == 1 and not bounded
        self._only = next(iter(self.free)) if plain else None
        self._at = FIRST
        self._evicted: dict[int, Entry] = {}
        self._over = False
        self._pool_sums: dict[str, SummedUsage] = {}
        self._quota_sums: dict[QueueName, SummedUsage] = {}
        if settled is not None:
            self._go_on_behind(settled)

    def run(self) -> Selection:
        """Walk to the end and return who was picked."""
        if self._only is not None:
            return self._run_in_one_pool(self._only)
        if self.settled is None:
            return self._run()
        victims = self.settled.picked.victims
        for victim in victims:
            self.ranking.unseat(victim)
        try:
            return self._run()
        finally:
            for victim in victims:
                self.ranking.seat(victim)

    def _run(self) -> Selection:
        picked, classes, by_ordinal = self.picked, self.ranking.classes, self.ranking.by_ordinal
        heads = self._heads()
        heapify(heads)
        while heads:
            key, number, place = heads[0]
            rank = key + self.drift
            if self._over:
                self._seat_running(rank)
            entry = self._evicted.get(key) or by_ordinal[key & ORDINAL_MASK]
            waiting = classes[number]
            is_skipped = key in self.skipped
            if is_skipped:
                picked.misfits[number] = self.skipped[key]
            pool = None if is_skipped else self.fitting(waiting, rank)
            if pool is None:
                picked.head = picked.head or entry
                if not self.skips:
                    break
                if not is_skipped:
                    heappop(heads)
                    continue
            else:
                self.take(entry, pool)
                if self.preemptive:
                    self._at = rank
            place += 1
            if place < len(waiting.keys):
                heapreplace(heads, (waiting.keys[place], number, place))
            else:
                heappop(heads)
        if self._over:
            self._seat_running(LAST)
        return picked

    def _run_in_one_pool(self, only: str) -> Selection:
        """Do the same where there is but one bound, as usual: in local names, so quicker."""
        picked, ranking, drift, preemptive = self.picked, self.ranking, self.drift, self.preemptive
        classes, by_ordinal = ranking.classes, ranking.by_ordinal
        budget = ranking.pools.get(only) if preemptive else None
        free, heads = self.free[only], self._heads()
        behind, first_behind = 0, FIRST  # what running jobs hold that rank after the waiting one
        heapify(heads)
        while heads:
            key, number, place = heads[0]
            rank, waiting = key + drift, classes[number]
            gpus, types = waiting.gpus, waiting.demand.gpu_types
            if gpus > free and budget is not None:
                if rank >= first_behind:
                    behind, first_behind = budget.tail(rank)
                if free + behind < 0:
                    free = self._seat_in_one_pool(budget, free, behind, rank)
            if gpus and (gpus > free + behind or (types and only not in types)):
                picked.head = picked.head or by_ordinal[key & ORDINAL_MASK]
                if not self.skips:
                    break
                heappop(heads)
                if not types:
                    # Nothing grows from here on: who needs as much does not fit either.
                    heads = [head for head in heads if classes[head[1]].gpus < gpus]
                    heapify(heads)
                continue
            picked.starts.append((by_ordinal[key & ORDINAL_MASK], only if gpus else CPU_POOL))
            free -= gpus
            if preemptive:
                self._at = rank
            place += 1
            if place < len(waiting.keys):
                heapreplace(heads, (waiting.keys[place], number, place))
            else:
                heappop(heads)
        if free < 0 and budget is not None:
            free = self._seat_in_one_pool(budget, free, 0, LAST)
        self.free[only], self._over = free, free < 0
        return picked

    def _go_on_behind(self, settled: Settled) -> None:
        """Begin where the last job was settled; the pools are as it left them."""
        kept = settled.picked
        self.picked = Selection(
            list(kept.starts), list(kept.victims), dict(kept.misfits), kept.head, kept.room_for
        )
        self._at = settled.key + self.drift
        for entry, _ in kept.starts:
            self._spend_quota(entry, entry.gpus)
        for victim in kept.victims:
            self._spend_quota(victim, -victim.gpus)
        self._over = any(free < 0 for free in self.quota_free.values())

    def _heads(self) -> list[tuple[int, int, int]]:
        """Return the first job of each class that could fit: (key, class, place in it).

        No class finds more free at its turn than the one that ranks first would.
        """
        classes, settled = self.ranking.classes, self.settled
        if settled is None:
            heads = [
                (waiting.keys[waiting.first], waiting.number, waiting.first)
                for waiting in classes
                if waiting.keys
            ]
        else:
            places = [bisect_right(each.keys, settled.key, each.first) for each in classes]
            heads = [
                (waiting.keys[place], waiting.number, place)
                for waiting, place in zip(classes, places, strict=True)
                if place < len(waiting.keys)
            ]
            heads += self._evicted_before(settled)
        if not self.skips or not heads or self._only is not None:
            return heads
        if not self.preemptive:
            most = max(self.free.values(), default=0)
        else:
            first = min(heads)[0] + self.drift
            budgets = self.ranking.pools
            most = max(
                [free + self._behind(budgets.get(name), first) for name, free in self.free.items()],
                default=0,
            )
        return [head for head in heads if classes[head[1]].gpus <= most]

    def _evicted_before(self, settled: Settled) -> list[tuple[int, int, int]]:
        """Return the victims that have yet to have their turn, as heads."""
        chosen = {entry.ordinal for entry, _ in settled.picked.starts}
        for victim in settled.picked.victims:
            again = None if victim.ordinal in chosen else self._again(victim)
            if again is not None and again.key > settled.key:
                self._evicted[again.key] = again
        return [(key, entry.number, _ALONE) for key, entry in self._evicted.items()]

    def _again(self, victim: Entry) -> Entry | None:
        """Return a victim as one that waits; None: this plan gives it no other GPUs."""
        view = self.view
        if not view.moves_evicted or not may_move_evicted(view.jobs[victim.job_id], view):
            return None
        gpus = self.ranking.classes[victim.number].gpus
        return replace(victim, key=victim.key - self.drift, gpus=gpus, changes_at=None)

    def take(self, entry: Entry, pool: str) -> None:
        """Pick a waiting job to start."""
        self.picked.starts.append((entry, pool))
        gpus = entry.gpus
        if not gpus:
            return
        self.free[pool] -= gpus
        if self.free[pool] < 0:
            self._over = True
        if self.quota_free:
            self._spend_quota(entry, gpus)

    def fitting(self, waiting: WaitingClass, rank: int) -> str | None:
        """Return the acceptable pool in which a class fits at its turn, if there is one.

        The first one in which it fits without making anybody leave, else the first one at all.
        """
        gpus, number, demand = waiting.gpus, waiting.number, waiting.demand
        if not gpus:
            return None if self.excluded and self.is_barred(number, CPU_POOL, rank) else CPU_POOL
        if self.quota_free and demand.queue in self.quota_free:
            free = self.quota_free[demand.queue]
            if free < gpus and self.preemptive:
                free += self._behind(self.ranking.quotas[demand.queue], rank)
            if free < gpus:
                self.picked.misfits[number] = Reason.quota
                return None
        second = None
        for pool in demand.gpu_types or self.free:
            if self.excluded and self.is_barred(number, pool, rank):
                continue
            free = self.free.get(pool, 0)
            if free >= gpus:
                return pool
            if second is None and self.preemptive:
                free += self._behind(self.ranking.pools.get(pool), rank)
                second = pool if free >= gpus else None
        return second

    def is_barred(self, number: int, pool: str, rank: int) -> bool:
        """Say whether a job of a class, or one before it, found no place in a pool."""
        bar = self.excluded.get((number, pool))
        if bar is None or rank - self.drift < bar[0]:
            return False
        self.picked.misfits[number] = bar[1]
        return True

    def _spend_quota(self, entry: Entry, gpus: int) -> None:
        queue = self.ranking.classes[entry.number].demand.queue
        if queue in self.quota_free:
            self.quota_free[queue] -= gpus
            self._over = self._over or self.quota_free[queue] < 0

    def _behind(self, budget: RankedUsage | None, rank: int) -> int:
        return budget.after(rank) if budget is not None else 0

    def _seat_running(self, upto: int) -> None:
        """Seat the running jobs ranked before `upto`; those that do not fit must leave."""
        while True:
            first = None
            over = self._over_bounds()
            for usage, free in over:
                if (short := -free - usage.after(upto)) > 0:
                    key = usage.first_misfit(self._at, upto, short)
                    first = key if first is None else min(first, key)
            if first is None:
                self._over = bool(over)
                return
            victim = self.ranking.entry_at(first)
            self.picked.victims.append(victim)
            self.free[victim.pool] += victim.gpus
            if self.quota_free:
                self._spend_quota(victim, -victim.gpus)
            self._at = first
            again = self._again(victim)
            if again is not None and again.key not in self.skipped:
                pool = self.fitting(self.ranking.classes[again.number], first)
                if pool is not None:
                    self.take(again, pool)

    def _seat_in_one_pool(self, budget: RankedUsage, free: int, behind: int, upto: int) -> int:
        """Do the same with one bound that is short; return what is free then.

        Running jobs ranked after `upto` hold `behind` GPUs.
        """
        keys = budget.misfits(self._at, upto, -free - behind)
        victims = [self.ranking.entry_at(key) for key in keys]
        self._at = victims[-1].key
        self.picked.victims += victims
        return free + sum([victim.gpus for victim in victims])

    def _over_bounds(self) -> list[tuple[SummedUsage, int]]:
        """Return the pools and quotas that are given away twice, with what is free.

        Nobody is seated elsewhere while a walk goes on, so each is summed up once.
        """
        pools, quotas, found = self.ranking.pools, self.ranking.quotas, []
        for name, free in self.free.items():
            if free < 0:
                if name not in self._pool_sums:
                    self._pool_sums[name] = pools[name].summed()
                found.append((self._pool_sums[name], free))
        for queue, free in self.quota_free.items():
            if free < 0:
                if queue not in self._quota_sums:
                    self._quota_sums[queue] = quotas[queue].summed()
                found.append((self._quota_sums[queue], free))
        return found


# Where only numbers of GPUs count, they decide who has to leave. A job that asks for more
# (nearness, a split, CPUs, memory) takes its victims from a place that it could have (`make_room`).
# A `RoomMaker` answers another question: nobody loses GPUs by it, jobs are moved if that pays, so
# it searches for the cheapest moves, where rank decides here who leaves.

_EXCLUSIVE = Sharing.exclusive  # members are slow to look up

Shares = tuple[Share, ...]


class Misplaced(NamedTuple):
    """A start that finds no place in the pool that was picked for it, and why."""

    entry: Entry
    pool: str
    reason: Reason


class Room(NamedTuple):
    """A place that a job could have, and who would have to leave it."""

    pool: str
    shares: Shares
    victims: list[Entry]


class Placing:
    """The starts of one plan, placed in a draft.

    `settled` is what no later start changes any more; `left` are the victims that have left in the
    draft, in the order in which they were chosen.
    """

    def __init__(
        self,
        draft: Draft,
        placement: Placement,
        ranking: Ranking,
        view: View,
        guarantees: Guarantees | None = None,
    ) -> None:
        self._guarantees = guarantees
        self.draft = draft
        self.placement = placement
        self.ranking = ranking
        self.view = view
        self.settled: Settled | None = None
        self.placed: dict[JobId, Shares] = {}
        self.left: dict[JobId, Entry] = {}
        self._mark = draft.mark

    def place(self, picked: Selection) -> Misplaced | None:
        """Place the starts that are not settled; return the first that finds no place."""
        starts, victims = picked.starts, picked.victims
        if not starts:
            return None
        if self.settled is not None:
            starts = starts[len(self.settled.picked.starts) :]
            victims = victims[len(self.settled.picked.victims) :]
        draft, placement = self.draft, self.placement
        for victim in victims:
            self.left[victim.job_id] = victim
        for victim in victims:
            for share in self._freed_by(victim):
                draft.give(share)
        for entry, pool in starts:
            demand = self._demand(entry, pool)
            if demand.gpus:
                shares = draft.place(placement, pool, demand)
            else:
                shares = draft.place_without_gpus(placement, demand)
            if not isinstance(shares, tuple):
                return Misplaced(entry, pool, shares)
            self.placed[entry.job_id] = shares
        return None

    def back(self) -> None:
        """Undo all that is not settled."""
        self.draft.rollback(self._mark)
        settled = self.settled
        self.placed = {} if settled is None else dict(settled.placed)
        victims = () if settled is None else settled.picked.victims
        self.left = {victim.job_id: victim for victim in victims}

    def make_room(self, misplaced: Misplaced, picked: Selection, drift: int) -> bool:
        """Settle a start that asks for more than GPUs; say if there is room.

        Its place may be on what is free and on what running jobs ranked after it hold. Of all that
        could leave, the lowest-ranked do: whoever can stay without taking the last place from it
        does, from the first rank on.
        """
        entry, rank = misplaced.entry, misplaced.entry.key + drift
        demand = self._demand(entry, misplaced.pool)
        pool = self.draft.pools.get(misplaced.pool)
        has_units = pool is not None and bool(pool.unit_cpus_milli)  # whose CPUs must be free too
        if demand.is_met_by_count and not has_units:
            return False
        number = next(at for at, (other, _) in enumerate(picked.starts) if other is entry)
        self._keep_places_only(picked, number, rank)
        rooms = [
            room
            for name in _pools_for(demand, self.view)
            if (room := self._room(entry, name, rank)) is not None
        ]
        if not rooms:
            return False
        # The first of its victims decides, the higher-ranked one; nobody is the best.
        room = min(rooms, key=lambda room: [-victim.key for victim in room.victims])
        for victim in room.victims:
            self._leave(victim)
        for share in room.shares:
            self.draft.take(share)
        self.placed[entry.job_id] = room.shares
        self._settle(picked, number, entry, room)
        return True

    def _keep_places_only(self, picked: Selection, number: int, rank: int) -> None:
        """Go back to the first so many starts, and the victims that made room for them."""
        placed = self.placed
        self.back()
        fixed = len(self.left)
        first = len(self.placed)
        for victim in picked.victims[fixed:]:
            self._leave(victim)
        for other, _ in picked.starts[first:number]:
            self.placed[other.job_id] = placed[other.job_id]
            for share in placed[other.job_id]:
                self.draft.take(share)
        behind = [victim for victim in picked.victims[fixed:] if victim.key > rank]
        for victim in sorted(behind, key=lambda victim: victim.key):
            self._stay(victim)

    def _room(self, entry: Entry, pool: str, rank: int) -> Room | None:
        """Return a place in one pool and who must leave it; None: there is no place."""
        draft, mark, left = self.draft, self.draft.mark, dict(self.left)
        shares = self._find_in(entry, pool)
        victims: list[Entry] = []
        if isinstance(shares, Reason):
            candidates = self._behind(pool, rank)
            for candidate in candidates:
                self._leave(candidate)
            shares = self._find_in(entry, pool)
            if not isinstance(shares, Reason):
                shares, victims = self._fewest(entry, pool, shares, candidates)
        draft.rollback(mark)
        self.left = left
        return None if isinstance(shares, Reason) else Room(pool, shares, victims)

    def _fewest(
        self, entry: Entry, pool: str, shares: Shares, candidates: list[Entry]
    ) -> tuple[Shares, list[Entry]]:
        """Let all stay who can; return the place, and who must leave for it."""
        draft = self.draft
        victims = []
        for candidate in candidates:
            if self._stay(candidate):
                continue
            mark = draft.mark
            for share in shares:
                draft.give(share)
            stays = self._stay(candidate)
            other = self._find_in(entry, pool) if stays else Reason.no_capacity
            if isinstance(other, Reason):
                draft.rollback(mark)
                self.left[candidate.job_id] = candidate
                victims.append(candidate)
            else:
                shares = other
        return shares, victims

    def _behind(self, pool: str, rank: int) -> list[Entry]:
        """Return who runs in a pool behind a rank and has not left, in order."""
        budget = self.ranking.pools.get(pool)
        keys = [] if budget is None else budget.keys[bisect_right(budget.keys, rank) :]
        found = [self.ranking.entry_at(key) for key in keys]
        return [entry for entry in found if entry.job_id not in self.left]

    def _settle(self, picked: Selection, number: int, entry: Entry, room: Room) -> None:
        """Note what is decided up to a start; the walk goes on behind it."""
        before = {} if self.settled is None else self.settled.picked.room_for
        starts = [*picked.starts[:number], (entry, room.pool)]
        head = picked.head if picked.head is not None and picked.head.key < entry.key else None
        kept = Selection(
            starts,
            list(self.left.values()),
            _misfits_before(picked, entry.key, self.ranking),
            head,
            before | {victim.job_id: entry.job_id for victim in room.victims},
        )
        self.settled = Settled(entry.key, kept, dict(self.placed))
        self._mark = self.draft.mark

    def _find_in(self, entry: Entry, pool: str) -> Shares | Reason:
        return self.draft.place(self.placement, pool, self._demand(entry, pool))

    def _demand(self, entry: Entry, pool: str) -> Demand:
        """Return what a job must find in a pool."""
        demand = self.ranking.classes[entry.number].demand
        if self._guarantees is None:
            return demand
        return self._guarantees.demand(demand, self.view.jobs[entry.job_id], pool)

    def _leave(self, entry: Entry) -> None:
        self.left[entry.job_id] = entry
        for share in self._freed_by(entry):
            self.draft.give(share)

    def _stay(self, entry: Entry) -> bool:
        """Let a job that has left come back, if what it held is still free."""
        if not self.draft.take_back(self._freed_by(entry)):
            return False
        del self.left[entry.job_id]
        return True

    def _freed_by(self, victim: Entry) -> Sequence[Share]:
        """Return what is free once a victim has left, and all others of `left` have."""
        job = self.view.jobs[victim.job_id]
        held = job.allocation
        if held.sharing is _EXCLUSIVE:
            return held.shares if self._guarantees is None else self._guarantees.shares(job)
        return self.view.cluster.deciding.emptied(held.shares, self.left)


def _pools_for(demand: Demand, view: View) -> list[str]:
    """Return the pools in which a job may be, in the order in which they are tried."""
    if not demand.gpus:
        return pools_without_gpus(view.pools)
    return [name for name in demand.gpu_types or view.pools if name in view.pools]


def _misfits_before(picked: Selection, key: int, ranking: Ranking) -> dict[int, Reason]:
    """Return the misfits that were found before a job had its turn.

    That of a class was found when its first job that does not start had its turn.
    """
    started: dict[int, int] = {}
    for entry, _ in picked.starts:
        if entry.pool is NO_POOL:
            started[entry.number] = started.get(entry.number, 0) + 1
    found = {}
    for number, reason in picked.misfits.items():
        waiting = ranking.classes[number]
        place = waiting.first + started.get(number, 0)
        if place < len(waiting.keys) and waiting.keys[place] < key:
            found[number] = reason
    return found
