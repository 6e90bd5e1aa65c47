"""Where output goes: data to stdout, everything else to stderr.

`rich` is imported when a table or a progress bar is drawn, `orjson` when JSON is written.
"""

import errno
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Literal, TextIO

from shunter.errors import ShunterError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDTH_WITHOUT_TERMINAL = 1000  # a file has room for what a screen would fold

BETWEEN = "   "
"""What rich puts between two columns of a table."""

_COMMAND = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all controls but tab and line feed

_IS_NARROW = re.compile(r"[\x20-\x7e\xa1-\xac\xae-\u02ff–—…→─]*").fullmatch
"""Whether each letter of a text takes one column."""

_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE)

Advance = Callable[[int, int], None]


@dataclass(frozen=True)
class Column:
    """A column of a table; numbers stand to the right."""

    title: str
    is_number: bool = False


class _Color:
    """Whether colour is allowed at all; rich also obeys NO_COLOR and terminals."""

    allowed = True


def use_color(allowed: bool) -> None:
    """Allow or forbid colour for the rest of the process."""
    _Color.allowed = allowed


def replace_closed() -> None:
    """Write nowhere where stdout or stderr is closed.

    Else a file that is opened later would have its number.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            lowest = os.open(os.devnull, os.O_RDWR)  # 0, 1 and 2 in turn
            setattr(sys, name, os.fdopen(lowest, mode))


@contextmanager
def ended_if_unwritable() -> Iterator[None]:
    """End with a line on stderr and 1 if what a command prints cannot be written.

    A disk that is full says so only once what was held back is written, at the end.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.filename is not None or error.errno not in _UNWRITABLE:
            raise
        with suppress(OSError):  # stderr may lie on the same disk
            if error.errno != errno.EPIPE:  # whoever read it wants no more
                note(f"error: the output cannot be written: {error.strerror}")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python writes once more
        sys.exit(1)


def visible(text: str, stream: TextIO) -> str:
    """Return a text as a stream may have it: elsewhere than on a terminal, as it is.

    Jobs and their names come from others. What would move the cursor, ring or change a title is
    spelled out there: the escape is shown by its number.
    """
    return _COMMAND.sub(_spelled_out, text) if stream.isatty() else text


def print_line(text: str = "") -> None:
    """Print a line of data."""
    sys.stdout.write(visible(text, sys.stdout) + "\n")


def print_json(document: object) -> None:
    """Print one JSON document; what is not a number in it is null."""
    import orjson

    sys.stdout.write(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n")


def print_json_line(document: object) -> None:
    """Print one document of a stream on a line of its own."""
    import orjson

    sys.stdout.write(orjson.dumps(document).decode() + "\n")


def print_table(columns: Sequence[Column | str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table of texts to stdout."""
    if not _print_plain(
        [each if isinstance(each, Column) else Column(each) for each in columns], rows
    ):
        _print_folded(columns, rows)


def _print_plain(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> bool:
    """Print a table as rich does, whose import takes longer; False: it has to do it.

    It draws on terminals, folds what is too wide, and knows how wide letters are.
    """
    lines = [[column.title for column in columns], *rows]
    text = "".join(map("".join, lines))
    if sys.stdout.isatty() or not (rows and text) or not _IS_NARROW(text):
        return False
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    width = sum(widths) + len(BETWEEN) * (len(widths) - 1)
    if width > WIDTH_WITHOUT_TERMINAL:
        return False
    form = BETWEEN.join(
        f"{{:{'>' if column.is_number else '<'}{width}}}"
        for column, width in zip(columns, widths, strict=True)
    )
    drawn = [form.format(*(cell.rstrip() for cell in cells)).rstrip() for cells in lines]
    sys.stdout.write("\n".join([drawn[0], "─" * width, *drawn[1:], ""]))
    return True


def _print_folded(columns: Sequence[Column | str], rows: Sequence[Sequence[str]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        shown = Column(column) if isinstance(column, str) else column
        justify: Literal["left", "right"] = "right" if shown.is_number else "left"
        table.add_column(Text(shown.title), justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*(Text(visible(cell, sys.stdout)) for cell in row))
    _print_drawn(table)


def print_fitting(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], dropped: Sequence[str]
) -> list[str]:
    """Print a table without columns for which the terminal is too narrow.

    Args:
        columns: all of them.
        rows: a text for each column.
        dropped: the titles of those that may be left out, in that order.
    Returns:
        which were.
    """
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL
    widths = {
        column.title: max(map(len, (column.title, *texts)))
        for column, *texts in zip(columns, *rows, strict=True)
    }
    left_out: list[str] = []
    for title in dropped:
        if sum(widths.values()) + len(BETWEEN) * (len(widths) - 1) <= room:
            break
        if widths.pop(title, None) is not None:
            left_out.append(title)
    shown = [number for number, column in enumerate(columns) if column.title in widths]
    print_table([columns[i] for i in shown], [[row[i] for i in shown] for row in rows])
    return left_out


def print_pairs(pairs: Sequence[tuple[str, str]]) -> None:
    """Print names and their values to stdout, one pair a line, never folded."""
    width = max((len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        print_line(f"{name:{width}}  {value}".rstrip())


def note(text: str) -> None:
    """Say something to a person, on stderr."""
    sys.stderr.write(visible(text, sys.stderr) + "\n")


def print_error(error: ShunterError) -> None:
    """Say what went wrong, one line for each fault, on stderr."""
    for line in str(error).splitlines() or [type(error).__name__]:
        sys.stderr.write(f"error: {visible(line, sys.stderr)}\n")


@contextmanager
def progress(what: str, *, as_lines: bool = False) -> Iterator[Advance | None]:
    """Show a bar on stderr while the block runs; None where nobody would see it.

    The yielded function takes how much is done so far, and of how much. With `as_lines` it writes a
    line for each step where stderr is no terminal, such as in a file or in CI.
    """
    if not sys.stderr.isatty():
        yield (lambda done, total: note(f"{what}: {done} of {total}")) if as_lines else None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = _console(is_error=True)
    shown = Progress(
        *columns, TimeElapsedColumn(), console=console, transient=True, refresh_per_second=4
    )
    with shown as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def ended_like_an_interrupt() -> Iterator[None]:
    """Let SIGTERM and SIGHUP do what Ctrl-C does, while the block runs."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        interrupted = signal.getsignal(signal.SIGINT)  # asyncio has one of its own while it runs
        if not callable(interrupted):
            raise KeyboardInterrupt
        interrupted(signal.SIGINT, frame)

    # What is ignored stays so: under nohup, a terminal that is closed ends nothing.
    numbers = (signal.SIGTERM, signal.SIGHUP)
    ending = [each for each in numbers if signal.getsignal(each) is signal.SIG_DFL]
    for each in ending:
        signal.signal(each, interrupt)
    try:
        yield
    finally:
        for each in ending:
            signal.signal(each, signal.SIG_DFL)


def _spelled_out(found: re.Match[str]) -> str:
    return f"\\x{ord(found[0]):02x}"


def _print_drawn(drawn: "Table") -> None:
    """Print what rich draws, without the blanks it fills lines up with."""
    console = _console(is_error=False)
    with console.capture() as captured:
        console.print(drawn)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def _console(*, is_error: bool) -> "Console":
    from rich.console import Console

    file = sys.stderr if is_error else sys.stdout
    width = None if file.isatty() else WIDTH_WITHOUT_TERMINAL
    return Console(
        file=file, width=width, no_color=None if _Color.allowed else True, highlight=False
    )
