"""Where GPUs are shared in turns, a gang waits only if no place honours its contract.

All is tried by brute force, on small clusters that are over-subscribed: jobs that run alone, packed
and in turns, levels, splits, CPUs and memory at once. A gang has a place if it could have GPUs that
are free, on any servers, or turns on GPUs of a server of its own affinity that is not too high.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given, strategies as st

from shunter.core import NO_GUARDS, Job, Pool, RandomStream, Server, State, View
from shunter.core.fold import replay
from shunter.core.planning import PLACEMENTS, approve
from shunter.events import (
    Allocation,
    AllocationChanged,
    Event,
    JobId,
    JobSpec,
    Level,
    NodeName,
    Share,
    Sharing,
)
from shunter.policies.gandiva import Gandiva
from tests.factories import (
    BECAUSE,
    attempt_started,
    job_id,
    job_submitted,
    node_added,
    node_name,
    scheduler_started,
)
from tests.property.worlds import shown
from tests.slices import searched
from tests.unit.core.placement.test_complete import (
    GPUS,
    WIRINGS,
    _splits,
    could_be_placed,
    holds,
    near_groups,
)

CPUS, MEMORY_MB = 6, 6
NOW_US = 100


@dataclass(frozen=True, repr=False)
class Shared:
    """A cluster whose GPUs are shared: racks and wirings, where jobs run, who waits."""

    servers: tuple[tuple[str, int], ...]
    running: tuple[Allocation, ...]
    waiting: tuple[JobSpec, ...]
    height_most: int | None

    def __repr__(self) -> str:
        parts = (self.servers, self.running, self.waiting, self.height_most)
        return " ".join(map(shown, parts))

    def events(self) -> list[Event]:
        """Return the facts that lead there."""
        found: list[Event] = [scheduler_started()]
        for number, (rack, wiring) in enumerate(self.servers):
            has: dict[str, Any] = {"rack": rack, "levels": WIRINGS[wiring]}
            found.append(
                node_added(number, GPUS, cpus_milli=CPUS * 1000, memory_mb=MEMORY_MB, **has)
            )
        for number, where in enumerate(self.running):
            beside = {
                "cpus_milli": sum(share.cpus_milli for share in where.shares),
                "memory_mb": sum(share.memory_mb for share in where.shares),
            }
            found.append(job_submitted(number, where.gpus, **beside))
            found.append(AllocationChanged(0, job_id(number), where, BECAUSE))
            found.append(attempt_started(number))
        for number, spec in enumerate(self.waiting, len(self.running)):
            found.append(replace(job_submitted(number, at=NOW_US), spec=spec))
        return found


@dataclass
class _Room:
    """What servers have left while a cluster is made up; `open_to` is how GPUs are shared."""

    open_to: dict[tuple[int, int], Sharing]
    cpus: list[int]
    memory_mb: list[int]

    def takes(self, number: int, mask: int, sharing: Sharing) -> bool:
        """Say whether GPUs may have a job of such sharing, and note that they do."""
        bits = [(number, bit) for bit in range(GPUS) if mask >> bit & 1]
        for gpu in bits:
            there = self.open_to.get(gpu)
            if there is not None and (there is not sharing or sharing is Sharing.exclusive):
                return False
        self.open_to |= dict.fromkeys(bits, sharing)
        return True


@st.composite
def shared_clusters(draw: st.DrawFn) -> Shared:
    racks = st.sampled_from(["", "a", "b"])
    servers = draw(st.lists(st.tuples(racks, st.integers(0, 3)), min_size=1, max_size=3))
    room = _Room({}, [CPUS] * len(servers), [MEMORY_MB] * len(servers))
    running = []
    for _ in range(draw(st.integers(0, 7))):
        sharing = draw(st.sampled_from([Sharing.sliced, Sharing.sliced, *Sharing]))
        number = draw(st.integers(0, len(servers) - 1))
        mask = draw(st.integers(1, 15))
        if not room.takes(number, mask, sharing):
            continue
        cpus = draw(st.integers(0, min(2, room.cpus[number])))
        memory_mb = draw(st.integers(0, min(2, room.memory_mb[number])))
        room.cpus[number] -= cpus
        room.memory_mb[number] -= memory_mb
        share = Share(node_name(number), mask, cpus * 1000, memory_mb)
        running.append(Allocation((share,), sharing))
    waiting = draw(st.lists(_specs(len(servers)), min_size=1, max_size=3))
    height_most = draw(st.sampled_from([None, 2, 3]))
    return Shared(tuple(servers), tuple(running), tuple(waiting), height_most)


@st.composite
def _specs(draw: st.DrawFn, servers: int) -> JobSpec:
    gpus = min(draw(st.sampled_from([1, 2, 2, 3, 4, 6])), GPUS * servers)
    splits = [split for split in _splits(gpus) if len(split) <= servers]
    asks = draw(st.sampled_from(["", "level", "shape", "cpus", "all"]))
    levels = [Level.switch, Level.socket, Level.server, Level.rack]
    return JobSpec(
        gpus,
        cpus_milli=gpus * draw(st.integers(0, 4)) * 500 if asks in ("cpus", "all") else 0,
        memory_mb=gpus * draw(st.integers(0, 2)) if asks in ("cpus", "all") else 0,
        max_level=draw(st.sampled_from(levels)) if asks in ("level", "all") else None,
        shapes=(draw(st.sampled_from(splits)),) if asks == "shape" else (),
    )


@dataclass
class _Now:
    """A cluster at the turn of a waiting job: who has what, and the affinity of servers."""

    state: State
    has: list[Allocation]
    affinity: dict[NodeName, int]

    def give(self, job: Job, where: Allocation) -> None:
        self.has.append(where)
        for share in where.shares:
            self.affinity.setdefault(share.node, job.spec.gpus)

    @property
    def shares(self) -> list[tuple[Share, Sharing]]:
        return [(share, where.sharing) for where in self.has for share in where.shares]

    def pool(self, *, in_turns: bool = False) -> Pool:
        """Return what is free; with turns, what is had in turns is as well."""
        pool = Pool("v100")
        for number, server in enumerate(self.state.cluster.servers.values()):
            pool.add(Server(server.name, server.configuration, number))
            mine = [(one, how) for one, how in self.shares if one.node == server.name]
            free = 15
            for share, sharing in mine:
                if not (in_turns and sharing is Sharing.sliced):
                    free &= ~share.gpu_mask
            pool.set_free(number, free)
            pool.cpus_free[number] = CPUS * 1000 - sum(share.cpus_milli for share, _ in mine)
            pool.memory_free[number] = MEMORY_MB - sum(share.memory_mb for share, _ in mine)
        return pool

    def could_take_turns(self, job: Job, height_most: int | None) -> bool:
        """Say whether a gang could have turns on a server, by trying every mask."""
        demand, gang, pool = job.demand, job.spec.gpus, self.pool(in_turns=True)
        if demand.shapes and (gang,) not in demand.shapes:
            return False
        for number, server in enumerate(pool.servers):
            asked = sum(share.gpus for share, _ in self.shares if share.node == server.name)
            is_low = height_most is None or asked + gang <= height_most * GPUS
            is_roomy = pool.cpus_free[number] >= demand.cpus_milli
            is_roomy = is_roomy and pool.memory_free[number] >= demand.memory_mb
            if self.affinity.get(server.name) != gang or not is_low or not is_roomy:
                continue
            groups = near_groups(server.configuration.levels, demand.max_level)
            if any((group & pool.free[number]).bit_count() >= gang for group in groups):
                return True
        return False


def planned(cluster: Shared) -> tuple[State, Mapping[JobId, Allocation]]:
    """Return where the policy starts jobs, and moves those that have turns on their servers.

    All of it can be carried out.
    """
    state = replay(cluster.events())
    state.now_us = NOW_US
    view = View(state, NO_GUARDS, oracle=False, all_reasons=False)
    view.open()
    view.now_us = NOW_US
    params = Gandiva.Params.model_validate({"height_most": cluster.height_most})
    policy = Gandiva.build(params, PLACEMENTS["topology"]())
    memory = policy.start(view)
    policy.advance(memory, view)
    plan = policy.plan(memory, view, RandomStream(0, "gandiva", 0))
    assert not approve(plan, state, NO_GUARDS, NOW_US, takes_turns=True).refused
    return state, {one.job_id: one.allocation for one in plan.changes}


@searched(400, thorough=3000)
@given(cluster=shared_clusters())
def test_gang_waits_only_if_it_has_no_place_free_or_in_turns(cluster: Shared) -> None:
    state, has = planned(cluster)
    now = _Now(state, [], {})
    for job in state.jobs.values():
        if job.allocation.shares:
            now.give(job, has.get(job.job_id, job.allocation))
    for job in state.jobs.values():
        if job.allocation.shares:
            continue
        where = has.get(job.job_id)
        if where is None:
            assert not could_be_placed(now.pool(), job.demand), f"{job.job_id} waits, and has GPUs"
            found = now.could_take_turns(job, cluster.height_most)
            assert not found, f"{job.job_id} waits, and could take turns"
            continue
        pool = now.pool(in_turns=where.sharing is Sharing.sliced)
        assert holds(pool, [*pool.free], where.shares, job.demand)
        now.give(job, where)
