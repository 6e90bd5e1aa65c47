"""Answers of ECOS to every form of problem, held against our own solver: as good, and in limits."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from shunter.errors import PlanError
from shunter.policies.gavel import Demands, Fractions, JobRequest, Targets
from shunter_peers.gavel.conic import Form, Kind
from shunter_peers.gavel.objectives import CentredFinishTimes
from shunter_peers.gavel.policy_table import POLICY_TABLE
from tests.peers.gavel.conic.requests import K80, NOWHERE, P100, TYPES, V100, WIDE, A, B, C, demands

pytest.importorskip("_ecos", reason="needs the extra `ecos`")
answers = pytest.importorskip("shunter_peers.gavel.conic.answers")

PRICES = {K80: 0.5, P100: 1.0, V100: 2.0}
SOLVED = [name for name, play in POLICY_TABLE.items() if play.form is not None]
Value = Callable[[Demands, Fractions], float]


def both(name: str, these: Demands) -> tuple[Fractions, Fractions]:
    """Return what ECOS and what our own solver say."""
    play = POLICY_TABLE[name]
    objective: Targets = play.make(0, PRICES)
    finishing = objective if isinstance(objective, CentredFinishTimes) else None
    if finishing is not None:
        finishing.note(these)
    assert play.form is not None
    return answers.answer(play.form, these, PRICES, finishing), objective.fractions(these)


def steps(
    these: Demands, fractions: Fractions, request: JobRequest, *, ones: bool = False
) -> float:
    """Return the effective throughput of a job."""
    total = 0.0
    kinds = {one.job_id: one.kind for one in these.requests}
    for gang, row in fractions.items():
        for name, part in row.items():
            if gang == (request.job_id,):
                total += part * (1.0 if ones else these.rate(request, name))
            elif request.job_id in gang:
                rates = these.table.pair_rates(name, kinds[gang[0]], kinds[gang[1]]) or (0.0, 0.0)
                total += part * rates[gang.index(request.job_id)]
    return total


def least_level(these: Demands, fractions: Fractions, *, ones: bool = False) -> float:
    gpus = sum(these.gpus.values())
    found = []
    for request in these.requests:
        mean = sum(
            many / gpus * (1.0 if ones else these.rate(request, name))
            for name, many in these.gpus.items()
        )
        done = steps(these, fractions, request, ones=ones)
        found.append(done / mean * request.kind.gpus / request.weight)
    return min(found)


def total(these: Demands, fractions: Fractions) -> float:
    return sum(steps(these, fractions, request) for request in these.requests)


def worth(these: Demands, fractions: Fractions) -> float:
    return sum(
        part * these.rate(request, name) / PRICES[name]
        for request in these.requests
        for name, part in fractions[request.job_id,].items()
    )


def worst_ratio(these: Demands, fractions: Fractions) -> float:
    alone = CentredFinishTimes()
    alone.note(these)
    whole_s = alone.whole_s(these).tolist()
    found: list[float] = [
        (request.age_s + request.left / steps(these, fractions, request)) / alone_s
        for request, alone_s in zip(these.requests, whole_s, strict=True)
    ]
    return max(found)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_min_fairness", lambda these, x: least_level(these, x, ones=True)),
        ("max_min_fairness_perf", least_level),
        ("max_min_fairness_packed", least_level),
        ("max_min_fairness_water_filling_perf", least_level),
        ("max_sum_throughput_perf", total),
        ("max_sum_throughput_normalized_by_cost_perf", worth),
        ("finish_time_fairness_perf", worst_ratio),
        ("finish_time_fairness_packed", worst_ratio),
    ],
)
def test_answer_is_as_good_as_that_of_our_own_solver(name: str, value: Value) -> None:
    """Packed, the public code divides throughputs by weights where finish times count, too."""
    weighed = name != "finish_time_fairness_packed"
    these = demands(A, B, C, A, B, B, room=(2, 1, 1), weighed=weighed)

    theirs, ours = both(name, these)

    assert value(these, theirs) == pytest.approx(value(these, ours), rel=1e-5)


@pytest.mark.parametrize("name", SOLVED)
def test_answer_keeps_every_limit(name: str) -> None:
    these = demands(A, B, A, B, A, A, A, room=(2, 1, 1))

    fractions, _ = both(name, these)

    for gpu_type in TYPES:
        assert sum(row[gpu_type] for row in fractions.values()) <= these.gpus[gpu_type] + 1e-6
    for request in these.requests:
        time = sum(sum(row.values()) for gang, row in fractions.items() if request.job_id in gang)
        assert time <= 1 + 1e-6
    assert all(0.0 <= part <= 1.0 for row in fractions.values() for part in row.values())


@pytest.mark.parametrize("name", SOLVED)
def test_same_problem_has_the_same_answer_to_the_last_digit(name: str) -> None:
    these = demands(A, B, C, A)

    assert both(name, these)[0] == both(name, these)[0]


@pytest.mark.parametrize("name", SOLVED)
def test_one_job_alone_has_an_answer(name: str) -> None:
    fractions, _ = both(name, demands(B))

    assert sum(sum(row.values()) for row in fractions.values()) > 0.5


@pytest.mark.parametrize("name", SOLVED)
def test_nobody_has_nothing(name: str) -> None:
    assert both(name, demands())[0] == {}


def test_gangs_of_unequal_size_are_no_pair() -> None:
    fractions, _ = both("max_min_fairness_packed", demands(A, WIDE, B, WIDE, room=(2, 2, 2)))

    pairs = [gang for gang in fractions if len(gang) > 1]
    assert pairs == [("0", "2"), ("1", "3")]


def test_makespan_is_within_five_per_cent_of_the_least() -> None:
    these = demands(A, B, C, A, room=(1, 1, 1))

    theirs, ours = both("min_total_duration_perf", these)

    def ends_s(fractions: Fractions) -> float:
        return max(request.left / steps(these, fractions, request) for request in these.requests)

    assert ends_s(theirs) == pytest.approx(ends_s(ours), rel=0.06)


def test_job_that_can_run_nowhere_is_named_as_the_cause() -> None:
    with pytest.raises(PlanError, match="no throughput on any GPU type"):
        both("max_min_fairness_perf", demands(A, NOWHERE))


def test_deadlines_that_cannot_be_met_are_dropped_together() -> None:
    these = demands(A, B, C)
    late = replace(
        these,
        requests=tuple(
            replace_deadline(request, 0.001 * request.left) for request in these.requests
        ),
    )

    assert (
        both("max_sum_throughput_normalized_by_cost_perf_SLOs", late)[0]
        == (both("max_sum_throughput_normalized_by_cost_perf", these)[0])
    )


def test_deadline_that_can_be_met_is() -> None:
    these = demands(A, B, C)
    requests = (replace_deadline(these.requests[0], 1000 / 3.0), *these.requests[1:])
    asked = replace(these, requests=requests)

    fractions, _ = both("max_sum_throughput_normalized_by_cost_perf_SLOs", asked)

    assert steps(asked, fractions, asked.requests[0]) >= 3.0 - 1e-6


def replace_deadline(request: JobRequest, left_s: float) -> JobRequest:
    return JobRequest(
        request.job_id, request.kind, request.left, request.age_s, request.weight, left_s
    )


def test_type_without_a_price_is_named() -> None:
    with pytest.raises(PlanError, match="no price is known of v100"):
        answers.answer(Form(Kind.sum, priced=True), demands(A), {K80: 1.0, P100: 1.0})
