"""An index policy: any index, on the one incremental engine.

`RankedPolicy` makes plans of a ranking (`ranking`) and a walk through it (`selection`). Before it
come the events a ranking listens to, what holds back each class, and EASY backfill.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from heapq import merge
from typing import Any, NamedTuple, TypeVar

from shunter.core.interfaces import Observer, Observers, Rng, both
from shunter.core.plan import EMPTY_PLAN, Change, Move, Plan, Reservation, Start, Suspend
from shunter.core.planning import (
    Draft,
    Extended,
    Placement,
    at_load,
    note_load,
    untangled,
    without_proposed,
)
from shunter.core.ranking.ranking import (
    LAST,
    NO_POOL,
    Entry,
    Index,
    Misfit,
    RankedUsage,
    Ranking,
    Ranks,
    Relative,
    Remembering,
    Telling,
    WaitingClass,
    classes_of,
    drift,
    ordinal_of,
    pack,
    rank_of,
    unguarded,
)
from shunter.core.ranking.selection import Bars, Placing, Selection, Shares, Walk
from shunter.core.recorded_words import MAKES_ROOM
from shunter.core.sizing import (
    Guarantees,
    SizeBook,
    Sizing,
    SizingInput,
    seek,
    sized_plan,
    solve_sizes,
    speed_of_sizes,
)
from shunter.core.speeds import has_learnt_floor
from shunter.core.state import WAITING, Job
from shunter.core.view import Band, View
from shunter.events import (
    CLUSTER_CHANGES,
    JOB_ENDS,
    Allocation,
    Because,
    ClassWait,
    Event,
    JobId,
    Reason,
    Resources,
    Wait,
    facts,
)

_TOUCHED = (
    facts.JobHeld,
    facts.JobReleased,
    facts.JobPriorityChanged,
    facts.JobResized,
    facts.JobCancelRequested,
    facts.TimeLimitReached,
    facts.AttemptStarted,
    facts.SpeedChanged,
    facts.TrainingStarted,
    facts.AttemptEnded,
    facts.JobSuspended,
    facts.CheckpointDiscarded,
)
_LEFT = (facts.AttemptLost, facts.LaunchFailed, facts.GpusReleased, facts.AllocationLearned)


def listeners(memory: Ranking, index: Index, ranks: Any) -> Observers:
    """Return who keeps a ranking up to date; `ranks` tells where jobs stand."""
    observers = dict[type[Event], Any](_of_jobs(memory, index, ranks))
    forgets = ranks.ended if isinstance(index, Remembering) else None

    def rank_all(view: View) -> None:
        for job in view.jobs.values():
            memory.sync(job, ranks, view)

    def ended(event: Any, view: View) -> None:
        memory.remove(event.job_id)
        result = view.result
        if forgets is not None and forgets(
            result.departed, finished=type(event) is facts.JobFinished
        ):
            rank_all(view)
        for job_id in result.unblocked:
            memory.sync(view.jobs[job_id], ranks, view)
        for job in result.launched:
            memory.sync(job, ranks, view)
        memory.replan_needed = True

    def changed(event: Any, view: View) -> None:
        for job in view.resumable:  # one may be placed in any split once no checkpoint is left
            memory.sync(job, ranks, view)
        for job in view.launched:
            memory.sync(job, ranks, view)
        memory.replan_needed = memory.looks_stale = True

    def quota(event: facts.QuotaChanged, view: View) -> None:
        memory.set_quotas(view.queues)
        rank_all(view)
        memory.replan_needed = True

    def planned(event: facts.RoundPlanned, view: View) -> None:
        memory.replan_needed = memory.replan_at_once = False
        if memory.sizes is not None:
            memory.sizes.unsized.clear()
            memory.sizes.answer = None
        if event.waits:
            memory.note_recorded(event.waits)
        for job_id in (*event.consolidated, *event.spread):
            memory.reclassed.pop(job_id, None)

    def learnt(event: facts.ToleranceLearnt, view: View) -> None:
        for job in view.jobs.values():  # floors may bound them otherwise
            if job.spec.model == event.model and has_learnt_floor(job.spec):
                memory.sync(job, ranks, view)
                memory.replan_needed = True

    def resized(event: Any, view: View) -> None:
        rank_all(view)
        memory.replan_needed = memory.looks_stale = True

    observers.update(dict.fromkeys(JOB_ENDS, ended))
    observers.update(dict.fromkeys((*CLUSTER_CHANGES, facts.PlanRejected), changed))
    if isinstance(index, Relative) and index.is_relative:
        observers.update(dict.fromkeys((facts.NodeAdded, facts.NodeRemoved), resized))
    return observers | {
        facts.QuotaChanged: quota,
        facts.RoundPlanned: planned,
        facts.ToleranceLearnt: learnt,
    }


def estimating(memory: Ranking, ranks: Any) -> Observer:
    """Return who ranks a job anew when a sample tells how long it will still run."""

    def sampled(event: facts.ProfileSampled, view: View) -> None:
        job = view.jobs[event.job_id]
        if not view.is_declared(job):
            memory.sync(job, ranks, view)
            memory.replan_needed = True

    return sampled


def _of_jobs(memory: Ranking, index: Index, ranks: Any) -> Observers:
    """Return who hears of what happens to one job before its end."""
    preemptive = index.preemptive
    looks_at_limits = index.misfit is Misfit.reserved

    def touched(event: Any, view: View) -> None:
        memory.sync(view.jobs[event.job_id], ranks, view)
        memory.replan_needed = True

    def submitted(event: facts.JobSubmitted, view: View) -> None:
        memory.sync(view.jobs[event.job_id], ranks, view)
        if not memory.replan_needed:
            is_told = event.job_id not in memory.reclassed and memory.is_behind(event.job_id)
            memory.replan_needed = looks_at_limits or not is_told

    def left(event: Any, view: View) -> None:
        touched(event, view)
        for job in view.launched:
            memory.sync(job, ranks, view)

    def allocated(event: facts.AllocationChanged, view: View) -> None:
        starved = view.is_guarded and memory.is_starved(event.job_id)
        memory.sync(view.jobs[event.job_id], ranks, view)
        # Once it runs it is starved no more; who had to leave one pool, or one place in it, may fit
        # another; who found no place may now make others leave, and find one; and who loses what
        # it had not begun to use has waited all the time, and stands where that puts it.
        moved_on = not event.allocation.shares and (
            view.cluster.has_types or event.because.rule == MAKES_ROOM
        )
        risen = not event.allocation.shares and event.job_id in memory.notes.levels
        if starved or moved_on or risen or (memory.unplaced and preemptive):
            memory.replan_needed = memory.replan_at_once = True

    observers: dict[type[Event], Any] = dict.fromkeys(_TOUCHED, touched)
    observers.update(dict.fromkeys(_LEFT, left))
    observers |= {facts.JobSubmitted: submitted, facts.AllocationChanged: allocated}
    if memory.sizes is not None:
        sizes = memory.sizes

        def reshaped(event: facts.JobReshaped, view: View) -> None:
            sizes.sync(view.jobs[event.job_id])

        def solved(event: facts.SizesSet, view: View) -> None:
            sizes.answer = {
                size.job_id: Resources(0, size.cpus_milli, size.memory_mb) for size in event.sizes
            }

        def corrected(event: facts.SensitivityCorrected, view: View) -> None:
            sizes.correct(event.model, view)
            memory.replan_needed = True

        def refused(event: facts.ReshapeRefused, view: View) -> None:
            touched(event, view)
            sizes.unsized.update(dict.fromkeys([share.node for share in event.kept]))

        observers |= {facts.JobReshaped: reshaped, facts.SizesSet: solved}
        observers |= {facts.SensitivityCorrected: corrected, facts.ReshapeRefused: refused}
    return observers


_BLOCKERS = 3
_OUTRANKED, _NO_CAPACITY = Reason.outranked, Reason.no_capacity
_PINNED_END = pack(Band.starved, 1 << 22, 0, 0)


def class_waits(walk: Walk, view: View) -> tuple[ClassWait, ...]:
    """Return the classes whose reason is not the recorded one (all, if asked for)."""
    ranking, picked = walk.ranking, walk.picked
    started: dict[int, int] = {}
    moved = set[JobId]()
    for entry, _ in picked.starts:
        number = entry.number
        if entry.pool is NO_POOL:
            started[number] = started.get(number, 0) + 1
        else:
            moved.add(entry.job_id)
    left = {victim.number for victim in picked.victims if victim.job_id not in moved}
    usual = _OUTRANKED if walk.preemptive else _NO_CAPACITY
    queued = 0 if walk.skips else max(walk.free.values(), default=0)
    misfits, every = picked.misfits, view.all_reasons
    guarded = bool(view.guards.min_runtime_us or view.guards.preemptions_per_hour is not None)
    found: list[ClassWait] = []
    for waiting in ranking.classes:
        number = waiting.number
        if not waiting.keys or (number in started and waiting.count == started[number]):
            if waiting.recorded is not None and number not in left:
                found.append(ClassWait(waiting.demand, None))
            continue
        reason = waiting.barrier or (misfits.get(number, usual) if misfits else usual)
        if reason is usual and waiting.gpus <= queued:
            reason = _OUTRANKED
        elif guarded and reason is _OUTRANKED:
            reason = _guard(waiting, walk, view) or reason
        if every or waiting.recorded is not reason:
            wait = Wait(
                reason, waiting.gpus, _free(waiting, reason, walk), _blockers(waiting, walk)
            )
            found.append(ClassWait(waiting.demand, wait))
    return tuple(found)


def _free(waiting: WaitingClass, reason: Reason, walk: Walk) -> int:
    """Return how many GPUs the class finds free after this plan."""
    if reason is Reason.quota:
        return max(0, walk.quota_free[waiting.demand.queue])
    names = waiting.demand.gpu_types or walk.free
    return max((walk.free[name] for name in names if name in walk.free), default=0)


def _blockers(waiting: WaitingClass, walk: Walk) -> tuple[JobId, ...]:
    """Return the head it must not overtake, and the running jobs that rank last."""
    picked, ranking = walk.picked, walk.ranking
    found: list[JobId] = []
    if not walk.skips and picked.head and picked.head.key < waiting.keys[waiting.first]:
        found.append(picked.head.job_id)
    for name in waiting.demand.gpu_types or walk.free:
        budget = ranking.pools.get(name, RankedUsage())
        last = reversed(budget.keys[-_BLOCKERS:])
        found.extend(ranking.by_ordinal[ordinal_of(key)].job_id for key in last)
    return tuple(found[:_BLOCKERS])


def _guard(waiting: WaitingClass, walk: Walk, view: View) -> Reason | None:
    """Return the guard that keeps GPUs from a class which would be enough for it.

    Those of guarded jobs that would rank before it without their guard are none of them, unless it
    is told as by logs of before.
    """
    first = waiting.keys[waiting.first] + (walk.drift if view.guards.only_lower else 0)
    for name in waiting.demand.gpu_types or walk.free:
        budget = walk.ranking.pools.get(name)
        if budget is None:
            continue
        count = bisect_right(budget.keys, _PINNED_END)
        pinned = [
            at
            for at in range(count)
            if not view.guards.only_lower or unguarded(budget.keys[at]) > first
        ]
        gpus = sum([budget.gpus[at] for at in pinned])
        if gpus and walk.free[name] + budget.after(first) + gpus >= waiting.gpus:
            job = view.jobs[walk.ranking.entry_at(budget.keys[pinned[0]]).job_id]
            return view.guards.pinned_by(job, view.now_us)
    return None


# EASY backfill. The head of the queue gets a reservation: the first instant at which the declared
# limits of the running jobs leave it enough GPUs. A job behind it starts now if its own limit ends
# before that, or if it uses only GPUs which the head will not need then (Lifka, JSSPP 1995; Mu'alem
# and Feitelson, IEEE TPDS 2001). A job without a limit counts as `default_limit_us`.


@dataclass(slots=True)
class Backfill:
    """The head's reservation: on which pool, from when, how many GPUs it leaves over."""

    pool: str
    start_us: int
    spare: int

    def allows(self, pool: str, gpus: int, ends_us: int) -> bool:
        """Say whether a start does not delay the head; count GPUs it takes for longer."""
        if pool != self.pool or ends_us <= self.start_us:
            return True
        if gpus > self.spare:
            return False
        self.spare -= gpus
        return True


def backfill(walk: Walk, view: View, default_limit_us: int) -> Reservation | None:
    """Let jobs behind the head of a finished walk start; return its reservation."""
    head = walk.picked.head
    if head is None:
        return None
    promise = _reserve(walk, head, view, default_limit_us)
    ranking = walk.ranking
    for key in merge(*(waiting.in_order for waiting in ranking.classes)):
        if key <= head.key:
            continue
        entry = ranking.entry_at(key)
        if key in walk.skipped:
            walk.picked.misfits.setdefault(entry.number, walk.skipped[key])
            continue
        ends_us = _ends_us(view.jobs[entry.job_id], view, default_limit_us)
        for pool in _fitting(walk, entry):
            if promise is None or promise.allows(pool, entry.gpus, ends_us):
                walk.take(entry, pool)
                break
    if promise is None:
        return None
    return Reservation(head.job_id, promise.start_us, head.gpus)


def _reserve(walk: Walk, head: Entry, view: View, default_limit_us: int) -> Backfill | None:
    """Return the earliest promise to the head, over its acceptable pools."""
    promises = [
        promise
        for pool in walk.ranking.classes[head.number].demand.gpu_types or walk.free
        if (promise := _reserve_in(pool, walk, head, view, default_limit_us)) is not None
    ]
    return min(promises, key=lambda promise: promise.start_us, default=None)


def _reserve_in(
    pool: str, walk: Walk, head: Entry, view: View, default_limit_us: int
) -> Backfill | None:
    """Return when the head has enough GPUs of a pool, and of its queue's quota."""
    ranking = walk.ranking
    queue = ranking.classes[head.number].demand.queue
    free, quota = walk.free.get(pool, 0), walk.quota_free.get(queue, head.gpus)
    starting = {entry.job_id: chosen for entry, chosen in walk.picked.starts}
    ends = sorted(
        (_ends_us(view.jobs[entry.job_id], view, default_limit_us), entry.ordinal)
        for entry in ranking.entries.values()
        if entry.pool != NO_POOL or entry.job_id in starting
    )
    at_us = view.now_us
    for end_us, ordinal in ends:
        if free >= head.gpus and quota >= head.gpus and end_us > at_us:
            break
        entry = ranking.by_ordinal[ordinal]
        free += entry.gpus if starting.get(entry.job_id, entry.pool) == pool else 0
        quota += entry.gpus if ranking.classes[entry.number].demand.queue == queue else 0
        at_us = max(at_us, end_us)
    if free < head.gpus or quota < head.gpus:
        return None
    return Backfill(pool, at_us, free - head.gpus)


def _fitting(walk: Walk, entry: Entry) -> list[str]:
    """Return all pools in which a job fits now, the most acceptable first."""
    waiting = walk.ranking.classes[entry.number]
    first = walk.fitting(waiting, entry.key)
    if first is None or not entry.gpus:
        return [] if first is None else [first]
    return [
        name
        for name in waiting.demand.gpu_types or walk.free
        if walk.free.get(name, 0) >= entry.gpus
        and not walk.is_barred(entry.number, name, entry.key)
    ]


def _ends_us(job: Job, view: View, default_limit_us: int) -> int:
    """Return when a job that runs, or starts now, reaches its declared limit."""
    limit_us = job.spec.time_limit_us
    left_us = (default_limit_us if limit_us is None else limit_us) - job.occupied_us(view.now_us)
    return view.now_us + max(0, left_us)


Found = TypeVar("Found")
_GAINERS = 4
_RESERVED = Misfit.reserved  # members are slow to look up
YEAR_US = 365 * 24 * 3_600_000_000


@dataclass(frozen=True)
class RankedPolicy(Extended):
    """Runs jobs in the order of an index, placed by a strategy.

    `default_limit_us` is what a job without a declared limit counts as for EASY reservations. With
    a `sizing`, jobs are given CPUs and memory; without one, what they ask for themselves.
    """

    index: Index
    placement: Placement
    default_limit_us: int = YEAR_US
    sizing: Sizing | None = None

    @property
    def name(self) -> str:
        """The policy's name in configuration and log."""
        return self.index.name

    @property
    def version(self) -> str:
        """The version of its rules; another one may decide otherwise."""
        return self.index.version

    @property
    def oracle(self) -> bool:
        """Whether it sees how long jobs will run."""
        return self.index.oracle

    def start(self, view: View) -> Ranking:
        """Return the ranking of the cluster as it is."""
        ranking = Ranking(classed=classes_of(self.placement))
        ranks = self._ranks(ranking)
        ranking.set_quotas(view.queues)
        ranking.remember(view.class_waits)
        if self.sizing is not None:
            ranking.sizes = SizeBook.of(view, start_small=self.extensions.scheme is not None)
        self.extensions.start(ranking, view)
        for job in view.jobs.values():
            ranking.sync(job, ranks, view)
            if ranking.classed is None and job.must_consolidate and job.phase is WAITING:
                ranking.reclassed[job.job_id] = None
        return ranking

    def observers(self, memory: Ranking) -> Observers:
        """Keep the ranking up to date with everything that happens to jobs and servers."""
        ranks = self._ranks(memory)
        own = {**listeners(memory, self.index, ranks), **self._samples(memory, ranks)}
        return self.extensions.observers(own, memory)

    def _samples(self, memory: Ranking, ranks: Ranks) -> Observers:
        """Hear of samples if the placement learns from them, or an oracle must."""
        if memory.classed is None:
            memory.classed = classes_of(self.placement)  # it was restored
        estimates = estimating(memory, ranks) if self.oracle else None
        if memory.classed is None:
            return {} if estimates is None else {facts.ProfileSampled: estimates}

        def moved() -> None:
            memory.replan_needed = True

        learns = memory.classed.observer(memory.sync, ranks, moved)
        learning: Observers = {facts.ProfileSampled: learns}
        return learning if estimates is None else both(learning, {facts.ProfileSampled: estimates})

    def advance(self, memory: Ranking, view: View) -> None:
        """Re-rank jobs whose rank has changed by itself; see how loaded pools are."""
        note_load(self.placement, memory.packing, view.pools)
        if memory.timers or memory.unsteady:
            ranks = self._ranks(memory)
            for job_id in (*memory.due(view.now_us), *memory.unsteady):
                memory.sync(view.jobs[job_id], ranks, view)

    def target(self, memory: Ranking, view: View) -> facts.SizesSet | None:
        """Return the sizes of jobs where programs say them; there are no targets."""
        if self.sizing is None or self.sizing.solver is None:
            return None
        return self._of_sizable(memory, view, solve_sizes)

    def speed_of(self, sizes: facts.SizesSet, memory: Ranking, view: View) -> float | None:
        """Return the speed that sizes have which were solved for now; None: none are."""
        return self._of_sizable(memory, view, lambda given: speed_of_sizes(given, sizes.sizes))

    def wake_at(self, memory: Ranking) -> int | None:
        """Return the next change of a rank, if anybody waits for it."""
        if not memory.waiting:
            return None
        if memory.replan_at_once:
            return 0
        return self.extensions.wakes_us(memory.next_change(), memory)

    def settled(self, memory: Ranking) -> bool:
        """Say whether nothing happened since the last plan, or nobody minds."""
        sizes = memory.sizes
        if sizes is not None and sizes.unsized and self.sizing is not None and self.sizing.grows:
            return False
        return not memory.waiting or not memory.replan_needed

    def plan(self, memory: Ranking, view: View, rng: Rng) -> Plan:
        """Pick, place, and say why; or let job schedulers propose where."""
        plan, guarantees = self._unsized(memory, view)
        if memory.proposals is not None:
            placement = at_load(self.placement, memory.packing)
            plan = self.extensions.proposed(plan, memory, view, placement, rng, guarantees)
        if guarantees is None:
            return plan
        given = self._sizing_input(plan, guarantees, memory, view)
        return sized_plan(plan, given, is_drafted=not memory.quotas)

    def _unsized(self, memory: Ranking, view: View) -> tuple[Plan, Guarantees | None]:
        """Pick, place, make room, and say why.

        Where jobs are sized, they have what they are guaranteed.
        """
        memory.look_at(view.pools)
        with Draft(view) as draft:
            drafted = self._drafted(memory, view, draft)
            placed = drafted.sought(memory, view)
        plan, guarantees = self._planned(drafted, placed, memory, view), drafted.guarantees
        if memory.places is None:
            return plan, guarantees
        held = memory.held_back(plan)
        # Where nobody overtakes the head, who stands behind it has its turn in the next plan.
        held = held if self.index.misfit is Misfit.skipped else held[:1]
        gangs = [view.jobs[job_id] for job_id in held]
        placement = at_load(self.placement, memory.packing)
        made = self.extensions.with_room_made(plan, memory, view, placement, gangs, guarantees)
        return made, guarantees

    def _planned(
        self,
        drafted: "_Drafted",
        placed: Mapping[JobId, Shares],
        memory: Ranking,
        view: View,
    ) -> Plan:
        """Say who starts and leaves, who waits and why."""
        walk, promise = drafted.walk, drafted.promise
        picked, waits = walk.picked, class_waits(walk, view)
        moved = memory.reclassed
        if not (picked.starts or picked.victims or waits or moved or promise):
            return EMPTY_PLAN
        stay = [view.jobs[job_id] for job_id in moved if job_id not in placed] if moved else ()
        return Plan(
            self._changes(picked, placed, view),
            waits,
            reservations=() if promise is None else (promise,),
            consolidated=tuple([job.job_id for job in stay if not job.must_consolidate]),
            spread=tuple([job.job_id for job in stay if job.must_consolidate]),
            # A lowered quota may ask pinned jobs to leave, which only the approver refuses.
            is_drafted=not memory.quotas,
        )

    @cached_property
    def numbers(self) -> Callable[[int], tuple[int, ...]]:
        """What a rank says, each number of 64 bits."""
        return self.index.numbers if isinstance(self.index, Telling) else lambda rank: (rank,)

    def _ranks(self, memory: Ranking) -> Any:
        """Return what tells where jobs stand: the index itself, or with its notes."""
        if memory.ranks is None:
            index = self.index
            memory.ranks = index.ranks(memory.notes) if isinstance(index, Remembering) else index
        return memory.ranks

    def _guarantees(self, memory: Ranking, view: View, draft: Draft) -> Guarantees | None:
        """Return what jobs must find to start; None: what they ask for themselves."""
        if self.sizing is None or memory.sizes is None:
            return None
        asked = any(
            waiting.keys and (waiting.demand.cpus_milli or waiting.demand.memory_mb)
            for waiting in memory.classes
        )
        sizes = memory.sizes
        if sizes.sizing is None:
            sizes.sizing = self.sizing.corrected(view.corrections)
        return Guarantees(sizes.sizing, sizes, view, draft, asked=asked)

    def _drafted(self, memory: Ranking, view: View, draft: Draft) -> "_Drafted":
        """Pick and place, again without the jobs that find no place, until all do."""
        excluded: Bars = {}
        skipped: dict[int, Reason] = {}
        guarantees = self._guarantees(memory, view, draft)
        placement = at_load(self.placement, memory.packing)
        placing = Placing(draft, placement, memory, view, guarantees)
        while True:
            walk = Walk(memory, view, self.index, excluded, placing.settled, skipped)
            picked = walk.run()
            promise = None
            if self.index.misfit is _RESERVED:
                promise = backfill(walk, view, self.default_limit_us)
            misplaced = placing.place(picked)
            if misplaced is None:
                return _Drafted(walk, placing, promise, guarantees)
            preempts = self.index.preemptive
            if not preempts or not placing.make_room(misplaced, picked, walk.drift):
                entry, pool, reason = misplaced
                if guarantees is not None and guarantees.sizing.is_by_model:
                    skipped[entry.key] = reason
                else:
                    excluded[entry.number, pool] = (entry.key, reason)
                placing.back()

    def _of_sizable(
        self, memory: Ranking, view: View, find: Callable[[SizingInput], Found | None]
    ) -> Found | None:
        """Return what is found of the round that comes next; None: nothing is sized."""
        plan, guarantees = self._unsized(memory, view)
        if guarantees is None:
            return None
        if self.extensions.scheme is not None:  # where the others start, the approver says
            plan = without_proposed(plan)
        return find(self._sizing_input(plan, guarantees, memory, view))

    def _sizing_input(
        self, plan: Plan, guarantees: Guarantees, memory: Ranking, view: View
    ) -> SizingInput:
        """Return what is to be sized after a plan without sizes."""
        assert memory.sizes is not None, "who sizes keeps a book"
        entries, drifts_by = memory.entries, drift(view.now_us) if self.index.drifts else 0

        def rank(job_id: JobId) -> int:
            entry = entries.get(job_id)
            if entry is None:
                return LAST  # it is about to end
            return entry.key + drifts_by if entry.pool is NO_POOL else entry.key

        return SizingInput.of(plan, guarantees, memory.sizes, view, rank)

    def _changes(
        self,
        picked: Selection,
        placed: Mapping[JobId, Shares],
        view: View,
    ) -> tuple[Change, ...]:
        """Return suspensions, moves and starts, each with its rule."""
        changes: list[Change] = []
        if picked.victims:
            zero = view.now_us if self.index.drifts else 0
            moves: dict[JobId, Move] = {}
            for suspension in self._suspensions(picked, zero):
                job_id, shares = suspension.job_id, placed.get(suspension.job_id)
                if shares is None:
                    changes.append(suspension)
                elif shares != view.jobs[job_id].allocation.shares:
                    moves[job_id] = Move(job_id, Allocation(shares), suspension.because)
            for some in untangled(moves, view):
                changes.extend(some)
        reasons: dict[int, Because] = {}
        numbers = self.numbers
        for entry, _ in picked.starts:
            rank, job_id = rank_of(entry.key), entry.job_id
            if entry.pool is not NO_POOL:
                continue  # it is moved
            because = reasons.get(rank)
            if because is None:
                because = reasons[rank] = Because(self.name, numbers(rank))
            changes.append(Start(job_id, Allocation(placed[job_id]), because))
        return tuple(changes)

    def _suspensions(self, picked: Selection, zero: int) -> Iterator[Suspend]:
        """Yield who leaves: for the first starts, or for who needs its place."""
        room_for = picked.room_for
        gainers = tuple([entry.job_id for entry, _ in picked.starts[:_GAINERS]])
        reasons: dict[tuple[int, JobId | None], Because] = {}
        for victim in picked.victims:
            rank, job_id = rank_of(victim.key), victim.job_id
            gainer = room_for.get(job_id) if room_for else None
            because = reasons.get((rank, gainer))
            if because is None:
                rule = "outranked" if gainer is None else MAKES_ROOM
                for_whom = gainers if gainer is None else (gainer,)
                if job_id in for_whom:  # it is moved
                    for_whom = tuple([other for other in for_whom if other != job_id])
                because = Because(rule, self.numbers(rank - zero), for_whom)
                reasons[rank, gainer] = because
            yield Suspend(job_id, because)


class _Drafted(NamedTuple):
    """Who starts and who leaves, and where, while the draft is open."""

    walk: Walk
    placing: Placing
    promise: Reservation | None
    guarantees: Guarantees | None

    def sought(self, memory: Ranking, view: View) -> Mapping[JobId, Shares]:
        """Return where jobs start: in better places, where they are sized."""
        placing, guarantees = self.placing, self.guarantees
        if guarantees is None:
            return placing.placed
        picked = [
            (view.jobs[entry.job_id], memory.classes[entry.number].demand, pool)
            for entry, pool in self.walk.picked.starts
        ]
        placed = seek(guarantees, placing.draft, placing.placement, picked, placing.placed)
        return {
            job_id: guarantees.beside(view.jobs[job_id], shares)
            for job_id, shares in placed.items()
        }
