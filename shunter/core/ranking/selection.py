"""Who runs: the greedy walk in rank order, done incrementally.

The rule is the papers' own: go through all jobs from the first rank to the last and let each run
that fits into what is left. Walking thousands of jobs at every round would be slow, and is not
needed: the running jobs all fit together, so the walk can jump from one waiting job to the next.
What a job finds free at its turn is what is free now, plus what running jobs ranked after it
hold. Going on, that only falls; so a class of equal jobs whose first member does not fit is out.

Whoever must leave may find other GPUs at its own turn, in another pool or in another place: it is
picked again, as a start, and the plan moves it.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import field
from heapq import heapify, heappop, heapreplace
from typing import Final

from shunter.core.cluster import CPU_POOL
from shunter.core.planning.moving import may_move_evicted
from shunter.core.ranking.index import Index, Misfit
from shunter.core.ranking.keys import FIRST, LAST, ORDINAL_MASK, drift
from shunter.core.ranking.ranked_usage import RankedUsage
from shunter.core.ranking.ranking import Entry, Ranking
from shunter.core.ranking.waiting_class import WaitingClass
from shunter.core.view import View
from shunter.events.values.allocation import Share
from shunter.events.values.fact import record, replace
from shunter.events.values.ids import JobId
from shunter.events.values.reasons import Reason

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

    __slots__ = (
        "_at",
        "_evicted",
        "_only",
        "_over",
        "drift",
        "excluded",
        "free",
        "picked",
        "preemptive",
        "quota_free",
        "ranking",
        "settled",
        "skipped",
        "skips",
        "view",
    )

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
            bounds = self._bounds()
            for budget, free in bounds:
                if free < 0 and (short := -free - budget.after(upto)) > 0:
                    key = budget.first_misfit(self._at, upto, short)
                    first = key if first is None else min(first, key)
            if first is None:
                self._over = any(free < 0 for _, free in bounds)
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
        """Do the same with one bound; return what is free then.

        Running jobs ranked after `upto` hold `behind` GPUs.
        """
        picked = self.picked
        while free + behind < 0:
            self._at = budget.first_misfit(self._at, upto, -free - behind)
            victim = self.ranking.entry_at(self._at)
            picked.victims.append(victim)
            free += victim.gpus
        return free

    def _bounds(self) -> list[tuple[RankedUsage, int]]:
        pools, quotas = self.ranking.pools, self.ranking.quotas
        found = [(pools[name], free) for name, free in self.free.items() if name in pools]
        return found + [(quotas[name], free) for name, free in self.quota_free.items()]
