"""The compact form: what is written is read again, in one order."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from shunter.core.speeds import JobKind, ThroughputTable
from shunter.errors import ConfigError
from shunter.events import GpuType
from shunter.workloads import compact_throughputs, parse_compact_throughputs

RATES = st.just(0.0) | st.floats(1e-9, 1e12)
KINDS = st.lists(
    st.builds(JobKind, st.text(min_size=1, max_size=3), st.integers(1, 8)), min_size=1, unique=True
)


@st.composite
def tables(draw: st.DrawFn) -> ThroughputTable:
    """Return tables of two GPU types with some rates and pairs missing."""
    kinds = draw(KINDS)
    alone, paired = {}, {}
    for gpu_type in map(GpuType, draw(st.permutations(["v100", "k80"]))):
        known = draw(st.lists(st.sampled_from(kinds), unique=True))
        alone[gpu_type] = {kind: draw(RATES) for kind in known}
        pairs = {}
        for one, other in draw(
            st.lists(st.tuples(*[st.sampled_from(known)] * 2)) if known else st.just([])
        ):
            rates = (draw(RATES), draw(RATES))
            rates = (rates[0], rates[0]) if one == other else rates
            pairs[one, other], pairs[other, one] = rates, rates[::-1]
        paired[gpu_type] = pairs
    return ThroughputTable(alone, paired, GpuType("v100"))


def document(**changes: Any) -> dict[str, Any]:
    kinds = [["A3C", 1], ["LM", 2]]
    return {"kinds": kinds, "alone": {"v100": [7, None]}, "pairs": {}} | changes


def orders(table: ThroughputTable) -> list[object]:
    return [
        [(gpu_type, list(rates)) for gpu_type, rates in table.alone.items()],
        [(gpu_type, list(pairs)) for gpu_type, pairs in table.paired.items()],
        list(table.kinds),
    ]


@given(tables())
def test_what_is_written_is_read_again_in_the_order_of_narrowed(table: ThroughputTable) -> None:
    if not table.kinds:
        return
    text = json.dumps(compact_throughputs(table), sort_keys=True)
    again = parse_compact_throughputs(json.loads(text), "t")
    expected = table.narrowed(table.alone)
    assert again == expected == table
    assert orders(again) == orders(expected)
    assert json.dumps(compact_throughputs(again), sort_keys=True) == text


def test_a_pair_stands_once_and_without_rates_where_it_cannot_run() -> None:
    one, other = JobKind("A", 1), JobKind("B", 1)
    pairs = {(other, one): (2.0, 0.5), (one, other): (0.5, 2.0), (one, one): (0.0, 0.0)}
    table = ThroughputTable({GpuType("t"): {other: 3.0, one: 1.5}}, {GpuType("t"): pairs})
    assert compact_throughputs(table) == {
        "base": "",
        "kinds": [["A", 1], ["B", 1]],
        "alone": {"t": [1.5, 3]},
        "pairs": {"t": [[0, 0], [0, 1, 0.5, 2]]},
    }


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"colour": 1}, "colour: unknown; expected kinds, alone, pairs"),
        ({"kinds": []}, "kinds: expected a list"),
        ({"kinds": [["A3C"], ["LM", 2]]}, "kinds, 0: expected a model and its GPUs"),
        ({"kinds": [["A3C", 0], ["LM", 2]]}, "kinds, 0: expected a model and its GPUs"),
        ({"kinds": [["A3C", 1], ["A3C", 1]]}, "'A3C' on 1 GPU stands twice"),
        ({"base": 3}, "base: expected a GPU type"),
        ({"alone": {}}, "alone: expected at least one GPU type"),
        ({"alone": {"v100": [7]}}, "alone, v100: expected a list of 2 rates"),
        ({"alone": {"v100": [7, -1]}}, "alone, v100, 'LM' on 2 GPUs: expected steps per second"),
        ({"pairs": {"k80": []}}, "pairs, k80: a GPU type of which `alone` says nothing"),
        ({"pairs": {"v100": 3}}, "pairs, v100: expected a list"),
        ({"pairs": {"v100": [[0, 2]]}}, "pairs, v100, 0: expected two numbers of kinds"),
        ({"pairs": {"v100": [[1, 0]]}}, "the lower first"),
        ({"pairs": {"v100": [[0, 1, 3]]}}, "and two rates"),
        ({"pairs": {"v100": [[0, 1, 3, -3]]}}, "0 or 1e-09 to 1e+12, not -3"),
        ({"pairs": {"v100": [[0, 1], [0, 1, 2, 3]]}}, "stands twice"),
        ({"pairs": {"v100": [[1, 1, 2, 3]]}}, "not symmetric: 'LM' on 2 GPUs with itself"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_compact_throughputs(document(**changes), "t.json")
    assert str(caught.value).startswith("t.json: ")
    assert said in str(caught.value)


def test_part_that_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match=r"t\.json: pairs: missing"):
        parse_compact_throughputs({"kinds": [], "alone": {}}, "t.json")
