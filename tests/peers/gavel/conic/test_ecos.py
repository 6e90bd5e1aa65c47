"""What ECOS is given, and what is made of how it ends: a stand-in says how."""

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from shunter.errors import ConfigError, PlanError
from shunter_peers.gavel.conic.cones import Program
from shunter_peers.gavel.conic.ecos import Found, solve


def ended(monkeypatch: pytest.MonkeyPatch, flag: int) -> tuple[Found | None, tuple[Any, ...]]:
    """Return what is made of an end, and what ECOS was given."""
    given: list[tuple[Any, ...]] = []

    def csolve(*problem: Any, verbose: bool) -> dict[str, Any]:
        given.append(problem)
        assert not verbose
        return {"x": np.array([7.0]), "info": {"exitFlag": flag, "infostring": "as told"}}

    monkeypatch.setitem(sys.modules, "_ecos", SimpleNamespace(csolve=csolve))
    program = Program.of(1)
    program.put(program.at_most([5.0]), 0, 2.0)
    program.put(program.in_cones(np.array([[0.0, 0.0, 2.0]])), 0, -1.0)
    return solve(program), given[0]


def test_problem_is_given_as_it_was_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    _, (shape, cost, values, rows, begins, limit, dims) = ended(monkeypatch, 0)

    assert shape == (4, 1, 0)
    assert cost.tolist() == [0.0]
    assert (values.tolist(), rows.tolist(), begins.tolist()) == ([2.0, -1.0], [0, 1], [0, 2])
    assert limit.tolist() == [5.0, 0.0, 0.0, 2.0]
    assert dims == {"l": 1, "q": [3], "e": 0}


@pytest.mark.parametrize(("flag", "is_optimal"), [(0, True), (10, False), (-1, False)])
def test_answer_counts_though_it_is_inaccurate(
    monkeypatch: pytest.MonkeyPatch, flag: int, is_optimal: bool
) -> None:
    found, _ = ended(monkeypatch, flag)

    assert found is not None
    assert (found.x.tolist(), found.is_optimal) == ([7.0], is_optimal)


@pytest.mark.parametrize("flag", [1, 2, 11, 12])
def test_problem_without_an_answer_has_none(monkeypatch: pytest.MonkeyPatch, flag: int) -> None:
    assert ended(monkeypatch, flag)[0] is None


def test_solver_that_gives_up_is_a_plan_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PlanError, match=r"ECOS gave up \(as told\)"):
        ended(monkeypatch, -2)


def test_interrupt_that_ecos_took_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt):
        ended(monkeypatch, -4)


def test_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "_ecos", None)

    with pytest.raises(ConfigError, match=r"pip install 'shunter-peers\[ecos\]'"):
        solve(Program.of(1))
