"""Gavel with space sharing on any small world: limits kept, gangs whole, nobody left behind.

Jobs, tables of pairs, quotas, guards and failures are drawn; every state is checked after every
round, and who shares GPUs must be a pair that the table knows and that fits.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given, strategies as st

from shunter.backends.simulated import Costs, Failures
from shunter.core import Guards, Observers, Scheduler, State, View, both
from shunter.core.fold import apply, replay
from shunter.core.planning import (
    PLACEMENTS,
    AllocationHistory,
    Draft,
    ProposalMemory,
    proposal_observers,
)
from shunter.core.speeds import JobKind, SpeedModel, ThroughputTable
from shunter.events import (
    CLUSTER_CHANGES,
    JOB_ENDS,
    AllocationChanged,
    AttemptLost,
    GangProposed,
    GpusReleased,
    GpuType,
    JobSuspended,
    LaunchFailed,
    NodeLost,
    PlanRejected,
    RoundPlanned,
    Sharing,
    TargetsSet,
    encode_record,
)
from shunter.policies.gavel import Gavel, GavelPolicy
from tests.factories import Outcome, World, node_added, node_name, quota, run, scheme, trace_job
from tests.property.invariants import check_state
from tests.slices import searched

MINUTE_US = 60_000_000
TYPES = (GpuType("v100"), GpuType("k80"))
KINDS = [JobKind(model, gpus) for model in "abc" for gpus in (1, 2)]
CHANGES = (
    *(AllocationChanged, AttemptLost, GpusReleased, JobSuspended, LaunchFailed),
    *JOB_ENDS,
    *CLUSTER_CHANGES,
)
"""The kinds after which other GPUs may be free."""
OBJECTIVES = ["max_min_fairness", "makespan", "water_filling", "finish_time_fairness"]


@st.composite
def tables(draw: st.DrawFn) -> ThroughputTable:
    """Return rates of all kinds alone, and of some pairs of equal gangs together."""
    part = st.sampled_from([0.0, 0.4, 0.6, 0.8, 1.0])
    alone = {
        name: {kind: draw(st.sampled_from([1.0, 2.0, 5.0])) for kind in KINDS} for name in TYPES
    }
    paired: dict[GpuType, dict[tuple[JobKind, JobKind], tuple[float, float]]] = {}
    for name in TYPES:
        rows = paired.setdefault(name, {})
        for place, one in enumerate(KINDS):
            for two in KINDS[place:]:
                if one.gpus == two.gpus and draw(st.booleans()):
                    kept = draw(part)
                    first, second = alone[name][one] * kept, alone[name][two] * kept
                    rows[one, two], rows[two, one] = (first, second), (second, first)
    return ThroughputTable(alone, paired, TYPES[0])


@st.composite
def worlds(draw: st.DrawFn) -> World:
    nodes = tuple(
        node_added(number, draw(st.integers(1, 3)), gpu_type=draw(st.sampled_from(TYPES)))
        for number in range(draw(st.integers(1, 3)))
    )
    most = max(node.configuration.gpus for node in nodes)
    jobs = tuple(
        trace_job(
            number,
            min(most, draw(st.sampled_from([1, 1, 1, 2]))),
            at=draw(st.integers(0, 9)) * MINUTE_US,
            lasts=draw(st.integers(1, 12)) * MINUTE_US,
            model=draw(st.sampled_from("abcd")),
            queue=draw(st.sampled_from(["a", "b"])),
        )
        for number in range(draw(st.integers(1, 8)))
    )
    bounded = draw(st.integers(0, 3)) == 0
    cost = st.integers(0, 9 * MINUTE_US // 60)
    return World(
        servers=nodes,
        jobs=tuple(sorted(jobs, key=lambda job: job.submit_us)),
        queues=(quota("a", draw(st.integers(2, 3))),) if bounded else (),
        round_us=MINUTE_US,
        costs=draw(st.one_of(st.just(Costs()), st.builds(Costs, cost, cost, cost, cost))),
        failures=Failures({node_name(0): ""}, 3, 20 * MINUTE_US, 2 * MINUTE_US)
        if draw(st.integers(0, 4)) == 0
        else Failures(),
        guards=Guards(draw(st.sampled_from([0, 0, 3 * MINUTE_US]))),
        speeds=SpeedModel(
            {node.node: node.configuration for node in nodes}, throughput=draw(tables())
        ),
        until_us=400 * MINUTE_US,
    )


def sharing(world: World, objective: str) -> GavelPolicy:
    """Return a policy that lets jobs share GPUs, with turns of two minutes."""
    speeds: Any = world.speeds
    params: dict[str, Any] = {"turn": 2 * MINUTE_US, "space_sharing": True, "objective": objective}
    built = Gavel.build(Gavel.Params.model_construct(**params), PLACEMENTS["consolidated"]())
    return built.knowing(speeds.throughput)


@searched(40)
@given(world=worlds(), objective=st.sampled_from(OBJECTIVES))
def test_pairs_keep_every_limit_and_everybody_ends(world: World, objective: str) -> None:
    check_run(run(world, sharing(world, objective)), world)


@searched(40)
@given(world=worlds(), objective=st.sampled_from(OBJECTIVES), minutes=st.sampled_from([0, 1, 5]))
def test_they_do_so_where_job_schedulers_propose(
    world: World, objective: str, minutes: int
) -> None:
    """The plan puts jobs beside each other; those that have GPUs to themselves are proposed."""
    how = scheme(minutes * MINUTE_US, retry_us=MINUTE_US, retry_most_us=4 * MINUTE_US)
    by, seen = sharing(world, objective).with_scheme(how), Seen()

    outcome = run(replace(world, decentralised=how), by, listeners=[seen.observers()])

    check_run(outcome, world)
    for proposed in outcome.of(GangProposed):
        assert {one.sharing for one in proposed.candidates} == {Sharing.exclusive}


@dataclass(slots=True)
class Seen:
    """What was free at the end of each instant, and what views of it show later."""

    free: dict[int, dict[str, list[int]]] = field(default_factory=dict)
    memory: ProposalMemory = field(
        default_factory=lambda: ProposalMemory(AllocationHistory(1 << 60))
    )

    def observers(self) -> Observers:
        """Return what notes changes, and looks back at each plan."""
        mine = dict.fromkeys(CHANGES, self._changed) | {RoundPlanned: self._planned}
        return both(proposal_observers(self.memory, scheme(1)), mine)

    def _changed(self, event: Any, view: View) -> None:
        if isinstance(event, CLUSTER_CHANGES):
            self.free.clear()  # what is out of service is so in every view
        self.free[view.now_us] = {name: pool.free.copy() for name, pool in view.pools.items()}

    def _planned(self, event: RoundPlanned, view: View) -> None:
        for at_us, free in self.free.items():
            with Draft(view) as draft:
                self.memory.history.look_back(draft, at_us)
                assert {name: pool.free for name, pool in draft.pools.items()} == free
                draft.rollback(0)


def check_run(outcome: Outcome, world: World) -> None:
    """Hold that limits are kept all along, and all jobs end."""
    speeds: Any = world.speeds
    state = State()
    for event in outcome.events:
        if isinstance(event, RoundPlanned):
            check_state(state)
            check_pairs(state, speeds.throughput)
        if isinstance(event, TargetsSet):
            assert event.status == "ok"
        apply(state, event)
    assert encode_record(state) == encode_record(outcome.state)
    assert outcome.of(PlanRejected) == [] or outcome.of(NodeLost)
    assert outcome.of(NodeLost) or len(outcome.ended) == len(world.jobs)


@searched(15)
@given(world=worlds())
def test_policy_that_takes_over_finds_everybody_at_his_post(world: World) -> None:
    """Memory that begins in mid-log agrees on where jobs are and beside whom, and plans well."""
    chosen = sharing(world, "max_min_fairness")
    events = run(world, chosen).events
    for cut, event in enumerate(events):
        if isinstance(event, RoundPlanned) and cut % 3 == 0:
            state = replay(events[:cut])
            core = Scheduler(chosen, world.rules(instant=False), state)
            for job_id, post in core.memory.posts.items():
                assert set(post.gang) == {
                    job_id,
                    *core.state.cluster.deciding.beside(
                        job_id, state.jobs[job_id].allocation.shares
                    ),
                }
            planned, _ = core.step((state.now_us // MINUTE_US + 1) * MINUTE_US, ())
            assert [each for each in planned if isinstance(each, PlanRejected)] == []
            check_state(core.state)


def check_pairs(state: State, table: ThroughputTable) -> None:
    """Hold that those who share GPUs are two, of equal gangs, of a pair that runs there."""
    for (node, _), tenants in state.cluster.deciding.by_gpu.items():
        assert len(tenants) <= 2, f"{tenants} share a GPU"
        jobs = [state.jobs[job_id] for _, job_id in tenants]
        if len(jobs) == 2:
            one, two = jobs
            assert one.allocation.shares == two.allocation.shares, "they share some of their GPUs"
            kinds = table.kind_of(one.spec), table.kind_of(two.spec)
            assert None not in kinds, "nobody knows one of them"
            gpu_type = state.cluster.servers[node].configuration.gpu_type
            rates = table.pair_rates(gpu_type, *kinds)  # type: ignore[arg-type]  # none is None
            assert rates is not None, "nobody measured the pair"
            assert min(rates) > 0, "the pair does not run"
