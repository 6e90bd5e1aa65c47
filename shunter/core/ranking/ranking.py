"""The memory of every index policy: all jobs in rank order, kept up to date event by event.

Waiting jobs are in one list for each class of equal demands, running ones in one for each bound
they count against. `sync` is the only way in or out: it moves a job from where it is to where it
belongs.

First what an index is, and what it may remember of jobs; then the lists that a ranking keeps; then
`Ranking`; last an index that ages.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from heapq import heapify, heappop, heappush
from itertools import accumulate
from typing import Any, NamedTuple, Protocol, runtime_checkable

from shunter.core.cluster import Pool
from shunter.core.plan import Plan
from shunter.core.planning import (
    HELD_BACK,
    Classing,
    Messages,
    Packing,
    Placement,
    ProposalMemory,
    RoomMemory,
)
from shunter.core.ranking.measures import Measure, Measured
from shunter.core.sizing import SizeBook
from shunter.core.speeds import SensitivityTable
from shunter.core.state import RUNNING, WAITING, Job, sooner
from shunter.core.view import Band, View
from shunter.events import (
    DERIVED,
    ClassWait,
    Demand,
    JobId,
    ProfileSampled,
    QueueName,
    Reason,
    SuspendMode,
    Wait,
    record,
)

# A rank is one integer: guard band, priority, the policy's rank, submission ordinal. Integers
# compare ten times faster than tuples, and the ordinal makes the order total. Where ranks drift
# with time (SRTF), running jobs are keyed by the instant at which their rank would reach zero; a
# waiting job is compared with them after adding `drift(now)`.

ORDINAL_BITS = 40
RANK_BITS = 80
PRIORITY_BITS = 24

ORDINAL_MASK = (1 << ORDINAL_BITS) - 1
_RANK_SHIFT = ORDINAL_BITS
_PRIORITY_SHIFT = _RANK_SHIFT + RANK_BITS
_BAND_SHIFT = _PRIORITY_SHIFT + PRIORITY_BITS
_PRIORITY_ZERO = 1 << (PRIORITY_BITS - 1)

LEVEL = 1 << 64  # what lifts a rank above all of another level; those of an index are smaller
PRIORITY_MOST = _PRIORITY_ZERO - 1
RANK_MOST = (1 << (RANK_BITS - 1)) - 1


def pack(band: int, priority: int, rank: int, ordinal: int) -> int:
    """Return the key by which jobs are ordered.

    A lower band, a higher priority, a lower rank, an earlier job goes first.
    """
    first = (band << PRIORITY_BITS) + _PRIORITY_ZERO - priority
    return (((first << RANK_BITS) + rank) << ORDINAL_BITS) + ordinal


def ordinal_of(key: int) -> int:
    """Return the submission ordinal of the job with this key."""
    return key & ORDINAL_MASK


def band_of(key: int) -> int:
    """Return the guard band in a key."""
    return key >> _BAND_SHIFT


def unguarded(key: int) -> int:
    """Return the key that a guarded job would have without its guard."""
    return key + (Band.normal - Band.pinned << _BAND_SHIFT)


def rank_of(key: int) -> int:
    """Return the policy's rank in a key."""
    rank = key >> _RANK_SHIFT & ((1 << RANK_BITS) - 1)
    return rank if rank <= RANK_MOST else rank - (1 << RANK_BITS)


def drift(now_us: int) -> int:
    """Return what to add to a waiting job's key to compare it with running ones."""
    return now_us << _RANK_SHIFT


LAST = 1 << (_BAND_SHIFT + 8)
FIRST = -LAST


# What an index remembers of jobs where their state alone does not give their rank: feedback queues
# (Gu et al., Tiresias, NSDI 2019), and policies that learn from finished jobs.


@record
class Note:
    """A job in a feedback queue.

    It entered its queue at `entered_us`. `service_us` and `held_us` are what it had attained when
    it was last promoted, in GPU-microseconds and microseconds; `waited_us` is how long it has
    waited since, up to the stretch that began at `waits_from_us` (None: none counts now).
    """

    entered_us: int
    queue: int = 0
    service_us: int = 0
    held_us: int = 0
    waited_us: int = 0
    waits_from_us: int | None = None


@dataclass(slots=True)
class Notes:
    """The notes of all jobs that have not ended.

    `levels` are those of the jobs that have risen by waiting, and of those on their turn.
    `finished` is the service of each job that finished, in GPU-microseconds and in the order of
    their ends; the first `learned` of them are in use.
    """

    jobs: dict[JobId, Note] = field(default_factory=dict)
    levels: dict[JobId, int] = field(default_factory=dict)
    finished: list[int] = field(default_factory=list)
    learned: int = 0


class Misfit(StrEnum):
    """What follows if a job does not fit: stop, go on, or go on but keep its promise."""

    stops = "stops"
    skipped = "skipped"
    reserved = "reserved"


class Ranks(Protocol):
    """Says where jobs stand.

    Lower ranks run first, equal ones in the order of submission.
    Where ranks drift, the rank of a job with an allocation is the instant at which it reaches zero.
    """

    @property
    def drifts(self) -> bool:
        """Whether the rank of a running job falls by one a microsecond.

        Then the rank of a placed job is told as the instant at which it would reach zero. Where it
        does not fall at that pace (no progress yet, or another speed), it is told anew at a plan.
        """

    @property
    def wanders(self) -> bool:
        """Whether the rank of a running job falls at a pace of its own.

        Then it is told anew at every plan. Such a job only improves, so no plan is due for it.
        """

    def standing(self, job: Job, view: View) -> tuple[int, int | None]:
        """Return a job's rank now, and when it becomes another one by itself.

        That instant is later than now; None means never.
        """


class Index(Ranks, Protocol):
    """Orders jobs."""

    @property
    def name(self) -> str:
        """The policy's name."""

    @property
    def version(self) -> str:
        """The version of its rules."""

    @property
    def oracle(self) -> bool:
        """Whether it needs to know how long jobs will run."""

    @property
    def preemptive(self) -> bool:
        """Whether running jobs must leave for those ranked before them."""

    @property
    def misfit(self) -> Misfit:
        """What happens after a job that does not fit."""


class IndexDefaults:
    """What most indexes say of themselves (`Index`); one names what is otherwise."""

    version = "1"
    oracle = False
    preemptive = True
    drifts = False
    wanders = False
    misfit = Misfit.skipped


class NotedRanks(Ranks, Protocol):
    """Says where jobs stand by notes of what they did before."""

    def ended(self, job: Job, *, finished: bool) -> bool:
        """Forget a job; say whether the ranks of others are other ones now."""


@runtime_checkable
class Remembering(Protocol):
    """An index that keeps notes of jobs in the policy's memory."""

    def ranks(self, notes: Notes) -> NotedRanks:
        """Return the ranks by these notes, which it keeps up to date from then on."""


@runtime_checkable
class Telling(Protocol):
    """An index whose ranks stand for several numbers."""

    def numbers(self, rank: int) -> tuple[int, ...]:
        """Return what a rank says, most important first; each of 64 bits."""


@runtime_checkable
class Relative(Protocol):
    """An index that may rank jobs by what they are of the whole cluster."""

    @property
    def is_relative(self) -> bool:
        """Whether it does: then ranks are other ones once a server has joined or left."""


@runtime_checkable
class Weighing(Protocol):
    """An index that goes by what makes models fastest, where somebody knows."""

    def knowing(self, table: SensitivityTable) -> Index:
        """Return the index by a table."""


# Most jobs join at the end of their class and leave at its head. So what has left the head stays in
# the list before `first` for a while: moving thousands of keys at every start would cost too much.


@dataclass(slots=True)
class WaitingClass:
    """The keys of one class in rank order, from `first` on.

    `number` is its place among all classes. `recorded` is the reason recorded last for the class.
    `barrier` is why no plan can help it while the cluster is as it is: too few GPUs of its type
    are up.
    """

    demand: Demand
    number: int
    gpus: int
    keys: list[int] = field(default_factory=list)
    first: int = 0
    recorded: Reason | None = None
    barrier: Reason | None = None

    def add(self, key: int) -> None:
        """Insert a waiting job."""
        keys = self.keys
        if not keys or key > keys[-1]:
            keys.append(key)
        else:
            insort(keys, key, self.first)

    def remove(self, key: int) -> None:
        """Take out a waiting job."""
        keys, first = self.keys, self.first
        if keys[first] != key:
            at = bisect_left(keys, key, first)
            assert keys[at] == key, "a waiting job is not where its key says"
            del keys[at]
            return
        self.first = first = first + 1
        if first + first >= len(keys):
            del keys[:first]
            self.first = 0

    @property
    def in_order(self) -> list[int]:
        """The keys of the jobs that wait, in rank order."""
        return self.keys[self.first :]

    @property
    def count(self) -> int:
        """How many jobs of the class wait."""
        return len(self.keys) - self.first

    def look_at(self, pools: Mapping[str, Pool]) -> None:
        """Find out whether enough GPUs that it accepts are up."""
        names = self.demand.gpu_types or pools
        up = [pools[name].gpus_up for name in names if name in pools]
        if not up:
            self.barrier = Reason.gpu_type_unavailable
        else:
            self.barrier = Reason.node_lost if max(up) < self.gpus else None


# GPUs held after a rank are a bisection and the sum of the shorter side of a list of small
# integers.


@dataclass(slots=True)
class RankedUsage:
    """Keys of running jobs in order, and their GPU counts beside them."""

    keys: list[int] = field(default_factory=list)
    gpus: list[int] = field(default_factory=list)
    total: int = 0

    def add(self, key: int, gpus: int) -> None:
        """Insert a running job."""
        keys = self.keys
        at = bisect_left(keys, key)
        keys.insert(at, key)
        self.gpus.insert(at, gpus)
        self.total += gpus

    def remove(self, key: int) -> None:
        """Take out a running job."""
        keys = self.keys
        at = bisect_left(keys, key)
        assert keys[at] == key, "a running job is not where its key says"
        del keys[at]
        self.total -= self.gpus.pop(at)

    def after(self, key: int) -> int:
        """Return how many GPUs the jobs ranked after a key hold."""
        return self.tail(key)[0]

    def tail(self, key: int) -> tuple[int, int]:
        """Return how many GPUs the jobs ranked after a key hold, and the first one's key."""
        at, count = bisect_right(self.keys, key), len(self.keys)
        if at == count:
            return 0, LAST
        if at + at > count:
            return sum(self.gpus[at:]), self.keys[at]
        return self.total - sum(self.gpus[:at]), self.keys[at]

    def misfits(self, after: int, upto: int, short: int) -> list[int]:
        """Return the keys of the jobs in (after, upto] that do not fit, in rank order.

        Going from the first to the last with the GPUs that are left, some do not fit, because
        `short` GPUs are missing for all of them: each that has less than what is still missing
        behind it. The first is near the end, so it is looked for from there.
        """
        keys, gpus = self.keys, self.gpus
        low, last = bisect_right(keys, after), bisect_right(keys, upto) - 1
        at, behind = last, 0
        while at > low and behind + gpus[at] < short:
            behind += gpus[at]
            at -= 1
        found = []
        while short > 0:
            assert low <= at <= last, "GPUs are short, but no running job has any"
            if behind < short:
                found.append(keys[at])
                short -= gpus[at]
            at += 1
            if at <= last:
                behind -= gpus[at]
        return found

    def summed(self) -> "SummedUsage":
        """Return the same as it is now, for many questions."""
        return SummedUsage(self.keys, [0, *accumulate(self.gpus)])


class SummedUsage(NamedTuple):
    """Keys of running jobs in order, and the GPUs of all before each, and of all."""

    keys: list[int]
    before: list[int]

    def after(self, key: int) -> int:
        """Return how many GPUs the jobs ranked after a key hold."""
        return self.before[-1] - self.before[bisect_right(self.keys, key)]

    def first_misfit(self, after: int, upto: int, short: int) -> int:
        """Return the key of the first of the `RankedUsage.misfits`."""
        low, end = bisect_right(self.keys, after), bisect_right(self.keys, upto)
        assert low < end, "GPUs are short, but no running job has any"
        return self.keys[max(low, bisect_right(self.before, self.before[end] - short) - 1)]


# A gang that must be on the fewest servers may wait where another with the same demand starts, so
# its class has a `tight` demand. What is measured of its model may put it into the other class.

Sync = Callable[[Job, Ranks, View], None]


def classes_of(placement: Placement) -> "Classes | None":
    """Return how a placement classes jobs; None: by their demand alone."""
    return None if placement.classing is None else Classes(placement.classing)


@dataclass(slots=True)
class Classes:
    """Under which demand each job waits.

    `tight` are the demands of tight classes, `judged` is how each measured model was last.
    """

    classing: Classing
    tight: dict[Demand, Demand] = field(default_factory=dict)
    judged: dict[str, bool] = field(default_factory=dict)

    def demand_of(self, job: Job, messages: Messages) -> Demand:
        """Return the demand of a job's class, one object for equal ones."""
        demand = job.demand
        if not self.classing.is_tight(job.spec, messages):
            return demand
        tight = self.tight.get(demand)
        if tight is None:
            tight = self.tight[demand] = replace(demand, tight=True)
        return tight

    def observer(self, sync: Sync, ranks: Ranks, flipped: Callable[[], None]) -> Any:
        """Return what moves jobs when a sample shows their model in another light.

        Args:
            sync: puts a job where it belongs.
            ranks: what says where jobs stand.
            flipped: told after jobs were moved.
        """

        def sampled(event: ProfileSampled, view: View) -> None:
            model = view.jobs[event.job_id].spec.model
            if model not in view.messages:
                return
            skewed = self.classing.is_skewed(model, view.messages)
            if self.judged.get(model) is skewed:
                return
            self.judged[model] = skewed
            for job in view.jobs.values():
                if job.spec.model == model:
                    sync(job, ranks, view)
            flipped()

        return sampled


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
    adapts to the load goes by, `places` what a maker of room does.
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
    places: RoomMemory | None = None
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
            changes_at = sooner(changes_at, view.guards.changes_at(job, view.now_us))
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


# A waiting job rises by one level every `every_us`. A higher level goes before all lower ones and
# all that run; on the last level it is first come, first served. A job that starts from a level
# keeps its GPUs for `every_us` against all but higher levels. So after a wait of levels x every_us
# at a stretch, only jobs that have waited longer, and those in their turn on the last level, come
# first.

LEVELS_MOST = 1000
_AHEAD = LEVEL // 4  # before every rank of an index


class Aged:
    """An index whose waiting jobs rise, with the name of the one inside."""

    def __init__(self, index: Index, every_us: int, levels: int) -> None:
        assert every_us > 0
        assert 0 < levels <= LEVELS_MOST
        self._index = index
        self._every_us = every_us
        self._levels = levels
        self.name: str = index.name
        self.version: str = index.version
        self.oracle: bool = index.oracle
        self.preemptive: bool = index.preemptive
        self.misfit: Misfit = index.misfit
        self.drifts: bool = index.drifts
        self.wanders: bool = index.wanders
        self.is_relative: bool = isinstance(index, Relative) and index.is_relative

    def standing(self, job: Job, view: View) -> tuple[int, int | None]:
        """Return how a job stands that is not on its turn."""
        return self.ranks(Notes()).standing(job, view)

    def numbers(self, rank: int) -> tuple[int, ...]:
        """Return the level, and what the rank on it says."""
        level, rest = divmod(rank + LEVEL // 2, LEVEL)
        rest -= LEVEL // 2
        if rest == -_AHEAD or -level == self._levels:
            return (-level,)
        told = self._index.numbers(rest) if isinstance(self._index, Telling) else (rest,)
        return (-level, *told)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """What its numbers count: the level, then those of the index inside."""
        inside = self._index.measures if isinstance(self._index, Measured) else ()
        return (Measure.level, *inside)

    def ranks(self, notes: Notes) -> NotedRanks:
        """Return the raised ranks, over the notes of the index inside if it keeps any."""
        index = self._index
        inside = index.ranks(notes) if isinstance(index, Remembering) else index
        return _AgedRanks(inside, self._every_us, self._levels, notes.levels)


class _AgedRanks:
    """Ranks raised by the time a job has waited; `raised` holds their levels."""

    def __init__(self, inside: Any, every_us: int, levels: int, raised: dict[JobId, int]) -> None:
        self._inside = inside
        self._every_us = every_us
        self._levels = levels
        self._raised = raised
        self._forget = getattr(inside, "ended", None)
        self.drifts: bool = inside.drifts
        self.wanders: bool = inside.wanders

    def standing(self, job: Job, view: View) -> tuple[int, int | None]:
        """Return the rank within the level of a job, and when either changes."""
        rank, changes_at = self._inside.standing(job, view)
        if job.allocation.shares:
            level = self._raised.get(job.job_id)
            if level is None:
                return rank, changes_at
            began_us = job.attempt_began_us
            if began_us is None:
                return -level * LEVEL - _AHEAD, None
            over_us = began_us + self._every_us
            if view.now_us < over_us:
                return -level * LEVEL - _AHEAD, sooner(changes_at, over_us)
            del self._raised[job.job_id]
            return rank, changes_at
        since_us = job.waiting_since_us
        level = 0 if since_us is None else (view.now_us - since_us) // self._every_us
        if since_us is None or not level:
            self._raised.pop(job.job_id, None)
        if since_us is None:
            return rank, changes_at
        if level >= self._levels:
            self._raised[job.job_id] = self._levels
            return since_us - self._levels * LEVEL, None
        if level:
            self._raised[job.job_id] = level
        return rank - level * LEVEL, sooner(changes_at, since_us + (level + 1) * self._every_us)

    def ended(self, job: Job, *, finished: bool) -> bool:
        """Forget a job; say whether the ranks of others are other ones now."""
        self._raised.pop(job.job_id, None)
        return self._forget is not None and bool(self._forget(job, finished=finished))
