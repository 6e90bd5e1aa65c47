"""Curves and files; matplotlib is part of the development environment."""

from collections.abc import Callable
from pathlib import Path

import pytest

from shunter.errors import ShunterError, UsageError
from shunter_papers.plots import POINTS, check_plots, curve, draw_plots
from shunter_papers.tables import Row, Table

pytestmark = pytest.mark.fidelity

MakeRow = Callable[..., Row]
MakeTable = Callable[..., Table]


def test_a_curve_rises_to_one_at_the_largest_value() -> None:
    assert curve([1.0, 2.0, 2.0, 8.0]) == ([1.0, 2.0, 2.0, 8.0], [0.25, 0.5, 0.75, 1.0])


def test_a_long_curve_keeps_its_ends() -> None:
    values, shares = curve([float(i) for i in range(50_000)])

    assert len(values) == POINTS
    assert (values[0], values[-1], shares[-1]) == (0.0, 49_999.0, 1.0)


def test_the_curve_of_nothing_is_empty() -> None:
    assert curve([]) == ([], [])


def test_equal_tables_give_equal_files_for_each_variant(
    make_row: MakeRow, make_table: MakeTable, tmp_path: Path
) -> None:
    rows = [
        make_row("base", (2, 2, 2), values=(1.0, 3.0)),
        make_row("best", (1, 1, 1), values=(), oracle=True),
        make_row("base", (2, 2, 2), values=(1.0, 3.0), variant="costs"),
    ]
    table = make_table(*rows, trace="jobs.csv")

    first = draw_plots(tmp_path / "new" / "first", "paper", [table])
    second = draw_plots(tmp_path / "second", "paper", [table])

    assert [path.name for path in first] == [
        "paper-jobs-load-0.9-free.svg",
        "paper-jobs-load-0.9-costs.svg",
    ]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert "best*" in first[0].read_text(encoding="utf-8")


def test_without_matplotlib_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("shunter_papers.plots.find_spec", lambda name: None)

    with pytest.raises(
        UsageError, match=r"Shunter's environment: pip install 'shunter-papers\[plots\]'"
    ):
        check_plots(tmp_path)


def test_a_file_is_no_folder_for_plots(tmp_path: Path) -> None:
    (tmp_path / "plots").write_text("")

    with pytest.raises(UsageError, match="expected a folder, and this is a file"):
        check_plots(tmp_path / "plots")


def test_plots_that_cannot_be_written_are_an_error(
    make_row: MakeRow, make_table: MakeTable, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ShunterError, match="cannot write plots to"):
        draw_plots(tmp_path / "file" / "plots", "paper", [make_table(make_row("base", (1, 1, 1)))])
