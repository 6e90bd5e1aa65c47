"""What holds of jobs that measure another speed than the table says, in every small world."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from shunter.backends.simulated import Samples
from shunter.core import Plan, Rng, Suspend, View
from shunter.core.planning import Consolidated
from shunter.core.ranking import RankedPolicy, Ranking
from shunter.core.sizing import Mechanism, Sizing, whole_of
from shunter.core.speeds import Sensitivity, SensitivityTable, SpeedModel, TableCheck
from shunter.events import NOTHING, JobSpec, Resources
from shunter.policies import HighsSolver
from shunter.workloads import JobEnd, TraceJob
from tests.factories import World, job_id, needs_highs, node_name, run, servers
from tests.property.sizing.test_sizing import INDEXES, TABLE, resources_checked, wrongly_refused
from tests.replay.recording import decided_again
from tests.slices import searched

SPEEDS = st.lists(st.integers(0, 12), min_size=12, max_size=12)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Return servers that are full from time to time, and jobs that measure anything there."""
    each = draw(st.sampled_from([(3000, 10), (2000, 12), (4500, 8)]))
    there = tuple(
        server
        for gpus in draw(st.sampled_from([(2,), (4,), (2, 2)]))
        for server in servers(gpus, cpus_milli=each[0] * gpus, memory_mb=each[1] * gpus)
    )
    there = tuple(replace(one, node=node_name(number)) for number, one in enumerate(there))
    jobs = tuple(
        TraceJob(job_id(number), 4 * at, spec, 10 * lasts, JobEnd.finished)
        for number, (at, lasts, spec) in enumerate(
            sorted(draw(st.lists(JOBS, min_size=3, max_size=8)), key=lambda job: job[0])
        )
    )
    return World(
        servers=there,
        jobs=jobs,
        round_us=draw(st.sampled_from([5, 8])),
        samples=Samples(1, draw(st.sampled_from([0.0, 0.1, 0.5]))),
        speeds=SpeedModel(
            {server.node: server.configuration for server in there}, sensitivity=draw(truths())
        ),
        table_check=TableCheck(TABLE, 0.05),
    )


JOBS = st.tuples(
    st.integers(0, 20),
    st.integers(1, 12),
    st.builds(
        JobSpec,
        gpus=st.sampled_from([1, 1, 1, 2]),
        model=st.sampled_from(["hungry", "hungry", "modest"]),
        total_steps=st.just(1000),
    ),
)


@st.composite
def truths(draw: st.DrawFn) -> SensitivityTable:
    """Return a table in which a model is as fast as it may be with its proportional share."""
    cpus, memory = (1000, 2000, 3000, 6000), (5, 10, 20)
    steps = iter(draw(SPEEDS))
    rows = [[0.0] * 3 for _ in cpus]
    for row in range(4):
        for column in range(3):
            fewer = rows[row - 1][column] if row else 0.0
            less = rows[row][column - 1] if column else 0.0
            rows[row][column] = max(fewer, less, 0.1) + next(steps) / 4
    unit = rows[2][1]
    matrix = Sensitivity(cpus, memory, tuple(tuple(speed / unit for speed in row) for row in rows))
    return SensitivityTable({"hungry": {1: matrix}, "modest": {1: matrix}}, Resources(0, 3000, 10))


@dataclass(frozen=True)
class Promising(RankedPolicy):
    """A policy that looks whether everybody has the speed of his share, as far as is known."""

    def plan(self, memory: Ranking, view: View, rng: Rng) -> Plan:
        planned = super().plan(memory, view, rng)
        assert self.sizing is not None
        sizing = self.sizing.corrected(view.corrections)
        given = {job_id: job.allocation for job_id, job in view.jobs.items()}
        given |= {
            change.job_id: NOTHING if isinstance(change, Suspend) else change.allocation
            for change in planned.changes
        }
        for name, allocation in given.items():
            if not allocation.gpus:
                continue
            spec, share = view.jobs[name].spec, allocation.shares[0]
            pool = view.pools[view.cluster.servers[share.node].configuration.gpu_type]
            fair = sizing.guaranteed(spec, whole_of(pool))
            each = Resources(0, share.cpus_milli // share.gpus, share.memory_mb // share.gpus)
            assert sizing.speed(spec, each) >= sizing.speed(spec, fair) - 1e-9
        return planned


def played(world: World, name: str, mechanism: Mechanism, kind: Any = Promising) -> None:
    """Run a world, and decide it again."""
    solver = HighsSolver() if mechanism is Mechanism.opt else None
    by = kind(INDEXES[name], Consolidated(), sizing=Sizing(mechanism, TABLE, solver))
    outcome = run(world, by, listeners=(resources_checked(),))
    assert not wrongly_refused(outcome)
    decided_again(outcome, by, world)


@pytest.mark.parametrize("name", ["fifo_backfill", "las"])
@searched(8)
@given(world=worlds())
def test_corrections_break_no_promise_of_tune(name: str, world: World) -> None:
    played(world, name, Mechanism.tune)


@needs_highs
@settings(max_examples=3)
@given(world=worlds())
def test_corrections_break_no_promise_of_opt(world: World) -> None:
    played(world, "las", Mechanism.opt)


@settings(max_examples=5)
@given(world=worlds())
def test_greedy_goes_on_with_corrections(world: World) -> None:
    played(world, "las", Mechanism.greedy, RankedPolicy)
