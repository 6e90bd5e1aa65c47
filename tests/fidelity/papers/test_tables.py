"""Ratios to the baseline of the same variant."""

from collections.abc import Callable

import pytest

from shunter_papers.tables import Row, Table, table_document

pytestmark = pytest.mark.fidelity

MakeRow = Callable[..., Row]
MakeTable = Callable[..., Table]


def test_a_ratio_is_the_baselines_time_over_the_rows(
    make_row: MakeRow, make_table: MakeTable
) -> None:
    base, other = make_row("base", (600, 90, 1000)), make_row("other", (200, 30, 2000))
    table = make_table(base, other)

    ratios = [table.ratio(other, f"jct_s.{name}") for name in ("mean", "p50", "p95")]

    assert ratios == [3.0, 3.0, 0.5]
    assert table.ratio(base, "jct_s.mean") == 1.0


def test_a_row_is_compared_within_its_variant(make_row: MakeRow, make_table: MakeTable) -> None:
    rows = [
        make_row("base", (600, 1, 1)),
        make_row("other", (300, 1, 1)),
        make_row("base", (900, 1, 1), variant="costs"),
        make_row("other", (300, 1, 1), variant="costs"),
    ]

    table = make_table(*rows)

    assert table.ratio(rows[3], "jct_s.mean") == 3.0


def test_no_ratio_where_no_job_finished(make_row: MakeRow, make_table: MakeTable) -> None:
    base, none = make_row("base", (600, 90, 1000)), make_row("none", (None, None, None))

    assert make_table(base, none).ratio(none, "jct_s.mean") is None
    assert make_table(none, base).ratio(base, "jct_s.mean") is None


def test_the_document_names_measures_as_compare_does(
    make_row: MakeRow, make_table: MakeTable
) -> None:
    base, other = make_row("base", (600, 90, 1000)), make_row("other", (200, 30, 2000))

    document = table_document(make_table(base, other))

    assert document["runs"][1]["ratios"] == {
        "jct_s.mean": 3.0,
        "jct_s.p50": 3.0,
        "jct_s.p95": 0.5,
    }
    assert document["runs"][1]["jct_s"]["mean"] == 200
    assert document["trace"] == {"name": "made", "source": "made", "jobs": 10}
