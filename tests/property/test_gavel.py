"""Laws of Gavel's policies: over any small world, and of targets and receipts by themselves."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from shunter.ask import Verifier
from shunter.config import completed
from shunter.core import Job, Policy, state_digest
from shunter.core.planning import PLACEMENTS
from shunter.core.speeds import JobKind, ThroughputTable
from shunter.events import GpuType, JobId, PlanRejected, SchedulerStarted, encode_record
from shunter.policies.gavel import (
    OBJECTIVES,
    Candidate,
    Chosen,
    Demands,
    Fractions,
    FreeByType,
    GavelPolicy,
    JobRequest,
    Ledger,
    Timing,
    TwoLevelPolicy,
    choose,
)
from tests.commanded import Commanded
from tests.factories import Outcome, job_spec, run
from tests.property.worlds import Scene, scenes
from tests.replay.recording import Recorded, rebuilt
from tests.slices import searched

TYPES = (GpuType("k80"), GpuType("p100"), GpuType("v100"))
PLAYED = ("max_min_fairness", "fifo", "finish_time_fairness", "hierarchical", "allox")


def gavel(objective: str, placement: str = "consolidated", **chosen: Any) -> GavelPolicy:
    """Return a policy with turns of 20 microseconds."""
    made = OBJECTIVES[objective](Chosen(**chosen))
    return GavelPolicy(made, PLACEMENTS[placement](), Timing(20, 200))


def two_level(inside: str, placement: str) -> Policy[Any]:
    """Return the policy around an index policy, with turns of 20 microseconds."""
    where = PLACEMENTS[placement]()
    return completed(TwoLevelPolicy(inside, {}, "user", {}, 20, where), where)


def played(scene: Scene, by: Policy[Any]) -> tuple[Outcome, Recorded]:
    outcome = run(scene.world, by, wrapped=lambda backend: Commanded(backend, scene.commands))
    rules = scene.world.rules(instant=scene.world.backend().instant)
    start = outcome.events[0]
    assert isinstance(start, SchedulerStarted)
    events = [replace(start, simulated=True), *outcome.events[1:]]
    return outcome, Recorded(events, rebuilt(by, rules))


@pytest.mark.parametrize("name", PLAYED)
@searched(40)
@given(scene=scenes())
def test_any_run_is_decided_again_without_solving(name: str, scene: Scene) -> None:
    """The fold refuses a GPU that is given twice and a gang that is not whole."""
    outcome, recorded = played(scene, gavel(name, scene.placement))
    verifier = Verifier(recorded.rebuild)

    divergence = verifier.take(recorded.events)

    assert divergence is None, "\n".join(divergence.lines())
    assert state_digest(verifier.state) == state_digest(outcome.state)
    assert encode_record(verifier.memory) == encode_record(outcome.core.memory)


@pytest.mark.parametrize("inside", ["srtf", "las", "fifo"])
@searched(40)
@given(scene=scenes())
def test_any_run_of_two_levels_is_decided_again(inside: str, scene: Scene) -> None:
    outcome, recorded = played(scene, two_level(inside, scene.placement))
    verifier = Verifier(recorded.rebuild)

    divergence = verifier.take(recorded.events)

    assert divergence is None, "\n".join(divergence.lines())
    assert encode_record(verifier.memory) == encode_record(outcome.core.memory)


@searched(40)
@given(scene=scenes())
def test_nothing_is_refused_of_what_it_plans(scene: Scene) -> None:
    outcome, _ = played(scene, gavel("max_min_fairness", scene.placement))

    assert outcome.of(PlanRejected) == []


@st.composite
def problems(draw: st.DrawFn, gangs: tuple[int, ...] = (1, 2, 4)) -> Demands:
    """Return claims on up to three GPU types, each job able to run on one of them at least."""
    types = TYPES[: draw(st.integers(1, 3))]
    kinds = [
        JobKind(f"m{number}", draw(st.sampled_from(gangs)))
        for number in range(draw(st.integers(1, 4)))
    ]
    rates = st.floats(0.1, 50.0)
    table = ThroughputTable({name: {kind: draw(rates) for kind in kinds} for name in types})
    requests = [
        JobRequest(
            JobId(f"j{number}"),
            draw(st.sampled_from(kinds)),
            draw(st.integers(1, 1_000_000)),
            draw(st.floats(0.0, 1e5)),
            draw(st.sampled_from((1.0, 2.0, 5.0))),
            entity=draw(st.sampled_from("ab")),
        )
        for number in range(draw(st.integers(1, 9)))
    ]
    return Demands(tuple(requests), {name: draw(st.integers(4, 12)) for name in types}, table)


def answered(objective: Any, demands: Demands) -> Fractions:
    if hasattr(objective, "note"):
        objective.note(demands)
    found: Fractions = objective.fractions(demands)
    return found


WITH_LIMITS = sorted(set(OBJECTIVES) - {"proportional"})


@pytest.mark.parametrize("name", WITH_LIMITS)
@searched(25)
@given(demands=problems(), aware=st.booleans())
def test_targets_are_fractions_and_never_exceed_the_cluster(
    name: str, demands: Demands, aware: bool
) -> None:
    prices = dict.fromkeys(TYPES, 1.0)
    chosen = Chosen(aware=aware, prices=prices if name.startswith("min_cost") else {})
    fractions = answered(OBJECTIVES[name](chosen), demands)

    for gpu_type, gpus in demands.gpus.items():
        used = sum(
            request.kind.gpus * fractions.get((request.job_id,), {}).get(gpu_type, 0.0)
            for request in demands.requests
        )
        assert used <= gpus * (1 + 1e-9)
    for row in fractions.values():
        assert all(-1e-12 <= part <= 1 + 1e-12 for part in row.values())
        assert sum(row.values()) <= 1 + 1e-9


@searched(40)
@given(demands=problems())
def test_equal_weights_leave_no_job_below_its_isolated_share(demands: Demands) -> None:
    """Sharing incentive (OSDI 2020, section 4.4), for jobs of one size."""
    requests = tuple(
        JobRequest(
            request.job_id,
            JobKind(request.kind.model, demands.requests[0].kind.gpus),
            request.left,
            rates={name: demands.rate(request, name) for name in demands.gpus},
        )
        for request in demands.requests
    )
    alike = Demands(requests, demands.gpus, demands.table)

    fair = answered(OBJECTIVES["max_min_fairness"](Chosen()), alike)
    alone = answered(OBJECTIVES["isolated"](Chosen()), alike)

    for request in requests:
        gang = (request.job_id,)
        got, least = (
            sum(alike.rate(request, name) * part for name, part in rows[gang].items())
            for rows in (fair, alone)
        )
        assert got >= least * (1 - 1e-6)


@searched(40)
@given(demands=problems())
def test_identical_jobs_get_identical_targets(demands: Demands) -> None:
    twins = tuple(
        JobRequest(
            JobId(f"{request.job_id}{twin}"),
            request.kind,
            request.left,
            request.age_s,
            request.weight,
        )
        for request in demands.requests
        for twin in "ab"
    )
    for name in ("max_min_fairness", "water_filling", "makespan", "finish_time_fairness"):
        fractions = answered(
            OBJECTIVES[name](Chosen()),
            Demands(twins, demands.gpus, demands.table),
        )
        for request in demands.requests:
            assert (
                fractions[(JobId(f"{request.job_id}a"),)]
                == fractions[(JobId(f"{request.job_id}b"),)]
            )


ROUNDS, ROUNDS_OFF_MOST = 300, 4.0


@searched(15)
@given(demands=problems(gangs=(1,)))
def test_time_received_stays_within_rounds_of_the_targets(demands: Demands) -> None:
    """However long it goes on, so shares converge: here to within 4 / 300 of all time."""
    fractions = answered(OBJECTIVES["max_min_fairness"](Chosen()), demands)
    ledger = Ledger(list(demands.gpus), 10.0)
    for request in demands.requests:
        ledger.add((request.job_id,))
    ledger.reset(fractions, 0.0)
    jobs = [job_asking(request, ordinal) for ordinal, request in enumerate(demands.requests)]
    got = {(job.job_id, name): 0.0 for job in jobs for name in demands.gpus}
    for number in range(ROUNDS):
        ledger.pass_time(float(number))
        rates = [
            {name: demands.rate(request, name) for name in demands.gpus}
            for request in demands.requests
        ]
        candidates = [Candidate(job, rate) for job, rate in zip(jobs, rates, strict=True)]
        choice = choose(ledger, candidates, FreeByType(dict(demands.gpus), {}))
        for job_id, (_, gpu_type) in choice.chosen.items():
            ledger.credit((job_id,), gpu_type, 1.0)
            got[job_id, gpu_type] += 1.0

    behind = [
        part * ROUNDS - got[gang[0], name]
        for gang, row in fractions.items()
        for name, part in row.items()
    ]
    assert max(behind) <= ROUNDS_OFF_MOST


def job_asking(request: JobRequest, ordinal: int) -> Job:
    spec = job_spec(request.kind.gpus)
    return Job(request.job_id, ordinal, spec, spec.demand(), 0)
