"""Curves of completion times, drawn by matplotlib, which only who asks for plots must have."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from shunter.errors import ShunterError, UsageError, extra_hint
from shunter_papers.tables import Row, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS: Final = 1_000
"""Of a curve at most; more are not seen."""

STYLES: Final = ("-", "--", "-.", ":")
"""Lines differ in more than colour."""


def check_plots(folder: Path) -> None:
    """Refuse plots that could not be drawn, before anything is run.

    Raises:
        UsageError: matplotlib is missing, or the folder is a file.
    """
    if find_spec("matplotlib") is None:
        raise UsageError(
            "--plots needs matplotlib, which is not installed; "
            + extra_hint("plots", "shunter-papers")
        )
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--plots {folder}: expected a folder, and this is a file")


def draw_plots(folder: Path, paper: str, tables: Sequence[Table]) -> list[Path]:
    """Draw the distribution of completion times, for each table and variant.

    The folder is made if it is missing; equal tables give equal files.

    Raises:
        ShunterError: a file cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [
            _draw(folder, paper, table, variant)
            for table in tables
            for variant in dict.fromkeys(row.variant for row in table.rows)
        ]
    except OSError as error:
        raise ShunterError(f"cannot write plots to {folder}: {error.strerror}") from error


def curve(values: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return points of a cumulative distribution: ascending values, and shares."""
    count = len(values)
    places = sorted({round(i * (count - 1) / (POINTS - 1)) for i in range(POINTS)}) if count else []
    return [values[place] for place in places], [(place + 1) / count for place in places]


def _draw(folder: Path, paper: str, table: Table, variant: str) -> Path:
    # The object-oriented interface: no window system, and no state of the whole process.
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    rows = [row for row in table.rows if row.variant == variant]
    path = folder / f"{paper}-{Path(table.trace).stem}-load-{table.load:g}-{variant}.svg"
    with rc_context({"svg.hashsalt": "shunter", "svg.fonttype": "none"}):
        figure = Figure(figsize=(7, 4.5), layout="constrained")
        axes = figure.add_subplot()
        _fill(axes, rows)
        axes.set_title(f"{table.place}, restarts {rows[0].variant_title} (simulated)")
        figure.savefig(path, format="svg", metadata={"Date": None})
    return path


def _fill(axes: "Axes", rows: Sequence[Row]) -> None:
    for number, row in enumerate(rows):
        values, shares = curve(row.jct_s)
        star = "*" if row.oracle else ""
        axes.plot(
            values,
            shares,
            STYLES[number % len(STYLES)],
            label=row.label + star,
            drawstyle="steps-post",
        )
    axes.set_xscale("log")
    axes.set_xlabel("job completion time in seconds")
    axes.set_ylabel("share of jobs")
    axes.set_ylim(0, 1)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(title="* oracle" if any(row.oracle for row in rows) else None)
