"""A run in which programs sized jobs, decided again: with its answers, with others, and without."""

import math
from dataclasses import replace

import pytest

from shunter.ask import Verifier
from shunter.core.planning import Consolidated, RoundRules
from shunter.core.ranking import Misfit, RankedPolicy
from shunter.core.sizing import Mechanism, Sizing
from shunter.core.speeds import Sensitivity, SensitivityTable, SpeedModel
from shunter.events import Event, JobSpec, Resources, RoundPlanned, Size, SizesSet
from shunter.policies import HighsSolver, SubmissionOrder
from shunter.workloads import JobEnd, TraceJob
from tests.factories import World, job_id, run, servers
from tests.replay.recording import Recorded, rebuilt

pytest.importorskip("highspy", reason="needs HiGHS: the extra `solvers`")

TABLE = SensitivityTable(
    {
        "mild": {1: Sensitivity((1000, 3000, 6000), (5, 10), ((0.5, 0.5), (1, 1), (1.5, 1.5)))},
        "hungry": {1: Sensitivity((1000, 3000, 6000), (5, 10), ((0.5, 0.5), (1, 1), (2, 2)))},
        "modest": {1: Sensitivity((1000, 3000), (5, 10), ((1.0, 1.0), (1.0, 1.0)))},
    },
    Resources(0, 3000, 10),
)


def recorded(mechanism: Mechanism = Mechanism.opt) -> Recorded:
    """Return a run on 3 GPUs and 9 CPUs, of which 5 go to the hungry job, not to the first."""
    there = servers(3, cpus_milli=9000, memory_mb=30)
    speeds = SpeedModel({each.node: each.configuration for each in there}, sensitivity=TABLE)
    jobs = [
        TraceJob(job_id(number), 0, JobSpec(model=model), 40, JobEnd.finished)
        for number, model in enumerate(("mild", "hungry", "modest"))
    ]
    chosen = RankedPolicy(
        SubmissionOrder("fifo", Misfit.skipped),
        Consolidated(),
        sizing=Sizing(mechanism, TABLE, HighsSolver() if mechanism is Mechanism.opt else None),
    )
    outcome = run(World(servers=there, jobs=tuple(jobs), round_us=10, speeds=speeds), chosen)
    return Recorded(list(outcome.events), rebuilt(chosen, RoundRules(10)))


RUN = recorded()
(FIRST, *_) = RUN.seqs(SizesSet)
SOLVED: SizesSet = RUN.at(FIRST)


def parted(run: Recorded, *, resolve: bool) -> str:
    """Return why the log and what is decided now part; nothing, if they do not."""
    divergence = Verifier(run.rebuild, resolve=resolve).take(run.events)
    return "" if divergence is None else divergence.why


@pytest.mark.parametrize("resolve", [False, True])
def test_what_was_recorded_is_decided_again(resolve: bool) -> None:
    assert parted(RUN, resolve=resolve) == ""


@pytest.mark.parametrize(
    ("instead", "why"),
    [
        ([], "sizes are due, and were not recorded"),
        ([replace(SOLVED, speed=SOLVED.speed + 1e-3)], "other sizes were recorded"),
        ([replace(SOLVED, bound=SOLVED.bound + 1e-3)], "other sizes were recorded"),
        ([SOLVED, SOLVED], "no sizes are due here"),
    ],
)
def test_solving_again_finds_an_answer_that_is_none(instead: list[Event], why: str) -> None:
    assert parted(RUN.changed(FIRST, *instead), resolve=True) == why


OTHERS = Size(job_id(0), 5000, 5), Size(job_id(1), 3000, 5), Size(job_id(2), 1000, 5)


@pytest.mark.parametrize(
    ("instead", "why"),
    [
        ([], "the round came out otherwise"),
        ([replace(SOLVED, sizes=(), speed=3.0)], "another decision was recorded"),
        ([replace(SOLVED, sizes=OTHERS, speed=round(10 / 3, 9))], "another decision was recorded"),
    ],
    ids=["no answer", "no sizes", "other sizes"],
)
def test_decisions_that_do_not_follow_from_the_answer_are_found(
    instead: list[Event], why: str
) -> None:
    assert parted(RUN.changed(FIRST, *instead), resolve=False) == why


@pytest.mark.parametrize("resolve", [False, True])
@pytest.mark.parametrize("speed", [1e308, 0.0, math.nextafter(SOLVED.speed, 9), -SOLVED.speed])
def test_speed_that_is_not_of_the_sizes_is_found_without_solving(
    speed: float, resolve: bool
) -> None:
    """It is that of all jobs that run: the last answer sizes one, and others stay as they are."""
    for seq in RUN.seqs(SizesSet):
        wrong = RUN.changed(seq, replace(RUN.at(seq), speed=speed))
        found = Verifier(wrong.rebuild, resolve=resolve).take(wrong.events)
        assert found is not None
        assert found.why in ("these sizes have another speed", "other sizes were recorded")
        assert isinstance(found.replayed, SizesSet)
        assert (found.seq, found.replayed.speed) == (seq, RUN.at(seq).speed)


def test_sizes_where_no_programs_say_any_are_found() -> None:
    tuned = recorded(Mechanism.tune)
    assert not tuned.seqs(SizesSet)
    first = tuned.seqs(RoundPlanned)[0]
    run = tuned.changed(first, SOLVED, tuned.at(first))
    assert parted(run, resolve=False) == "no sizes are due here"
