"""Where the picked jobs go: in a draft, after the victims have left.

Starts are placed in rank order. Where numbers of GPUs are all that counts, who has to leave follows
from the numbers. A job that asks for more (GPUs near together, a split, CPUs, memory) may find no
place among those: then the victims follow from a place that it could have (`make_room`).
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from shunter.core.placement import Placement
from shunter.core.planning.draft import Draft, pools_without_gpus
from shunter.core.ranking.ranking import NO_POOL, Entry, Ranking
from shunter.core.ranking.selection import Selection, Settled
from shunter.core.sizing import Guarantees
from shunter.core.view import View
from shunter.events.values.allocation import Share, Sharing
from shunter.events.values.ids import JobId
from shunter.events.values.job_spec import Demand
from shunter.events.values.reasons import Reason

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

    __slots__ = (
        "_guarantees",
        "_mark",
        "draft",
        "left",
        "placed",
        "placement",
        "ranking",
        "settled",
        "view",
    )

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
        if demand.is_met_by_count and not self._has_units(misplaced.pool):
            return False
        number = next(at for at, (other, _) in enumerate(picked.starts) if other is entry)
        self._keep_places_only(picked, number, rank)
        rooms = [
            room
            for pool in _pools_for(demand, self.view)
            if (room := self._room(entry, pool, rank)) is not None
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

    def _has_units(self, pool: str) -> bool:
        """Say whether a pool is of units of CPU, whose CPUs must be free too."""
        return pool in self.draft.pools and bool(self.draft.pools[pool].unit_cpus_milli)

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
