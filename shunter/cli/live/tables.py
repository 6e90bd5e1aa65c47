"""Lists of any length for people, on a terminal or in a file; rich would take seconds for 10,000.

Cells come from others: control characters in them are shown as `?`, so that no name moves the
cursor. Every list says how much of it is not shown.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from shunter.cli import output
from shunter.counting import counted

if TYPE_CHECKING:
    from shunter.client.requests import Answer

ROWS_ON_A_SCREEN = 200
CELL_MOST = 60
EMPTY = "–"
EXITED = "exit"
NOT_LAUNCHED = "not launched: "
"""Begins what ended an attempt whose launch failed."""
"""The cause of a failure of which the exit code says all."""


def print_rows(columns: Sequence[output.Column | str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under a head, each column as wide as it must be."""
    shown = [one if isinstance(one, output.Column) else output.Column(one) for one in columns]
    cells = [[printable(cell) or EMPTY for cell in row] for row in rows]
    heads = [column.title for column in shown]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    pads = [
        f"{{:>{width}}}" if column.is_number else f"{{:<{width}}}"
        for width, column in zip(widths, shown, strict=True)
    ]
    line = "  ".join(pads).format
    output.print_line("\n".join(line(*row).rstrip() for row in (heads, *cells)))


def one_line(text: str) -> str:
    """Return a text of any length that takes one line and moves no cursor."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def printable(text: str) -> str:
    """Return a text for a cell: one line of it, cut where it is long."""
    text = one_line(text)
    return text if len(text) <= CELL_MOST else text[: CELL_MOST - 1] + "…"


def rows_shown() -> int | None:
    """Return how many rows a list has at most: a screen holds so many, a file all."""
    import sys

    return ROWS_ON_A_SCREEN if sys.stdout.isatty() else None


def beside(cpus: float, memory_mb: int) -> str:
    """Return amounts of CPUs and memory for people; nothing of which there is none."""
    return ", ".join([counted(cpus, "CPU")] * bool(cpus) + [f"{memory_mb:,} MB"] * bool(memory_mb))


def insert_columns(
    columns: list[output.Column | str],
    rows: Sequence[list[str]],
    place: int,
    more: Sequence[output.Column | str],
    cells: Sequence[Sequence[str]],
) -> None:
    """Put columns into a table at a place, unless all their cells are empty."""
    if any(cell for row in cells for cell in row):
        columns[place:place] = more
        for row, added in zip(rows, cells, strict=True):
            row[place:place] = added


TURNS: tuple[output.Column | str, ...] = (
    *("TURN", output.Column("FAIR-SHARE", is_number=True), output.Column("USED", is_number=True)),
)
"""The columns of jobs that take turns: who has one now, and parts of the time."""


def turn_cells(turns: "Answer | None") -> tuple[str, str, str]:
    """Return the cells of a job under `TURNS`; nothing of one that takes none."""
    if turns is None:
        return "", "", ""
    used = turns["used"]
    share = f"{turns['fair_share']:.3f}"
    return "now" if turns["is_on"] else "waits", share, "" if used is None else f"{used:.3f}"


def age(since: str, now: datetime) -> str:
    """Return how long ago a date was: 02:11:09, or 3d 02:11."""
    seconds = max(0, int((now - datetime.fromisoformat(since)).total_seconds()))
    days, seconds = divmod(seconds, 86_400)
    hours, minutes = seconds // 3600, seconds // 60 % 60
    if days:
        return f"{days}d {hours:02d}:{minutes:02d}"
    return f"{hours:02d}:{minutes:02d}:{seconds % 60:02d}"


def ended_by(cause: str, code: int | None, killed_by: str = "") -> list[str]:
    """Return why a job ended and its exit code, where that says more."""
    if killed_by:
        return [f"killed by {killed_by}"]
    parts = [cause] if cause and cause != EXITED else []
    return parts if code is None else [*parts, f"exit code {code}"]


def end_of(document: "Answer", last: str = "") -> str:
    """Return how a job ended, with its exit code and the last line it printed."""
    code, cause = document["exit_code"], document["cause"]
    if code is None and document["state"] == "finished":
        code = 0
    said = (
        ", ".join(ended_by(cause, code, document.get("killed_by", ""))) or "no exit code is known"
    )
    state = "" if document["state"] in cause else f" {document['state']}"
    told = f"{document['id']}{state}: {said}"
    return f"{told}; last line: {one_line(last)}" if last else told


def local_time(date: str | None) -> str:
    """Return a date in the reader's time zone, to the second, with its offset."""
    if date is None:
        return ""
    return datetime.fromisoformat(date).astimezone().isoformat(sep=" ", timespec="seconds")
