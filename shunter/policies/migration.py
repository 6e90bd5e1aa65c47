"""Moves of running jobs: for goals of theirs, tried and undone; or to make room for a gang.

In this order: the planner of migrations, blocks of GPUs that moves can free, the goal `make_room`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop
from itertools import combinations
from typing import Final, NamedTuple, Protocol

from shunter.core import (
    MAKE_ROOM,
    ROOM_MADE,
    RUNNING,
    Change,
    Job,
    Judge,
    Move,
    Plan,
    Pool,
    Server,
    Start,
    Suspend,
    Try,
    View,
    expected_us,
    turn_shares,
)
from shunter.core.planning import (
    Draft,
    Needs,
    Placement,
    TrialRules,
    Verdict,
    groups_within,
    is_known_to_pay,
    model_of,
    pick_gpus,
    proposed,
    running,
)
from shunter.core.speeds import Trial, level_of
from shunter.events import (
    BELOW_SERVER,
    KEPT,
    LEVEL_ORDER,
    MILLION,
    Allocation,
    Because,
    ChangeKey,
    ClassWait,
    Demand,
    GpuType,
    JobId,
    Level,
    NodeName,
    Reason,
    Resources,
    Share,
    Sharing,
    SuspendMode,
    TrialKind,
    TrialReason,
)

# The planner. A move pays if the job gains more than its cost in as long again as it has run, the
# usual guess for a job of unknown length. Untried moves are for jobs that ran ten times the cost
# (Gandiva, OSDI 2018: a migration is undone if it makes mini-batches slower).

# The goals (Gandiva, OSDI 2018, 3.4, and its slides); a new one is a function in `GOALS`.
#
# `colocate`: gangs over several servers come to one. `lower_height`: jobs in turns come to free
# GPUs. `defragment`: the server with the most free GPUs becomes empty. `cheaper_type`: jobs of one
# GPU leave types that others wait for. `apart`: a job that got slower leaves its neighbours.

Check = Callable[[Server], bool]


@dataclass(frozen=True)
class Wanted:
    """A move that would be good.

    Attributes:
        job: who moves.
        change: what verdicts remember it by, beside its model and type of GPU.
        is_wanted: whether a server would do.
    """

    job: Job
    change: str
    is_wanted: Check


@dataclass(frozen=True)
class GoalSettings:
    """What goals go by.

    Attributes:
        free_most: so many free GPUs at least make a server one to be emptied.
        cheaper: types of GPU, the cheapest first.
        slower: by which part a job has to be slower than it was, in millionths, to be moved away.
    """

    free_most: int
    cheaper: tuple[GpuType, ...]
    slower: int


class Scene(Protocol):
    """The servers as they would be with what the plan has drafted so far."""

    @property
    def servers(self) -> Mapping[NodeName, Server]:
        """The servers with GPUs that take jobs."""

    def free_on(self, node: NodeName) -> int:
        """Return how many GPUs of a server nobody was given."""

    def surplus_on(self, node: NodeName) -> int:
        """Return how many GPUs more than are shared in turns on a server its jobs want."""


Goal = Callable[[View, Scene, Sequence[Job], GoalSettings], Iterator[Wanted]]
"""Yields the moves it wants, the most urgent first; jobs are those that may be moved."""


def colocate(
    view: View, scene: Scene, jobs: Sequence[Job], settings: GoalSettings
) -> Iterator[Wanted]:
    """Bring gangs over several servers to one."""
    for job in jobs:
        if job.allocation.is_spread:
            pieces = sorted((share.gpus for share in job.allocation.shares), reverse=True)
            yield Wanted(job, f"colocate {'+'.join(map(str, pieces))}", _of_type(view, job))


def lower_height(
    view: View, scene: Scene, jobs: Sequence[Job], settings: GoalSettings
) -> Iterator[Wanted]:
    """Bring who shares GPUs in turns to free ones, the last submitted first."""
    for job in reversed(jobs):
        # One after the other: each sees what moves of this plan have left.
        is_sliced = job.allocation.sharing is Sharing.sliced and len(job.allocation.shares) == 1
        if is_sliced and scene.surplus_on(_node_of(job)) > 0:
            yield Wanted(job, "lower_height", _of_type(view, job))


def defragment(
    view: View, scene: Scene, jobs: Sequence[Job], settings: GoalSettings
) -> Iterator[Wanted]:
    """Bring jobs from the server with the most free GPUs to others that are in use."""
    free = {name: scene.free_on(name) for name in scene.servers}
    used = {name for name, server in scene.servers.items() if free[name] < server.gpus_up}
    emptiest = max(
        (name for name in used if free[name] >= settings.free_most),
        key=lambda name: (free[name], -scene.servers[name].position),
        default=None,
    )
    if emptiest is None:
        return
    fuller = {name for name in used if free[name] < free[emptiest]}
    for job in jobs:
        nodes = {share.node for share in job.allocation.shares}
        if nodes == {emptiest}:
            yield Wanted(
                job,
                "defragment",
                _both(_of_type(view, job), lambda server: server.name in fuller),
            )


def cheaper_type(
    view: View, scene: Scene, jobs: Sequence[Job], settings: GoalSettings
) -> Iterator[Wanted]:
    """Bring jobs of one GPU to cheaper types while anybody waits."""
    if not any(job.is_eligible for job in view.jobs.values()):
        return
    order = settings.cheaper
    for job in jobs:
        mine = _type_of(view, job)
        if job.spec.gpus != 1 or mine not in order:
            continue
        for gpu_type in order[: order.index(mine)]:
            yield Wanted(
                job,
                f"cheaper_type {gpu_type}",
                _is_type(gpu_type),
            )


def apart(
    view: View, scene: Scene, jobs: Sequence[Job], settings: GoalSettings
) -> Iterator[Wanted]:
    """Bring jobs that are slower than they were away from their neighbours."""

    def is_empty(server: Server) -> bool:
        return scene.free_on(server.name) == server.gpus_up

    for job in jobs:
        best, now_us = job.best_batch, job.pace.batch_us_at(job.speed)
        if best is None or now_us is None or best.gpus != job.held.gpus:
            continue
        if now_us * MILLION > best.batch_us * (MILLION + settings.slower):
            yield Wanted(job, "apart", _both(_of_type(view, job), is_empty))


GOALS: Mapping[str, Goal] = {
    "colocate": colocate,
    "lower_height": lower_height,
    "apart": apart,
    "cheaper_type": cheaper_type,
    "defragment": defragment,
}
"""The goals in the order in which they are asked: jobs that are not co-located first."""

WITHOUT_GAIN = frozenset(("cheaper_type", "defragment"))
"""Goals by which a job need not be faster elsewhere; it must not be slower."""


def _of_type(view: View, job: Job) -> Check:
    return _is_type(_type_of(view, job))


def _is_type(gpu_type: GpuType) -> Check:
    return lambda server: server.configuration.gpu_type == gpu_type


def _both(one: Check, other: Check) -> Check:
    return lambda server: one(server) and other(server)


def _type_of(view: View, job: Job) -> GpuType:
    return view.cluster.servers[_node_of(job)].configuration.gpu_type


def _node_of(job: Job) -> NodeName:
    return job.allocation.shares[0].node


BACK = "moved_back"
"""The rule of a move that undoes one."""

RUN_LEAST = 10
"""So many times the cost of a move a job has run before the first one of its kind is tried."""


class Sites(Scene, Protocol):
    """Places on a draft, one move after another."""

    def elsewhere(self, job: Job, is_wanted: Callable[[Server], bool]) -> Allocation | None:
        """Move a job to free GPUs of one other server, if there are such; return them."""

    def back(self, job: Job, origin: Allocation) -> bool:
        """Move a job back to where it was, if that is free; say whether it is."""


@dataclass(frozen=True)
class Migrations:
    """Which moves are tried, kept and undone.

    Attributes:
        rules: how long a move is measured, from its end on.
        cost_us: what a move costs a job, in microseconds.
        goals: the names of the goals, of `GOALS`.
        settings: what goals go by.
    """

    rules: TrialRules
    cost_us: int
    goals: tuple[str, ...]
    settings: GoalSettings

    def steps(
        self, view: View, sites: Sites, taken: frozenset[JobId]
    ) -> tuple[list[Move], list[Try | Judge]]:
        """Return which jobs move, and which trials end and begin with that.

        Args:
            view: the cluster and the jobs.
            sites: where there is room, after what the plan does already.
            taken: the jobs that the plan changes already.
        """
        moves, trials = list[Move](), list[Try | Judge]()
        for trial, (job,) in [each for each in running(view) if len(each[1]) == 1]:
            if trial.kind is not TrialKind.migrate or job.phase is not RUNNING:
                continue  # it has yet to arrive
            verdict = self._verdict(trial, job, view.now_us)
            if verdict is not None:
                verdict, move = self._carried_out(trial, job, verdict, sites)
                moves += move
                trials.append(verdict.judges(job.job_id))
        jobs = [job for job in view.jobs.values() if may_move(job, view, taken)]
        for name in GOALS:
            if name in self.goals:
                self._pursue(name, view, sites, jobs, moves, trials)
        return moves, trials

    def next_us(self, view: View) -> int | None:
        """Return when to look again: after a probe, as long as a job gets on."""
        gets_on = any(
            job.phase is RUNNING and (job.speed or not job.gpus) for job in view.jobs.values()
        )
        return view.now_us + self.rules.probe_us if gets_on or view.trials else None

    def _pursue(
        self,
        name: str,
        view: View,
        sites: Sites,
        jobs: Sequence[Job],
        moves: list[Move],
        trials: list[Try | Judge],
    ) -> None:
        """Begin the moves that a goal wants, as far as they may pay and there is room."""
        moved = {move.job_id for move in moves}
        shares = turn_shares(job for job in view.jobs.values() if job.takes_turns)
        for wanted in GOALS[name](view, sites, jobs, self.settings):
            job = wanted.job
            if job.job_id in moved:
                continue
            share = shares.get(job.job_id, 1.0)
            trial = self._trial(view, wanted, share, must_gain=name not in WITHOUT_GAIN)
            if trial is None:
                continue
            target = sites.elsewhere(job, wanted.is_wanted)
            if target is not None:
                moved.add(job.job_id)
                moves.append(Move(job.job_id, target, Because(name)))
                trials.append(trial)

    def _trial(self, view: View, wanted: Wanted, share: float, *, must_gain: bool) -> Try | None:
        """Return the trial of a move; None: it would not pay, or nobody can say so far.

        `share` is the part of its GPUs' time that the job has as things are; what is known of a
        move is of rates on its turn alone.
        """
        job, sum_before = wanted.job, max(1, int(share * MILLION))
        server = view.cluster.servers[job.allocation.shares[0].node]
        key = ChangeKey(wanted.change, (model_of(job),), server.configuration.gpu_type)
        margin = self._margin(job, view.now_us)
        pays = is_known_to_pay(key, view.verdicts, sum_before, margin, must_gain=must_gain)
        is_young = margin > MILLION // RUN_LEAST
        if pays is False or (pays is None and is_young):
            return None
        return proposed(job, (), key, TrialKind.migrate, sum_before)

    def _margin(self, job: Job, now_us: int) -> int:
        """Return what a move costs of as much time as a job has run, in millionths."""
        return self.cost_us * MILLION // max(1, job.occupied_us(now_us))

    def _verdict(self, trial: Trial, job: Job, now_us: int) -> Verdict | None:
        must_gain = trial.key.change.partition(" ")[0] not in WITHOUT_GAIN
        margin = self._margin(job, now_us)
        return self.rules.verdict(trial, (job,), now_us, margin, must_gain=must_gain)

    def _carried_out(
        self, trial: Trial, job: Job, verdict: Verdict, sites: Sites
    ) -> tuple[Verdict, list[Move]]:
        """Return a verdict with the move that undoes one, where there is a way back."""
        if verdict.reason in KEPT:
            return verdict, []
        if sites.back(job, trial.origin):
            return verdict, [Move(job.job_id, trial.origin, Because(BACK))]
        return Verdict(TrialReason.no_way_back, verdict.sum_after, verdict.batches), []


def may_move(job: Job, view: View, taken: frozenset[JobId]) -> bool:
    """Say whether a job runs where it was put, and nothing else is done to it."""
    return (
        job.phase is RUNNING
        and bool(job.spec.gpus)
        and job.held == job.allocation
        and not job.end_cause
        and not job.packed_with
        and job.job_id not in view.trials
        and job.job_id not in taken
        and job.spec.suspend_mode is not SuspendMode.never
        and job.spec.migratable
    )


# The cheapest block of GPUs that moves can free for a gang on one server.
#
#     block      the GPUs of the gang: of one server, within one group of the level it accepts
#     movers     jobs with GPUs of that group; where CPUs or memory are asked for, of the server
#     places     GPUs of one server each, outside the block, no farther apart than before
#
# Groups that lack the fewest GPUs come first, and sets of movers by their cost, so the search ends
# where nothing cheaper can come (Xiao, SOSP-SRC 2017, asks for aligned blocks; the search is ours).

LOOKS_MOST: Final = 4_000
"""So many sets of movers and places of one are looked at in one plan at most."""

Moves = tuple[tuple[Job, Share], ...]


@dataclass(frozen=True)
class MadeRoom:
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
    ) -> MadeRoom | None:
        """Return the cheapest room for a gang below a bound; None: there is none.

        Of equally cheap ones that on the server that lacks the fewest GPUs.

        Args:
            demands: what the gang must find, by pool.
            moves_most: how many jobs may be moved.
            below_gpu_us: the bound, in GPU-microseconds.
        """
        best: MadeRoom | None = None
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

    def take(self, room: MadeRoom, gang: Job) -> None:
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

    def _freed(self, group: _Group, movers: tuple[Job, ...], cost_gpu_us: int) -> MadeRoom | None:
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
        return MadeRoom(block, moves, cost_gpu_us) if moves is not None and has_room else None

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
                    mask = pick_gpus(
                        server.configuration, free, gpus, level, packs=not demand.apart
                    )
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


# The goal `make_room` (Xiao, SOSP-SRC 2017), for gangs whose free GPUs are too far apart. It is no
# trial, since the mover gains nothing and undoing would move jobs again. Jobs move if gain > cost:
#
#     gain = GPUs of the gang x how long it would still wait for a place without the moves
#     cost = sum over the moves of GPUs of the job x the time that a move takes
#
# The wait is a guess from `expected_us` of running jobs. Movers have had GPUs to themselves for ten
# times what a move takes.


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


def _changes(gang: Job, room: MadeRoom, gain_gpu_us: int) -> list[Change]:
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
