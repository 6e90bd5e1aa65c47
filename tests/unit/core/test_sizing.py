"""One server, jobs that come and go: what each has, by hand."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from shunter.core.planning import Consolidated, Placement, Spread
from shunter.core.ranking import Misfit, RankedPolicy
from shunter.core.sizing import Answer, Mechanism, Program, Sizing, Solver
from shunter.core.speeds import Sensitivity, SensitivityTable, SpeedModel
from shunter.events import JobSpec, Resources, Share, facts
from shunter.policies import HighsSolver, SubmissionOrder
from shunter.workloads import JobEnd, TraceJob
from tests.factories import Outcome, World, job_id, needs_highs, node_name, run, servers

TABLE = SensitivityTable(
    {
        "hungry": {1: Sensitivity((1000, 3000, 6000), (5, 10), ((0.5, 0.5), (1, 1), (2, 2)))},
        "mild": {1: Sensitivity((1000, 3000, 6000), (5, 10), ((0.5, 0.5), (1, 1), (1.5, 1.5)))},
        "modest": {1: Sensitivity((1000, 3000), (5, 10), ((1.0, 1.0), (1.0, 1.0)))},
    },
    Resources(0, 3000, 10),
)
SOLVER = HighsSolver()
CONSOLIDATED = Consolidated()


def job(number: int, model: str, lasts: int, at: int = 0, **fields: Any) -> TraceJob:
    spec = JobSpec(model=model, **fields)
    return TraceJob(job_id(number), at, spec, lasts, JobEnd.finished)


def played(
    mechanism: Mechanism,
    *jobs: TraceJob,
    gpus: tuple[int, ...] = (2,),
    solver: Solver = SOLVER,
    placement: Placement = CONSOLIDATED,
) -> Outcome:
    """Run jobs on servers with 3 CPUs and 10 MB for each GPU, in order of submission."""
    there = tuple(
        replace(
            server,
            configuration=replace(
                server.configuration,
                cpus_milli=3000 * server.configuration.gpus,
                memory_mb=10 * server.configuration.gpus,
            ),
        )
        for server in servers(*gpus)
    )
    speeds = SpeedModel({each.node: each.configuration for each in there}, sensitivity=TABLE)
    world = World(servers=there, jobs=jobs, round_us=10, speeds=speeds)
    index = SubmissionOrder("fifo", Misfit.skipped)
    sizing = Sizing(mechanism, TABLE, solver if mechanism is Mechanism.opt else None)
    return run(world, RankedPolicy(index, placement, sizing=sizing))


def sizes(outcome: Outcome) -> list[tuple[int, str, int, int]]:
    """Return what was given whom: (instant, job, CPUs in thousandths, MB)."""
    return [
        (event.at_us, event.job_id, share.cpus_milli, share.memory_mb)
        for event in outcome.of(facts.AllocationChanged, facts.JobReshaped)
        for share in event.allocation.shares
    ]


def ends(outcome: Outcome) -> dict[str, int]:
    return {event.job_id: event.at_us for event in outcome.of(facts.JobFinished)}


def test_proportional_gives_each_gpu_its_part() -> None:
    outcome = played(Mechanism.proportional, job(0, "hungry", 30), job(1, "modest", 30))
    assert sizes(outcome) == [(0, "j0", 3000, 10), (0, "j1", 3000, 10)]
    assert ends(outcome) == {"j0": 30, "j1": 30}


def test_tune_gives_what_one_does_not_need_to_who_does() -> None:
    """The modest one is as fast with 1 CPU and 5 MB, so the hungry one has 5 CPUs and 2/3 more."""
    outcome = played(Mechanism.tune, job(0, "hungry", 45), job(1, "modest", 30))
    assert sizes(outcome)[:2] == [(0, "j0", 5000, 5), (0, "j1", 1000, 5)]
    assert ends(outcome) == {"j0": pytest.approx(27, abs=1), "j1": 30}  # 27 us at 5/3 are 45


@pytest.mark.parametrize(
    "mechanism", [Mechanism.tune, pytest.param(Mechanism.opt, marks=needs_highs)]
)
def test_who_runs_alone_grows_when_another_ends_and_shrinks_when_one_comes(
    mechanism: Mechanism,
) -> None:
    outcome = played(
        mechanism, job(0, "hungry", 200), job(1, "modest", 20), job(2, "modest", 30, at=35)
    )
    changes = [event for event in outcome.of(facts.JobReshaped) if event.job_id == "j0"]
    told = [
        (event.at_us, event.because.rule, event.because.scores, event.because.beneficiaries)
        for event in changes
    ]
    five = pytest.approx(5 / 3)
    assert told == [
        (20, "grown", (five, 2.0), ()),
        (40, "shrunk", (2.0, five), ("j2",)),
        (70, "grown", (five, 2.0), ()),
    ]


def test_greedy_asks_for_no_more_than_its_part_where_shapes_leave_one_server_out() -> None:
    """The large server alone has the 6 CPUs a GPU with which it is fastest."""
    outcome = played(
        Mechanism.greedy, job(0, "hungry", 20, gpus=4, shapes=((2, 2),)), gpus=(2, 2, 8)
    )
    assert sizes(outcome) == [(0, "j0", 6000, 10), (0, "j0", 6000, 10)]


def test_greedy_waits_for_all_that_makes_it_fastest_and_lets_others_pass() -> None:
    outcome = played(
        Mechanism.greedy, job(0, "hungry", 40), job(1, "hungry", 20), job(2, "modest", 30)
    )
    # Each hungry one asks for the 6 CPUs of the whole server, and the modest one for 1.
    assert sizes(outcome)[0] == (0, "j0", 6000, 5)
    assert ends(outcome) == {"j0": 20, "j1": 30, "j2": 60}


def test_what_a_job_asks_for_is_a_floor() -> None:
    outcome = played(
        Mechanism.tune, job(0, "modest", 30, cpus_milli=2500, memory_mb=8), job(1, "hungry", 30)
    )
    assert sizes(outcome)[:2] == [(0, "j0", 2500, 8), (0, "j1", 3500, 5)]


def test_gang_over_servers_has_the_same_for_each_gpu() -> None:
    outcome = played(Mechanism.tune, job(0, "hungry", 40, gpus=3), gpus=(2, 1))
    (start,) = outcome.of(facts.AllocationChanged)
    assert start.allocation.shares == (
        Share(node_name(0), 0b11, 6000, 10),
        Share(node_name(1), 0b1, 3000, 5),
    )


@pytest.mark.parametrize(
    ("mechanism", "model", "each"),
    [
        (Mechanism.proportional, "hungry", (3000, 10)),
        (Mechanism.tune, "hungry", (4000, 5)),
        (Mechanism.tune, "modest", (1000, 5)),
        (Mechanism.greedy, "hungry", (3000, 5)),
        (Mechanism.greedy, "modest", (1000, 5)),
    ],
)
def test_gang_that_no_server_holds_has_what_it_can_use_of_several(
    mechanism: Mechanism, model: str, each: tuple[int, int]
) -> None:
    """Three of its GPUs are on a server of 12 CPUs, two on another; all have the same.

    With `greedy` it asks for no more than its proportional share, which it finds wherever it is.
    """
    outcome = played(mechanism, job(0, model, 100, gpus=5), gpus=(4, 4), placement=Spread())
    (start,) = [event for event in outcome.of(facts.AllocationChanged) if event.allocation.gpus]
    found = [
        (share.gpus, share.cpus_milli // share.gpus, share.memory_mb // share.gpus)
        for share in start.allocation.shares
    ]
    assert found == [(3, *each), (2, *each)]


def test_starting_job_looks_for_a_server_that_has_what_it_can_use() -> None:
    """On n0 another hungry one has all that is spare; n1 is as empty, and stays so without."""
    jobs = job(0, "hungry", 40), job(1, "hungry", 40)
    nodes = {
        mechanism: [
            share.node
            for event in played(mechanism, *jobs, gpus=(2, 2)).of(facts.AllocationChanged)
            for share in event.allocation.shares
        ]
        for mechanism in (Mechanism.proportional, Mechanism.tune)
    }
    assert nodes == {Mechanism.proportional: ["n0", "n0"], Mechanism.tune: ["n0", "n1"]}


MIXED = job(0, "mild", 45), job(1, "hungry", 45), job(2, "modest", 45)


@needs_highs
def test_opt_gives_more_to_who_gains_more_by_it_and_not_to_who_came_first() -> None:
    """Of 9 CPUs the modest one needs 1 and both others 3; 2 more make the mild one a third faster.

    They make the hungry one two thirds faster: 1 + 5/3 + 1 together, which is also the bound.
    """
    tuned, best = (
        played(Mechanism.tune, *MIXED, gpus=(3,)),
        played(Mechanism.opt, *MIXED, gpus=(3,)),
    )
    assert sizes(tuned)[:3] == [(0, "j0", 5000, 5), (0, "j1", 3000, 5), (0, "j2", 1000, 5)]
    assert sizes(best)[:3] == [(0, "j0", 3000, 5), (0, "j1", 5000, 5), (0, "j2", 1000, 5)]
    solved = best.of(facts.SizesSet)[0]
    assert (solved.speed, solved.bound) == (pytest.approx(11 / 3), pytest.approx(11 / 3))
    assert (solved.gap, solved.status) == (0, "ok")


@needs_highs
def test_opt_tells_apart_what_one_server_for_all_could_do() -> None:
    """4 CPUs are left on the server of the modest ones, and each hungry one has 3 on the other.

    On one server each of these would have 5 and 5/3 of its speed.
    """
    jobs = [job(number, model, 45) for number, model in enumerate(["modest"] * 2 + ["hungry"] * 2)]
    solved = played(Mechanism.opt, *jobs, gpus=(2, 2)).of(facts.SizesSet)[0]
    assert (solved.speed, solved.bound) == (4, pytest.approx(2 + 10 / 3))


@needs_highs
def test_opt_takes_from_who_came_first_and_says_for_whom() -> None:
    early = job(0, "mild", 200), job(1, "modest", 200)
    outcome = played(Mechanism.opt, *early, job(2, "hungry", 200, at=15), gpus=(3,))
    (change,) = [event for event in outcome.of(facts.JobReshaped) if event.at_us == 20]
    assert (change.job_id, change.allocation.shares[0].cpus_milli) == ("j0", 3000)
    assert change.because.rule == "shrunk"
    assert (change.because.scores, change.because.beneficiaries) == ((1.5, 1.0), ("j2",))


@needs_highs
def test_opt_solves_only_where_jobs_came_or_went() -> None:
    jobs = job(0, "hungry", 100), job(1, "mild", 60, at=5), job(2, "modest", 30, at=15)
    outcome = played(Mechanism.opt, *jobs)
    assert ends(outcome) == {"j0": 82, "j1": 70, "j2": 100}
    # j0 starts, j1 does, and j2 in its place; the end of j0 leaves a job that needs no more.
    assert [event.at_us for event in outcome.of(facts.SizesSet)] == [0, 10, 70]


class Helpless:
    """Finds nothing, or what no server has."""

    def __init__(self, *, answers: bool) -> None:
        self.answers = answers

    def solve(self, programs: Sequence[Program]) -> list[Answer]:
        most = [(-1,) * len(each.choices) if self.answers else () for each in programs]
        return [Answer(chosen, inf) for chosen in most]


@pytest.mark.parametrize("answers", [False, True])
def test_sizes_are_those_of_tune_where_no_better_ones_are_found(answers: bool) -> None:
    """One is as fast as 5/3 and one as 1; nobody knows that both cannot be 2."""
    jobs = job(0, "hungry", 45), job(1, "hungry", 45), job(2, "modest", 45)
    tuned = played(Mechanism.tune, *jobs, gpus=(3,))
    outcome = played(Mechanism.opt, *jobs, gpus=(3,), solver=Helpless(answers=answers))
    assert sizes(outcome) == sizes(tuned)
    solved = outcome.of(facts.SizesSet)[0]
    assert solved.status.startswith("nothing was found for 2 jobs")
    assert solved.gap == pytest.approx(4 - 8 / 3)
    assert solved.bound == 5
