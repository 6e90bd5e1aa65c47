"""The throughput files of the Gavel simulator."""

import json
from typing import Any

import pytest

from shunter.core.speeds import JobKind
from shunter.errors import ConfigError
from shunter.events import GpuType
from shunter.workloads import parse_gavel_json

V100 = GpuType("v100")
A3C, LM = JobKind("A3C", 1), JobKind("LM (batch size 5)", 2)
ONE, TWO = "('A3C', 1)", "('LM (batch size 5)', 2)"


def document(**changes: Any) -> dict[str, Any]:
    """Return a file of two kinds; a keyword names row and cell, such as `one_null`."""
    rows = {
        "one": {"null": 7.0, ONE: [3.0, 3.0], TWO: [5.0, 80.0]},
        "two": {"null": 100, ONE: [80.0, 5.0]},
    }
    for key, value in changes.items():
        row, _, cell = key.partition("_")
        rows[row][{"null": "null", "one": ONE, "two": TWO}[cell]] = value
    return {"v100": {ONE: rows["one"], TWO: rows["two"]}}


def fault_of(content: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_gavel_json(content, "t.json")
    return str(caught.value)


def test_rates_are_by_type_and_kind_and_pairs_go_both_ways() -> None:
    table = parse_gavel_json(document(), "t.json")
    assert table.alone == {V100: {A3C: 7.0, LM: 100.0}}
    assert table.paired == {
        V100: {(A3C, A3C): (3.0, 3.0), (A3C, LM): (5.0, 80.0), (LM, A3C): (80.0, 5.0)}
    }


def test_rate_of_zero_is_kept_and_a_pair_left_out_is_unknown() -> None:
    table = parse_gavel_json(document(one_null=0.0), "t.json")
    assert table.rate(V100, A3C) == 0.0
    assert table.pair_rates(V100, LM, LM) is None


def test_model_may_hold_quotes_and_commas() -> None:
    table = parse_gavel_json({"v100": {'("it\'s, (a)", 2)': {"null": 1}}}, "t.json")
    assert list(table.kinds) == [JobKind("it's, (a)", 2)]


@pytest.mark.parametrize(
    "value", [-1, "7", None, True, float("nan"), float("inf"), [1], 10**400, 1e-300]
)
def test_number_that_is_no_rate_is_named_with_its_place(value: Any) -> None:
    said = fault_of(document(one_null=value))
    assert said.startswith("t.json: v100, 'A3C' on 1 GPU, alone (null): expected steps per second")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"two_one": [80.0, 5.5]}, "not symmetric: [5.0, 80.0] here, and the pair the other way"),
        ({"one_one": [3.0, 4.0]}, "with 'A3C' on 1 GPU: not symmetric: [3.0, 4.0] here"),
        ({"two_two": [1.0, 2.0]}, "not symmetric"),
        ({"one_two": [5.0]}, "expected two rates"),
        ({"one_two": 5.0}, "expected two rates"),
        ({"one_two": [5.0, -80.0]}, "0 or 1e-09 to 1e+12, not -80.0"),
        ({"one_two": [5.0, float("nan")]}, "0 or 1e-09 to 1e+12, not nan"),
    ],
)
def test_wrong_pair_is_named(changes: dict[str, Any], said: str) -> None:
    assert said in fault_of(document(**changes))


def test_pair_that_stands_one_way_only_is_not_symmetric() -> None:
    content = document()
    del content["v100"][TWO][ONE]
    assert fault_of(content) == (
        "t.json: v100, 'A3C' on 1 GPU with 'LM (batch size 5)' on 2 GPUs: not symmetric: "
        "[5.0, 80.0] here, and the pair the other way round is missing"
    )


def test_pair_with_a_kind_that_has_no_row_is_named() -> None:
    content = document()
    content["v100"][ONE]["('B', 1)"] = [1, 1]
    assert "with 'B' on 1 GPU: the second has no row of its own" in fault_of(content)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({}, "t.json: the file: expected at least one GPU type"),
        ({"v100": {}}, "t.json: v100: expected at least one kind of job"),
        ({"v100": 3}, "t.json: v100: expected an object, not 3"),
        ({"v100": {ONE: 7.0}}, "t.json: v100, ('A3C', 1): expected an object, not 7.0"),
        ({"v100": {"A3C": {"null": 1}}}, "expected a key such as ('A3C', 1), not A3C"),
        ({"v100": {"('A3C', 0)": {"null": 1}}}, "expected a key such as"),
        ({"v100": {"('A3C', 1) or 1": {"null": 1}}}, "expected a key such as"),
    ],
)
def test_file_of_another_shape_is_refused(content: dict[str, Any], said: str) -> None:
    assert said in fault_of(content)


def test_many_faults_are_counted_and_the_first_shown() -> None:
    rows = {f"('M{number}', 1)": {"null": -1} for number in range(9)}
    lines = fault_of({"v100": rows}).splitlines()
    assert (len(lines), lines[-1]) == (6, "t.json: and 4 more faults")


def test_numbers_are_not_rounded() -> None:
    rate = 32.353384328946916
    table = parse_gavel_json(json.loads(json.dumps(document(one_null=rate))), "t.json")
    assert table.rate(V100, A3C) == rate
