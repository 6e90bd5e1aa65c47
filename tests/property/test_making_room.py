"""Running jobs are moved for a gang exactly if what that gains exceeds what it costs.

Gain and cost are computed by brute force, on small clusters: every block of GPUs that the gang
could have, every set of jobs that may be moved, in every order, to every free place.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from typing import Any

from hypothesis import event, example, given, strategies as st

from shunter.core import (
    MAKE_ROOM,
    ROOM_MADE,
    Guards,
    Job,
    Move,
    Plan,
    RandomStream,
    Server,
    Start,
    State,
    View,
)
from shunter.core.fold import replay
from shunter.core.planning import approve, is_within
from shunter.core.sizing import Sizing
from shunter.core.speeds import level_of
from shunter.events import (
    Allocation,
    AllocationChanged,
    Event,
    JobSpec,
    Level,
    LevelGroups,
    NodeName,
    Share,
    SuspendMode,
)
from shunter.policies import MakingRoom
from tests.factories import (
    BECAUSE,
    attempt_started,
    job_id,
    job_submitted,
    node_added,
    node_name,
    policy,
    scheduler_started,
)
from tests.slices import searched
from tests.unit.core.placement.test_complete import GPUS, WIRINGS

NOW_US = 1_000
GUARDS = Guards(min_runtime_us=20)
LEVELS = (Level.nvlink, Level.switch, Level.socket, Level.server)
CPUS, COST_US, MOVES_MOST = 4, 5, 3
"""A job may be moved that has run for 50 us."""


@dataclass(frozen=True)
class Running:
    """A job that runs: where, since when, and what else is so of it.

    It asks for the CPUs that it has, unless its fields say otherwise.
    """

    shares: tuple[Share, ...]
    since_us: int
    fields: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Moment:
    """A cluster at an instant: wirings of its servers, who runs, and a gang that has just come."""

    wirings: tuple[tuple[LevelGroups, ...], ...]
    running: tuple[Running, ...]
    gang: JobSpec
    gpus: int = GPUS

    def state(self) -> State:
        found: list[Event] = [scheduler_started()]
        for number, levels in enumerate(self.wirings):
            found.append(node_added(number, self.gpus, cpus_milli=CPUS * 1000, levels=levels))
        for number, job in enumerate(self.running):
            count = sum(share.gpus for share in job.shares)
            asks = {"cpus_milli": sum(share.cpus_milli for share in job.shares)}
            found.append(job_submitted(number, count, **(asks | dict(job.fields))))
        for number, job in sorted(enumerate(self.running), key=lambda one: one[1].since_us):
            where = Allocation(job.shares)
            change = AllocationChanged(job.since_us, job_id(number), where, BECAUSE)
            found += [change, attempt_started(number, job.since_us)]
        come = job_submitted(len(self.running), at=NOW_US)
        state = replay([*found, replace(come, spec=self.gang)])
        state.now_us = NOW_US
        return state


@st.composite
def moments(draw: st.DrawFn) -> Moment:
    """Return clusters with GPUs left over, most of whose jobs are small."""
    count = draw(st.sampled_from([2, 2, 3]))
    free, cpus = [15] * count, [CPUS] * count
    running: list[Running] = []
    for _ in range(draw(st.integers(count, 2 * count))):
        shares = []
        nodes = draw(st.permutations(range(count)))[: draw(st.sampled_from([1, 1, 1, 1, 2]))]
        for node in sorted(nodes):
            mask = free[node] & draw(st.sampled_from([1, 2, 4, 8, 1, 2, 4, 8, 3, 6, 12, 7]))
            if mask:
                part = draw(st.integers(0, min(2, cpus[node])))
                free[node] &= ~mask
                cpus[node] -= part
                shares.append(Share(node_name(node), mask, part * 1000))
        if shares:
            since_us = draw(st.sampled_from([0, 500, 900, 940, 960]))
            fields = draw(_fields(NOW_US - since_us))
            running.append(Running(tuple(shares), since_us, fields))
    gang = JobSpec(
        draw(st.sampled_from([2, 3, 4, 4, 4])),
        max_level=draw(st.sampled_from([*LEVELS[:3], *[Level.server] * 3])),
        cpus_milli=draw(st.sampled_from([0, 0, 0, 2000, 4000])),
    )
    wirings = tuple(draw(st.sampled_from(WIRINGS)) for _ in range(count))
    return Moment(wirings, tuple(running), gang)


@st.composite
def _fields(draw: st.DrawFn, ran_us: int) -> tuple[tuple[str, Any], ...]:
    """Return what a job says beside where it is: nothing, or how long it will still run."""
    left_us = draw(st.sampled_from([None, None, 0, 1, 2, 3, 5, 8]))
    said = draw(
        st.sampled_from([None] * 8 + [("migratable", False), ("suspend_mode", SuspendMode.never)])
    )
    limit = None if left_us is None else ("time_limit_us", ran_us + left_us)
    return tuple(each for each in (said, limit) if each is not None)


def planned(state: State, most: int = MOVES_MOST, sizing: Sizing | None = None) -> Plan:
    view = View(state, GUARDS, oracle=False, all_reasons=False)
    view.open()
    view.now_us = NOW_US
    by = policy("fifo_backfill", "topology").with_room(MakingRoom(COST_US, most, 100))
    by = replace(by, sizing=sizing)
    return by.plan(by.start(view), view, RandomStream(0, by.name, 0))


class Brute:
    """Gain and cost of room for the one job that waits, by trying everything."""

    def __init__(self, state: State, most: int = MOVES_MOST) -> None:
        self.state, self.most = state, most
        self.servers: Sequence[Server] = list(state.cluster.servers.values())
        self.nodes = {one.name: one.configuration for one in self.servers}
        self.running = [job for job in state.jobs.values() if job.allocation.shares]
        (self.gang,) = [job for job in state.jobs.values() if not job.allocation.shares]

    def free(self, running: Sequence[Job]) -> int:
        """Return how many GPUs are free while some jobs run where they are."""
        held = sum(job.spec.gpus for job in running)
        return sum(server.configuration.gpus for server in self.servers) - held

    def has_place(self, running: Sequence[Job]) -> bool:
        """Say whether any block is free for the gang while some jobs run where they are."""
        gone = [job for job in self.running if job not in running]
        return any(self._moved([], gone, {}, node, block) for node, block, _ in self.blocks())

    def gain(self) -> int:
        """Return the GPU time for which the gang would wait: jobs end by limit, or as guessed."""
        ends = sorted((self.left_us(job), job.ordinal, job) for job in self.running)
        for number, (left_us, _, _) in enumerate(ends, 1):
            stay = [job for _, _, job in ends[number:]]
            if self.has_place(stay):
                return left_us * self.gang.spec.gpus
        return max((left_us for left_us, _, _ in ends), default=0) * self.gang.spec.gpus

    def left_us(self, job: Job) -> int:
        ran_us = NOW_US - (job.since_us or 0)
        limit_us = job.spec.time_limit_us
        return ran_us if limit_us is None else max(0, limit_us - ran_us)

    def cost(self) -> int | None:
        """Return the least that room costs, whatever it gains; None: there is no way."""
        return min(
            (
                sum(job.spec.gpus for job in movers) * COST_US
                for node, block, group in self.blocks()
                for movers in self.sets(node, group)
                if self.is_freed(node, block, movers)
            ),
            default=None,
        )

    def blocks(self) -> Iterator[tuple[NodeName, int, int]]:
        """Yield servers, blocks of them that the gang accepts, and the group around each."""
        level = self.gang.spec.max_level
        for server in self.servers:
            where = server.configuration
            groups = [(1 << where.gpus) - 1]
            if level in LEVELS[:3]:
                found = [
                    each
                    for each in where.bus_levels
                    if LEVELS.index(each.level) >= LEVELS.index(level)
                ]
                groups = list(found[0].masks) if found else groups
                joined = where.joined or tuple(1 << gpu for gpu in range(where.gpus))
                groups = [*joined] if level is Level.nvlink else [*groups, *joined]
            for group in groups:
                for block in range(1, 1 << where.gpus):
                    if not block & ~group and block.bit_count() == self.gang.spec.gpus:
                        yield server.name, block, group

    def sets(self, node: NodeName, group: int) -> Iterator[tuple[Job, ...]]:
        """Yield sets of jobs that hold GPUs of a group, or that could leave their CPUs."""
        jobs = [
            job
            for job in self.running
            if self.may_move(job)
            and any(
                share.node == node and (share.gpu_mask & group or self.gang.spec.cpus_milli)
                for share in job.allocation.shares
            )
        ]
        for count in range(1, self.most + 1):
            yield from combinations(jobs, count)

    def may_move(self, job: Job) -> bool:
        is_old = NOW_US - (job.since_us or 0) >= 10 * COST_US
        can_leave = job.spec.suspend_mode is not SuspendMode.never and job.spec.migratable
        return is_old and can_leave

    def is_freed(self, node: NodeName, block: int, movers: tuple[Job, ...]) -> bool:
        return any(self._moved(list(order), [], {}, node, block) for order in permutations(movers))

    def _moved(
        self,
        movers: list[Job],
        ended: Sequence[Job],
        gone: dict[str, Share],
        node: NodeName,
        block: int,
    ) -> bool:
        """Say whether the movers, in this order, find places and leave the block."""
        if not movers:
            share = Share(node, block, self.gang.spec.cpus_milli)
            return self._has(share, ended, gone)
        job, *others = movers
        return any(
            self._has(share, [*ended, job], gone)
            and self._moved(others, ended, {**gone, job.job_id: share}, node, block)
            for share in self._places(job, node, block)
        )

    def _places(self, job: Job, node: NodeName, block: int) -> Iterator[Share]:
        levels = [level_of(job.allocation, self.nodes), job.spec.max_level or Level.cluster]
        level = min(levels, key=list(Level).index)
        cpus_milli = sum(share.cpus_milli for share in job.allocation.shares)
        for server in self.servers:
            own = sum(s.gpu_mask for s in job.allocation.shares if s.node == server.name)
            kept = own | (block if server.name == node else 0)
            for mask in range(1, 1 << server.configuration.gpus):
                if mask & kept or mask.bit_count() != job.spec.gpus:
                    continue
                if level in LEVELS[:3] and not is_within(server.configuration, mask, level):
                    continue
                yield Share(server.name, mask, cpus_milli)

    def _has(self, share: Share, ended: Sequence[Job], gone: dict[str, Share]) -> bool:
        """Say whether a share is free once some jobs have ended and some have moved."""
        stay = [job for job in self.running if job not in ended and job.job_id not in gone]
        held = [one for job in stay for one in job.allocation.shares] + list(gone.values())
        here = [one for one in held if one.node == share.node]
        cpus_milli = CPUS * 1000 - sum(one.cpus_milli for one in here)
        is_free = not any(one.gpu_mask & share.gpu_mask for one in here)
        return is_free and share.cpus_milli <= cpus_milli


WHOLE = JobSpec(8, max_level=Level.server)
TWO_OF_EIGHT = Moment(
    wirings=((), ()),
    running=(
        Running((Share(node_name(0), 0b00000100),), 900),
        Running((Share(node_name(1), 0b00001111),), 0),
    ),
    gang=WHOLE,
    gpus=8,
)
"""One job of one GPU is in the way of an aligned block of eight; it has run for 100 us."""

YOUNG = replace(
    TWO_OF_EIGHT, running=(Running((Share(node_name(0), 4),), 960), TWO_OF_EIGHT.running[1])
)
"""The same, but it has run for 40 us, so it may not be moved."""


@searched(400, thorough=1500)
@given(moments())
@example(TWO_OF_EIGHT)
@example(YOUNG)
def test_jobs_are_moved_for_a_gang_exactly_if_the_gain_exceeds_the_cost(moment: Moment) -> None:
    state = moment.state()
    plan = planned(state)
    moves_if_it_pays(plan, Brute(state))
    if plan.changes:
        refused = approve(plan, state, GUARDS, NOW_US).refused
        assert not refused, "what is planned can be carried out"
        assert isinstance(plan.changes[-1], Start)


def moves_if_it_pays(plan: Plan, brute: Brute) -> None:
    """Assert that a plan moves jobs for the one that waits exactly if that pays."""
    moves = [one for one in plan.changes if isinstance(one, Move)]
    starts = [one for one in plan.changes if isinstance(one, Start)]

    if brute.has_place(brute.running):
        assert not moves, "nobody is moved for a gang that has a place"
        event("has a place")
        return
    is_short = brute.gang.spec.gpus > brute.free(brute.running)
    cost = None if is_short else brute.cost()
    gain = brute.gain()
    if cost is None or gain <= cost:
        assert not moves, "a move that does not pay"
        assert not starts
        event("costs too much" if cost is not None else "no way")
        return
    event(f"{len(moves)} moves")
    (start,) = starts
    assert start.because.rule == ROOM_MADE
    assert start.because.scores == (gain / 1e6, cost / 1e6)
    assert sum(move.allocation.gpus for move in moves) * COST_US == cost
    assert len(moves) <= MOVES_MOST
    for move in moves:
        assert move.because.rule == MAKE_ROOM
        assert move.because.scores == start.because.scores
        assert move.because.beneficiaries == (brute.gang.job_id,), "it says for whom"


def test_a_block_of_eight_is_freed_by_moving_the_one_job_in_the_way() -> None:
    plan = planned(TWO_OF_EIGHT.state())

    move, start = plan.changes
    assert isinstance(move, Move)
    assert move.job_id == job_id(0)
    assert move.allocation == Allocation((Share(node_name(1), 0b00010000),))
    assert start.allocation == Allocation((Share(node_name(0), 0b11111111),))
    # It would wait for 100 us more, with 8 GPUs; one GPU is moved for 5 us.
    assert start.because.scores == (800e-6, 5e-6)


def test_nobody_is_moved_while_gain_and_cost_are_equal() -> None:
    """The gang would wait as long as the limit says: 1 us, which is 8 GPU-us of gain."""

    def moment(left_us: int) -> State:
        limit = (("time_limit_us", 900 + left_us),)
        small = [Running((Share(node_name(0), 1 << bit),), 100, limit) for bit in (0, 1, 2)]
        return replace(TWO_OF_EIGHT, running=(*small, TWO_OF_EIGHT.running[1])).state()

    # Three moves of one GPU each cost 15 GPU-us; 2 us of 8 GPUs are 16.
    assert not [one for one in planned(moment(1)).changes if isinstance(one, Move)]
    assert len([one for one in planned(moment(2)).changes if isinstance(one, Move)]) == 3
    assert not planned(moment(2), most=2).changes, "more moves than one plan may have"
