"""At its turn a job may have what is free, and what running jobs ranked after it hold.

Everything is tried by brute force, on small clusters with jobs that run alone or packed, some of
them guarded: a job is left waiting only if there is no place for it, and only the lowest-ranked
jobs leave whose leaving makes one.
"""

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from hypothesis import example, given, strategies as st

from shunter.core import Guards, Job, Plan, Pool, RandomStream, Server, Start, State, Suspend, View
from shunter.core.fold import replay
from shunter.core.planning import PLACEMENTS, approve
from shunter.core.ranking import RankedPolicy, Ranking
from shunter.events import (
    Allocation,
    AllocationChanged,
    Event,
    JobId,
    JobSpec,
    Level,
    Share,
    Sharing,
    SuspendMode,
)
from shunter.policies import las
from tests.factories import (
    BECAUSE,
    attempt_started,
    job_id,
    job_submitted,
    node_added,
    node_name,
    scheduler_started,
)
from tests.slices import searched
from tests.unit.core.placement.test_complete import GPUS, WIRINGS, _splits, could_be_placed

NOW_US = 100
GUARDS = Guards(min_runtime_us=20)
CPUS, MEMORY_MB = 4, 4


@dataclass(frozen=True)
class Running:
    """A job that runs: how it was submitted, where it is, and since when."""

    priority: int
    where: Allocation
    since_us: int
    never: bool = False


@dataclass(frozen=True)
class Moment:
    """A cluster at an instant: racks and wirings of its servers, who runs, who waits."""

    servers: tuple[tuple[str, int], ...]
    running: tuple[Running, ...]
    waiting: tuple[JobSpec, ...]
    placement: str

    def events(self) -> list[Event]:
        """Return the facts that lead there."""
        found: list[Event] = [scheduler_started()]
        for number, (rack, wiring) in enumerate(self.servers):
            has: dict[str, Any] = {"rack": rack, "levels": WIRINGS[wiring]}
            found.append(
                node_added(number, GPUS, cpus_milli=CPUS * 1000, memory_mb=MEMORY_MB, **has)
            )
        for number, job in enumerate(self.running):
            shares = job.where.shares
            asks = {
                "cpus_milli": sum(share.cpus_milli for share in shares),
                "memory_mb": sum(share.memory_mb for share in shares),
                "priority": job.priority,
            }
            mode = SuspendMode.never if job.never else SuspendMode.cooperative
            gpus = job.where.gpus
            found.append(job_submitted(number, gpus, suspend_mode=mode, **asks))
        for number, job in sorted(enumerate(self.running), key=lambda one: one[1].since_us):
            change = AllocationChanged(job.since_us, job_id(number), job.where, BECAUSE)
            found += [change, attempt_started(number, job.since_us)]
        for number, spec in enumerate(self.waiting, len(self.running)):
            event = job_submitted(number, at=NOW_US)
            found.append(replace(event, spec=spec))
        return found


@dataclass
class _Room:
    """What each server has left while a moment is made up."""

    free: list[int]
    cpus: list[int]
    memory_mb: list[int]


@st.composite
def moments(draw: st.DrawFn, waiting: int = 3) -> Moment:
    racks = st.sampled_from(["", "a", "b"])
    servers = draw(st.lists(st.tuples(racks, st.integers(0, 3)), min_size=1, max_size=3))
    count = len(servers)
    room = _Room([15] * count, [CPUS] * count, [MEMORY_MB] * count)
    running: list[Running] = []
    for _ in range(draw(st.integers(1, 7))):
        where = draw(_place_beside(running, room)) or draw(_place(room))
        if where is not None:
            since_us = draw(st.sampled_from([0, 0, 0, 40, 90]))
            never = draw(st.integers(0, 9)) == 0
            running.append(Running(draw(st.integers(-1, 1)), where, since_us, never))
    specs = draw(st.lists(_specs(count), min_size=1, max_size=waiting))
    placement = draw(st.sampled_from(["consolidated", "first_fit", "spread", "topology"]))
    return Moment(tuple(servers), tuple(running), tuple(specs), placement)


@st.composite
def _place(draw: st.DrawFn, room: _Room) -> Allocation | None:
    """Return GPUs of one or two servers that are free, and take them."""
    chosen = draw(st.permutations(range(len(room.free))))[: draw(st.sampled_from([1, 1, 2]))]
    shares = []
    for number in sorted(chosen):
        mask = room.free[number] & draw(st.integers(0, 15))
        cpus = draw(st.integers(0, min(2, room.cpus[number])))
        memory_mb = draw(st.integers(0, min(2, room.memory_mb[number])))
        if mask or (len(chosen) == 1 and cpus):
            room.free[number] &= ~mask
            room.cpus[number] -= cpus
            room.memory_mb[number] -= memory_mb
            shares.append(Share(node_name(number), mask, cpus * 1000, memory_mb))
    gpus = Allocation(tuple(shares)).gpus
    is_packed = gpus and draw(st.integers(0, 3)) == 0
    sharing = Sharing.packed if is_packed else Sharing.exclusive
    return Allocation(tuple(shares), sharing) if shares else None


@st.composite
def _place_beside(draw: st.DrawFn, running: list[Running], room: _Room) -> Allocation | None:
    """Return the GPUs of a job that shares them, now and then."""
    open_ones = [job.where for job in running if job.where.sharing is Sharing.packed]
    if not open_ones or draw(st.booleans()):
        return None
    shares = draw(st.sampled_from(open_ones)).shares
    return Allocation(tuple(Share(one.node, one.gpu_mask) for one in shares), Sharing.packed)


@st.composite
def _specs(draw: st.DrawFn, servers: int) -> JobSpec:
    gpus = draw(st.sampled_from([0, 1, 1, 2, 2, 3, 4, 6]))
    gpus = min(gpus, GPUS * servers)
    splits = [split for split in _splits(gpus) if len(split) <= servers] if gpus else []
    asks = draw(st.sampled_from(["level", "shape", "cpus", "all"]))
    cpus = draw(st.integers(0 if gpus else 1, CPUS)) if asks in ("cpus", "all") or not gpus else 0
    level = draw(st.sampled_from(list(Level)[:5]))
    return JobSpec(
        gpus,
        cpus_milli=cpus * 1000,
        memory_mb=draw(st.integers(0, MEMORY_MB)) if asks in ("cpus", "all") else 0,
        max_level=level if asks in ("level", "all") else None,
        shapes=(draw(st.sampled_from(splits)),) if splits and asks == "shape" else (),
        priority=draw(st.integers(-1, 1)),
    )


@dataclass
class Planned:
    """What a policy plans at a moment."""

    state: State
    memory: Ranking
    plan: Plan

    @property
    def suspended(self) -> set[JobId]:
        return {one.job_id for one in self.plan.changes if isinstance(one, Suspend)}

    @property
    def started(self) -> dict[JobId, Allocation]:
        return {one.job_id: one.allocation for one in self.plan.changes if isinstance(one, Start)}

    def rank(self, job_id: JobId) -> int:
        return self.memory.entries[job_id].key

    def is_stuck(self, job: Job) -> bool:
        """Say whether nobody may make a job leave."""
        return GUARDS.pinned_by(job, NOW_US) is not None


def planned(moment: Moment) -> Planned:
    state = replay(moment.events())
    state.now_us = NOW_US
    view = View(state, GUARDS, oracle=False, all_reasons=False)
    view.open()
    view.now_us = NOW_US
    policy = RankedPolicy(las.AttainedService((1_000,)), PLACEMENTS[moment.placement]())
    memory = policy.start(view)
    plan = policy.plan(memory, view, RandomStream(0, "las", 0))
    return Planned(state, memory, plan)


def pool_for(found: Planned, job_id: JobId, gone: set[JobId]) -> Pool:
    """Return what a job may use at its turn if some running jobs have left for it.

    All others that run are there, and so is whoever starts before its turn.
    """
    state, rank = found.state, found.rank(job_id)
    held = [
        job.allocation.shares
        for job in state.jobs.values()
        if job.allocation.shares and job.job_id not in gone
    ]
    held += [where.shares for started, where in found.started.items() if found.rank(started) < rank]
    pool = Pool("v100")
    for number, server in enumerate(state.cluster.servers.values()):
        pool.add(Server(server.name, server.configuration, number))
        mine = [share for shares in held for share in shares if share.node == server.name]
        free = 15
        for share in mine:
            free &= ~share.gpu_mask
        pool.set_free(number, free)
        pool.cpus_free[number] = CPUS * 1000 - sum(share.cpus_milli for share in mine)
        pool.memory_free[number] = MEMORY_MB - sum(share.memory_mb for share in mine)
    return pool


def _behind(found: Planned, job_id: JobId) -> list[JobId]:
    """Return who runs, is ranked behind a job and may be made to leave, the first rank first."""
    behind = [
        job.job_id
        for job in found.state.jobs.values()
        if job.allocation.shares and found.rank(job.job_id) > found.rank(job_id)
    ]
    assert not any(found.is_stuck(found.state.jobs[one]) for one in behind), "guarded jobs lead"
    return sorted(behind, key=found.rank)


TWO_SWITCHES = Moment(
    servers=(("", 1),),
    running=(
        Running(0, Allocation((Share(node_name(0), 0b0001),)), 0),
        Running(0, Allocation((Share(node_name(0), 0b0010),)), 0),
        Running(-1, Allocation((Share(node_name(0), 0b0100),)), 0),
        Running(1, Allocation((Share(node_name(0), 0b1000),)), 0),
    ),
    waiting=(JobSpec(2, max_level=Level.switch, priority=1),),
    placement="consolidated",
)
"""The two that rank last are on two switches: to make those leave would not help."""


@searched(500, thorough=1500)
@given(moments())
@example(TWO_SWITCHES)
def test_job_is_left_waiting_only_if_there_is_no_place_for_it(moment: Moment) -> None:
    found = planned(moment)
    refused = approve(replace(found.plan, is_drafted=False), found.state, GUARDS, NOW_US).refused
    assert not refused, "what is planned can be carried out"
    for job in found.state.jobs.values():
        if job.allocation.shares or job.job_id in found.started:
            continue
        before = {one for one in found.suspended if found.rank(one) < found.rank(job.job_id)}
        pool = pool_for(found, job.job_id, before | {*_behind(found, job.job_id)})
        assert not could_be_placed(pool, job.demand), f"{job.job_id} waits, and has a place"


@searched(500, thorough=1500)
@given(moments(waiting=1))
@example(TWO_SWITCHES)
def test_the_lowest_ranked_leave_whose_leaving_makes_a_place(moment: Moment) -> None:
    found = planned(moment)
    (waiting,) = (job for job in found.state.jobs.values() if not job.allocation.shares)
    if waiting.job_id not in found.started:
        assert not found.suspended, "nobody leaves in vain"
        return
    behind = _behind(found, waiting.job_id)
    enough = [
        list(leaving)
        for count in range(len(behind) + 1)
        for leaving in combinations(behind, count)
        if could_be_placed(pool_for(found, waiting.job_id, {*leaving}), waiting.demand)
    ]
    least = min(enough, key=lambda leaving: [-found.rank(one) for one in leaving])
    assert sorted(found.suspended, key=found.rank) == least
