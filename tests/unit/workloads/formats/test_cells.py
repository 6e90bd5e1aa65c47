"""Single cells of a canonical trace."""

import pytest

from shunter.events import Dependency, DependsWhen, JobId
from shunter.workloads.formats import canonical as cells


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1, "0.000001"), (2_500_000, "2.5"), (60_000_000, "60"), (-1_500_000, "-1.5")],
)
def test_fixed_point_text_has_no_needless_zeros(value: int, text: str) -> None:
    assert cells.fixed_text(value, 6) == text


@pytest.mark.parametrize(
    ("text", "dependency"),
    [
        ("a", Dependency(JobId("a"))),
        ("a:ok", Dependency(JobId("a"))),
        ("a:any", Dependency(JobId("a"), DependsWhen.any)),
        ("a:b", Dependency(JobId("a:b"))),
        ("a:any:ok", Dependency(JobId("a:any"))),
    ],
)
def test_dependency_may_name_an_id_with_a_colon(text: str, dependency: Dependency) -> None:
    assert cells.read_dependency(text) == dependency
    assert cells.read_dependency(cells.write_dependency(dependency)) == dependency


@pytest.mark.parametrize(
    "items", [["a"], ["a", "b"], ["a|b"], ["[a"], [""], ["a", ""], ["ä\n", '"']]
)
def test_list_is_read_as_written(items: list[str]) -> None:
    assert cells.split_list(cells.join_list(items)) == items


def test_plain_list_is_written_with_bars() -> None:
    assert cells.join_list(["v100", "a100"]) == "v100|a100"
