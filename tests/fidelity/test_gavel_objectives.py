"""Objectives on the inputs of recorded runs, held against HiGHS and against what ECOS returned.

The recorded allocations are played, so that every input is the one the peer had. Where an optimum
is not unique ECOS is at its centre mostly, but not always: then its fractions must be as good.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shunter.core.speeds import ThroughputTable
from shunter.policies.gavel import (
    Arrays,
    Demands,
    Floats,
    Fractions,
    Groups,
    arrays_of,
    proportional_rates,
)
from shunter_peers.gavel import PeerRounds
from shunter_peers.gavel.arrays import rated
from shunter_peers.gavel.conic import Form, Kind
from shunter_peers.gavel.policy_table import POLICY_TABLE
from tests.doubles.highs_oracle import highs_level, highs_sum
from tests.fidelity.test_gavel_literal import NONE, RESULTS
from tests.fidelity.test_gavel_mechanism import Played, fractions_of

pytestmark = pytest.mark.fidelity
pytest.importorskip("highspy", reason="needs HiGHS: the extra `solvers`")

FAIR = ("max_min_fairness", "max_min_fairness_perf")
SUMS = ("max_sum_throughput_perf",)
TRACES = ("artifact", "makespan", "medium", "gen120")


def cases(policies: tuple[str, ...]) -> list[Any]:
    found = [
        RESULTS / "replay" / f"{trace}__{policy}.rounds.json"
        for trace in TRACES
        for policy in policies
    ]
    return [pytest.param(path, id=path.name.split(".")[0]) for path in found if path.is_file()]


def inputs(path: Path) -> list[tuple[Demands, Fractions]]:
    """Return what each recorded allocation was computed from, and the allocation."""
    replay = json.loads(path.read_text(encoding="utf-8"))
    recorded = iter(replay["allocations"])
    found: list[tuple[Demands, Fractions]] = []

    def repeat(rounds: PeerRounds, table: ThroughputTable) -> Fractions:
        fractions = fractions_of(next(recorded)[1])
        found.append((rounds.demands(table), fractions))
        return fractions

    Played(replay["config"], repeat).run()
    return [(demands, fractions) for demands, fractions in found if demands.requests]


def objective_of(path: Path) -> Any:
    return POLICY_TABLE[path.name.split(".")[0].split("__")[1]].make(0, {})


def matrix(demands: Demands, fractions: Fractions) -> Floats:
    rows = [fractions[(request.job_id,)] for request in demands.requests]
    return np.array([[row.get(name, 0.0) for name in demands.gpus] for row in rows])


def one_by_one(found: Arrays) -> Groups:
    return Groups(found.rates, np.ones(len(found.sizes)), found.sizes, found.capacity)


def same_or_as_good(ours: Floats, theirs: Floats, value: Any) -> bool:
    close = bool(np.abs(ours - theirs).max() < 1e-3)
    return close or value(theirs) == pytest.approx(value(ours), rel=1e-4)


@pytest.mark.parametrize("path", cases(FAIR) or NONE)
def test_least_normalised_throughput_is_that_of_highs(path: Path) -> None:
    agnostic = "perf" not in path.name
    for demands, recorded in inputs(path):
        found = rated(Form(Kind.level, ones=agnostic), demands)
        groups = one_by_one(found)
        demand = found.weights * proportional_rates(groups) / found.sizes
        ours = matrix(demands, objective_of(path).fractions(demands))

        def least(fractions: Floats, found: Arrays = found, demand: Floats = demand) -> float:
            return float(((found.rates * fractions).sum(axis=1) / demand).min())

        assert least(ours) == pytest.approx(highs_level(groups, demand), rel=1e-6)
        assert same_or_as_good(ours, matrix(demands, recorded), least)


@pytest.mark.parametrize("path", cases(SUMS) or NONE)
def test_sum_of_throughputs_is_that_of_highs(path: Path) -> None:
    for demands, recorded in inputs(path):
        found = arrays_of(demands)
        ours = matrix(demands, objective_of(path).fractions(demands))
        best = highs_sum(one_by_one(found), np.ones(len(found.types)), np.zeros(len(ours)))

        def total(fractions: Floats, found: Arrays = found) -> float:
            return float((found.rates * fractions).sum())

        assert total(ours) == pytest.approx(best, rel=1e-6)
        assert same_or_as_good(ours, matrix(demands, recorded), total)


@pytest.mark.parametrize("path", cases(("finish_time_fairness_perf",)) or NONE)
def test_no_shares_have_a_lower_worst_ratio_of_finish_times(path: Path) -> None:
    """At a ratio a millionth below ours, what all jobs need is more than HiGHS can give."""
    objective = objective_of(path)
    for demands, _ in inputs(path):
        found = arrays_of(demands)
        objective.note(demands)
        ours = matrix(demands, objective.fractions(demands))
        ids = [request.job_id for request in demands.requests]
        spent_s = np.array([objective.alone_s[job_id] for job_id in ids])
        alone_s = spent_s + found.left / np.array([objective.rates[job_id] for job_id in ids])
        rates = (found.rates * ours).sum(axis=1)
        ratio = float(((found.ages_s + found.left / rates) / alone_s).max())

        level = highs_level(one_by_one(found), found.left / (ratio * alone_s - found.ages_s))

        assert level is not None
        below = highs_level(
            one_by_one(found), found.left / (ratio * (1 - 1e-6) * alone_s - found.ages_s)
        )
        assert level >= 1 - 1e-9
        assert below is None or below < 1.0


@pytest.mark.parametrize("path", cases(("min_total_duration_perf",)) or NONE)
def test_makespan_is_within_five_per_cent_of_the_least(path: Path) -> None:
    for demands, recorded in inputs(path):
        found = arrays_of(demands)
        least_s = 1.0 / (highs_level(one_by_one(found), found.left) or 0.0)

        spans_s = [
            float((found.left / (found.rates * fractions).sum(axis=1)).max())
            for fractions in (
                matrix(demands, objective_of(path).fractions(demands)),
                matrix(demands, recorded),
            )
        ]

        assert all(least_s * (1 - 1e-6) <= span_s for span_s in spans_s)
        assert all(span_s <= least_s * 1.05 or span_s <= 100.0 * 1.05 for span_s in spans_s)
