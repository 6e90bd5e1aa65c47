"""How commands reach the daemon, and how people read its answers.

In this order: the client that waits out a restart, lists, why a job waits, and forecasts.
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from shunter import __version__
from shunter.addresses import LATELY_S, TcpAddress, UnixAddress, was_there_lately
from shunter.cli import output
from shunter.cli.units import duration, number, percent
from shunter.client import Absence
from shunter.counting import counted
from shunter.errors import ShunterError, UnavailableError, UnreachableError, UsageError

if TYPE_CHECKING:
    from shunter.client import Answer, Client


COMPLETED_MOST = 20
"""So many jobs that have ended are proposed for an id that is being typed."""

T = TypeVar("T")

_asked: list[str] = []
"""The daemon that was connected to last, if one was."""

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="ADDRESS",
        help="The daemon: unix:PATH or http://HOST:PORT. Left out: SHUNTER_URL, or the usual "
        "socket.",
    ),
]


def job_ids(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return ids that complete one, with the names of the jobs."""
    try:
        with connect(ctx.params.get("url")) as client:
            found = [*client.queue()["jobs"], *client.history(limit=COMPLETED_MOST)["jobs"]]
    except ShunterError:
        return []
    names = {one["id"]: one["name"] for one in found if one["id"].startswith(incomplete)}
    return list(names.items())


JobArgument = Annotated[
    str,
    typer.Argument(metavar="JOB", help="The job's id, such as j142.", autocompletion=job_ids),
]


def check_source(log: str | None, url: str | None) -> None:
    """Raise a UsageError if both a log and a daemon are named to be asked."""
    if log is not None and url is not None:
        raise UsageError("--log reads a log without a daemon and --url asks one: leave one out")


def connect(url: str | None) -> "Client":
    """Return a client of the daemon that is named, or of the usual one.

    Raises:
        UsageError: the address is none.
        UnreachableError: nothing is named, and nothing is running.
    """
    from shunter.client import Client, process_words

    def note() -> None:
        where = f"{client.address}{process_words(client.address)}"
        output.note(f"the daemon on {where} has not answered yet; Ctrl-C leaves it")

    client = Client(url)
    _asked[:] = [str(client.address)]
    client.on_slow = note
    return client


def lacking(error: KeyError) -> UnreachableError | None:
    """Return what a missing field of an answer means: a daemon of another version.

    None: the key is of something else, and missing by a fault of this program.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else trace.tb_frame.f_globals.get("__name__", "")
    if not _asked or not place.startswith(("shunter.cli.", "shunter.client.")):
        return None
    version = "another version"
    with suppress(ShunterError, KeyError), connect(_asked[0]) as client:
        version = f"Shunter {client.daemon()['version']}"
    return UnreachableError(
        f"the answer of the daemon on {_asked[0]} lacks the field {error}: that is of {version}, "
        f"and this is {__version__}: `shunter down`, then `shunter up`, takes this one; jobs run on"
    )


def patiently(
    do: Callable[[], T], address: UnixAddress | TcpAddress, patience_s: float | None
) -> T:
    """Do something, again for some seconds where no daemon answers now.

    That is said once, on stderr. It must be something that may be done twice.

    Args:
        do: what is done.
        address: where the daemon is.
        patience_s: for how long; None: LATELY_S, and not at all where none was there lately.
    Raises:
        UnavailableError: none has answered by then.
    """
    absence: Absence | None = None
    while True:
        try:
            return do()
        except UnavailableError as error:
            if patience_s is None:
                patience_s = LATELY_S if was_there_lately(address) else 0.0
            if absence is None:
                absence = Absence(patience_s)
                if patience_s > 0:
                    output.note(f"{error}; it is tried again for {patience_s:g} s")
            if not absence.pause():
                if patience_s > 0:  # the whole sentence was said before
                    told = f"no daemon answers after {patience_s:g} s either"
                    raise UnavailableError(f"{told}: given up") from error
                raise


# Lists; rich would take seconds for 10,000 rows. Cells come from others: control characters in them
# are shown as `?`, so that no name moves the cursor.

ROWS_ON_A_SCREEN = 200
CELL_MOST = 60
EMPTY = "–"
EXITED = "exit"
"""The cause of a failure of which the exit code says all."""

NOT_LAUNCHED = "not launched: "
"""Begins what ended an attempt whose launch failed."""


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


# Why a job waits.

BLOCKERS_NAMED = 4


def clause(reason: "Answer") -> str:
    """Return why a job waits, with the numbers and ids behind it."""
    from shunter.ask import REASONS

    known = REASONS.get(reason["name"])
    words = reason["name"].replace("_", " ") if known is None else known.clause
    if reason["name"] == "no_capacity" and reason["free"] >= reason["needed"] > 0:
        words = "too few GPUs were free at the last round"
    if reason["name"] == "cpu_or_memory_short" and not reason["needed"]:
        words = "too few CPUs or too little memory is free"
    parts = [words]
    if reason["needed"]:
        parts.append(f"needs {reason['needed']}, {reason['free']} free")
    blockers = reason["blockers"]
    if blockers:
        hidden = len(blockers) - BLOCKERS_NAMED
        named = ", ".join(blockers[:BLOCKERS_NAMED]) + (f" and {hidden} more" if hidden > 0 else "")
        parts.append(f"held back by {named}")
    array, _, at_once = reason["detail"].partition(":")
    if array == "array":
        parts.append(f"{counted(int(at_once), 'task')} of its array may run at once")
    elif reason["detail"]:
        parts.append(reason["detail"])
    return "; ".join(parts)


# Forecasts.

FORECAST_COLUMNS: tuple[output.Column | str, ...] = (
    *("JOB", "NAME", "USER", output.Column("GPUS", is_number=True), "STATE"),
    *(output.Column(name, is_number=True) for name in ("START P50", "P90", "END P50", "P90")),
)
FEW = 30
"""With fewer past jobs their share says little, and that is said."""


def forecast_of_log(address: str) -> "Answer":
    """Return when the jobs of a log start and end that have not ended in it.

    Raises:
        ShunterError: the log cannot be read, or nothing be foreseen from it.
    """
    import asyncio

    from shunter.ask.forks import Question, answer

    return asyncio.run(answer(Question(address))).document


def print_forecast(found: "Answer", *, as_json: bool) -> None:
    """Print a forecast."""
    if as_json:
        output.print_json(found)
        return
    now_us = found["now_us"]
    rows = [
        [
            *(job["id"], job["name"], job["user"], str(job["gpus"]), job["state"]),
            *_band_cells(job["start"], now_us),
            *_band_cells(job["end"], now_us),
        ]
        for job in found["jobs"]
    ]
    print_rows(FORECAST_COLUMNS, rows)
    for line in forecast_trust(found):
        output.print_line(line)


def forecast_in_words(found: "Answer") -> list[str]:
    """Return when the only job of a forecast starts and ends, in a line each."""
    (job,), now_us = found["jobs"], found["now_us"]
    lines = []
    for what in ("start", "end"):
        p50, p90 = _band_cells(job[what], now_us)
        is_told = job[what]["p90_us"] is not None
        lines.append(
            f"  {what}s in {p50} (P50), {p90} (P90)"
            if is_told
            else f"  when it {what}s cannot be predicted"
        )
    return lines


def forecast_trust(found: "Answer") -> list[str]:
    """Return how past forecasts held, and what this one takes for granted."""
    accuracy = found["accuracy"]
    lines = [
        f"simulated {counted(found['samples'], 'time')} from e{found['seq']} on, {found['now']}"
    ]
    for what, came, counts in (
        ("starts", "past jobs that waited started", accuracy),
        ("ends", "past jobs ended", accuracy["ends"]),
    ):
        if counts.get("ended") == 0:  # a daemon of before does not say it
            lines.append(f"accuracy of {what}: not known yet, as no job has ended")
            continue
        if not (jobs := counts["jobs"]):
            lines.append(f"accuracy of {what}: not known yet, as no past forecast has come due")
            continue
        few = ", which are few" if jobs < FEW else ""
        lines.append(
            f"accuracy of {what}: {percent(counts['share_by_p90'])} of {number(jobs)} {came} "
            f"within their P90, {percent(counts['by_p50'] / jobs)} within their P50{few}"
        )
    if accuracy["moments"]:
        lines.append(
            f"accuracy: predicted again at {counted(accuracy['moments'], 'past moment')}, from "
            "what was known then"
        )
    return [*lines, *(f"assumed: {each}" for each in found["assumptions"])]


def _band_cells(band: "Answer | None", now_us: int) -> list[str]:
    """Return P50 and P90 as time from now; `-`: it has begun, `?`: not foreseen."""
    if band is None:
        return ["-", "-"]
    found = (band["p50_us"], band["p90_us"])
    return ["?" if us is None else duration(max(0, us - now_us) / 1e6) for us in found]
