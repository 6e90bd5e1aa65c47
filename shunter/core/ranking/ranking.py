"""The memory of every index policy: all jobs in rank order, kept up to date event by event.

Waiting jobs stand in one list for each class of equal demands, running ones in one for each bound
they count against. Whatever happens to a job, `sync` compares where it stands with where it
belongs; there is no second way in or out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any

from shunter.core.cluster import Pool
from shunter.core.placement import Packing
from shunter.core.planning.guards import Band
from shunter.core.planning.making_room import HELD_BACK, RoomMemory
from shunter.core.planning.plan import Plan
from shunter.core.proposals.memory import ProposalMemory
from shunter.core.ranking.consolidation_classes import Classes
from shunter.core.ranking.index import Ranks
from shunter.core.ranking.keys import band_of, ordinal_of, pack
from shunter.core.ranking.rank_memory import Notes
from shunter.core.ranking.ranked_usage import RankedUsage
from shunter.core.ranking.waiting_class import WaitingClass
from shunter.core.sizing import SizeBook
from shunter.core.state import RUNNING, WAITING, Job
from shunter.core.view import View
from shunter.events.rows import DERIVED
from shunter.events.values.fact import record
from shunter.events.values.ids import JobId, QueueName
from shunter.events.values.job_spec import Demand, SuspendMode
from shunter.events.values.reasons import ClassWait, Reason, Wait

NO_POOL = "-"  # the pool of a waiting job
_UNPLACED = (
    Reason.no_capacity,
    Reason.fragmented,
    Reason.locality_not_met,
    Reason.cpu_or_memory_short,
    Reason.split_kept,
)
_NORMAL, _NEVER = int(Band.normal), SuspendMode.never


@record
class Entry:
    """One job in the ranking.

    `number` is that of its class; `pool` the GPU type it runs on, or NO_POOL while it waits.
    """

    job_id: JobId
    ordinal: int
    number: int
    key: int
    gpus: int
    pool: str
    changes_at: int | None


@dataclass(slots=True)
class Ranking:
    """All jobs that run or could, in rank order; `bounded` queues have a quota.

    `ranks` is what the policy asks where jobs stand; it may keep `notes`. `classed` says under
    which demand a job waits; None: under its own. `reclassed` are waiting jobs whose class is
    another one than the one recorded last. `sizes` is the book of a policy that sizes jobs,
    `proposals` what job schedulers remember, where they propose. `packing` is what a placement that
    adapts to the load goes by, `room` what a maker of room does.
    """

    entries: dict[JobId, Entry] = field(default_factory=dict)
    seen: list[tuple[Demand, Reason | None]] = field(default_factory=list)
    replan_needed: bool = True
    replan_at_once: bool = False
    unsteady: dict[JobId, None] = field(default_factory=dict)
    bounded: list[QueueName] = field(default_factory=list)
    notes: Notes = field(default_factory=Notes)
    reclassed: dict[JobId, None] = field(default_factory=dict)
    sizes: SizeBook | None = None
    proposals: ProposalMemory | None = None
    packing: Packing = field(default_factory=dict)
    room: RoomMemory | None = None
    by_ordinal: dict[int, Entry] = field(default_factory=dict, metadata=DERIVED)
    classes: list[WaitingClass] = field(default_factory=list, metadata=DERIVED)
    numbers: dict[Demand, int] = field(default_factory=dict, metadata=DERIVED)
    looks_stale: bool = field(default=True, metadata=DERIVED)
    pools: dict[str, RankedUsage] = field(default_factory=dict, metadata=DERIVED)
    quotas: dict[QueueName, RankedUsage] = field(default_factory=dict, metadata=DERIVED)
    unplaced: dict[int, None] = field(default_factory=dict, metadata=DERIVED)
    timers: list[tuple[int, int]] = field(default_factory=list, metadata=DERIVED)
    waiting: int = field(default=0, metadata=DERIVED)
    ranks: Ranks | None = field(default=None, metadata=DERIVED)
    classed: Classes | None = field(default=None, metadata=DERIVED)

    def restored(self) -> None:
        """Rebuild the lists from the entries."""
        self.quotas = {name: RankedUsage() for name in self.bounded}
        seen, self.seen = self.seen, []
        for demand, reason in seen:
            self._record(self._class_of(demand), reason)
        for entry in self.entries.values():
            self.by_ordinal[entry.ordinal] = entry
            self._insert(entry)
        self.timers = [
            (entry.changes_at, entry.ordinal)
            for entry in self.entries.values()
            if entry.changes_at is not None
        ]
        heapify(self.timers)

    def sync(self, job: Job, index: Ranks, view: View) -> None:
        """Put a job where it belongs now: among the running, the waiting, or nowhere."""
        if self.sizes is not None:
            self.sizes.sync(job)
        entry = self.entries.get(job.job_id)
        if entry is not None:
            if entry.pool is NO_POOL:
                self.classes[entry.number].remove(entry.key)
                self.waiting -= 1
            else:
                self.unseat(entry)
        shares = job.allocation.shares
        if shares and not job.end_cause and job.exit_code is None:
            pool: str = view.cluster.servers[shares[0].node].configuration.gpu_type
            gpus = job.gpus or job.allocation.gpus
        elif job.phase is WAITING and not job.is_on_hold and not job.blocked_by:
            pool, gpus = NO_POOL, job.demand.gpus
        else:
            if entry is not None:
                self._forget(entry)
            return
        rank, changes_at = index.standing(job, view)
        ordinal, demand = job.ordinal, job.demand
        is_pinned = job.spec.suspend_mode is _NEVER or (shares and job.phase is not RUNNING)
        if is_pinned or view.is_guarded:
            band = view.guards.band(job, view.now_us)
            changes_at = _earliest(changes_at, view.guards.changes_at(job, view.now_us))
            key = pack(band, job.priority, rank, ordinal)
        else:
            key = pack(_NORMAL, job.priority, rank, ordinal)
        if self.classed is not None:
            demand = self.classed.demand_of(job, view.messages)
            if demand.tight is not job.must_consolidate and pool is NO_POOL:
                self.reclassed[job.job_id] = None
            else:
                self.reclassed.pop(job.job_id, None)
        if entry is None:
            number = self._class_of(demand).number
            entry = Entry(job.job_id, ordinal, number, key, gpus, pool, changes_at)
            self.entries[job.job_id] = self.by_ordinal[ordinal] = entry
        else:
            if self.classes[entry.number].demand is not demand:
                entry.number = self._class_of(demand).number
            entry.key, entry.gpus, entry.pool, entry.changes_at = key, gpus, pool, changes_at
        if changes_at is not None:
            heappush(self.timers, (changes_at, ordinal))
        if index.drifts or index.wanders:
            self._note_drift(job, index)
        if pool is NO_POOL:
            self.classes[entry.number].add(key)
            self.waiting += 1
        else:
            self.seat(entry)

    def is_behind(self, job_id: JobId) -> bool:
        """Say whether a job waits behind another of its class that is known not to fit.

        Nothing that could help it would not help the other one first, so it needs no plan.
        """
        entry = self.entries.get(job_id)
        if entry is None:
            return True
        waiting = self.classes[entry.number]
        return waiting.recorded is not None and waiting.keys[waiting.first] < entry.key

    def held_back(self, plan: Plan) -> list[JobId]:
        """Return who waits for a place alone after a plan, in rank order."""
        told = {each.demand: each.wait for each in plan.waits}
        changed = {change.job_id for change in plan.changes}
        keys: list[int] = []
        for waiting in self.classes:
            wait = told.get(waiting.demand)
            if waiting.demand in told:
                reason = None if wait is None else wait.reason
            else:
                reason = waiting.recorded
            if reason in HELD_BACK:
                keys += waiting.in_order
        held = [self.entry_at(key).job_id for key in sorted(keys)]
        return [job_id for job_id in held if job_id not in changed]

    def is_starved(self, job_id: JobId) -> bool:
        """Say whether a job stands at the head because it has waited too long."""
        entry = self.entries.get(job_id)
        return entry is not None and band_of(entry.key) == Band.starved

    def remove(self, job_id: JobId) -> None:
        """Forget a job that has ended."""
        if self.sizes is not None:
            self.sizes.drop(job_id)
        entry = self.entries.get(job_id)
        if entry is None:
            return
        if entry.pool is NO_POOL:
            self.classes[entry.number].remove(entry.key)
            self.waiting -= 1
        else:
            self.unseat(entry)
        self._forget(entry)

    def next_change(self) -> int | None:
        """Return the next instant at which a rank changes by itself."""
        timers = self.timers
        while timers:
            at_us, ordinal = timers[0]
            entry = self.by_ordinal.get(ordinal)
            if entry is not None and entry.changes_at == at_us:
                return at_us
            heappop(timers)
        return None

    def due(self, now_us: int) -> list[JobId]:
        """Take out the jobs whose rank has changed by itself up to now, in order."""
        found = []
        while (at_us := self.next_change()) is not None and at_us <= now_us:
            _, ordinal = heappop(self.timers)
            entry = self.by_ordinal[ordinal]
            entry.changes_at = None
            found.append(entry.job_id)
        return found

    def entry_at(self, key: int) -> Entry:
        """Return the entry with a key."""
        return self.by_ordinal[ordinal_of(key)]

    def note_recorded(self, waits: Iterable[ClassWait]) -> None:
        """Note what was recorded of the classes."""
        for entry in waits:
            number = self.numbers.get(entry.demand)
            if number is not None:
                reason = None if entry.wait is None else entry.wait.reason
                self._record(self.classes[number], reason)

    def remember(self, waits: Mapping[Demand, Wait]) -> None:
        """Note what was recorded before this ranking began."""
        for demand, wait in waits.items():
            self._record(self._class_of(demand), wait.reason)

    def look_at(self, pools: Mapping[str, Pool]) -> None:
        """Bring the classes up to date with a cluster that changed."""
        if self.looks_stale:
            for waiting in self.classes:
                waiting.look_at(pools)
            self.looks_stale = False

    def set_quotas(self, quotas: Mapping[QueueName, Any]) -> None:
        """Keep a budget for each queue that has a quota."""
        wanted = {name for name, queue in quotas.items() if queue.quota_gpus is not None}
        if wanted == self.quotas.keys():
            return
        self.bounded = [name for name in quotas if name in wanted]
        self.quotas = {name: RankedUsage() for name in self.bounded}
        for entry in self.entries.values():
            quota = self._quota_of(entry)
            if entry.pool != NO_POOL and quota is not None:
                quota.add(entry.key, entry.gpus)

    def _insert(self, entry: Entry) -> None:
        if entry.pool == NO_POOL:
            entry.pool = NO_POOL  # the very one: it may come from a snapshot
            self.classes[entry.number].add(entry.key)
            self.waiting += 1
        else:
            self.seat(entry)

    def seat(self, entry: Entry) -> None:
        """Put a job among the running of its pool, and of its queue if that has a quota."""
        pool = self.pools.get(entry.pool)
        if pool is None:
            pool = self.pools[entry.pool] = RankedUsage()
        pool.add(entry.key, entry.gpus)
        if self.quotas and (quota := self._quota_of(entry)) is not None:
            quota.add(entry.key, entry.gpus)

    def unseat(self, entry: Entry) -> None:
        """Take a job from among the running."""
        self.pools[entry.pool].remove(entry.key)
        if self.quotas and (quota := self._quota_of(entry)) is not None:
            quota.remove(entry.key)

    def _quota_of(self, entry: Entry) -> RankedUsage | None:
        return self.quotas.get(self.classes[entry.number].demand.queue)

    def _class_of(self, demand: Demand) -> WaitingClass:
        number = self.numbers.get(demand)
        if number is None:
            number = self.numbers[demand] = len(self.classes)
            self.classes.append(WaitingClass(demand, number, demand.gpus))
            self.seen.append((demand, None))
            self.looks_stale = True
        return self.classes[number]

    def _record(self, waiting: WaitingClass, reason: Reason | None) -> None:
        waiting.recorded = reason
        if reason in _UNPLACED:
            self.unplaced[waiting.number] = None
        elif self.unplaced:
            self.unplaced.pop(waiting.number, None)
        self.seen[waiting.number] = (waiting.demand, reason)

    def _note_drift(self, job: Job, index: Ranks) -> None:
        """Note whether a placed job's rank does not fall by one a microsecond."""
        if job.allocation.shares and (
            index.wanders or job.working_since_us is None or job.speed != 1.0
        ):
            self.unsteady[job.job_id] = None
        elif self.unsteady:
            self.unsteady.pop(job.job_id, None)

    def _forget(self, entry: Entry) -> None:
        self.unsteady.pop(entry.job_id, None)
        if self.reclassed:
            self.reclassed.pop(entry.job_id, None)
        del self.entries[entry.job_id]
        del self.by_ordinal[entry.ordinal]


def _earliest(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
