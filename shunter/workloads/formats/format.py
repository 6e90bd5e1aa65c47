"""What a file format is, which there are, and what those of comma-separated files share.

A new format of ours is a module with a `TraceFormat`, and one line in the table below; Philly's
and Slurm's are imported when their format is asked for.
"""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Final

from shunter.core.speeds import ThroughputTable
from shunter.errors import ConfigError, TraceError
from shunter.plugins import BROUGHT, PEERS, Plugins, brings
from shunter.workloads.trace import Fault, Inspection, TraceJob, number_fault

SECONDS_MAX = 2**31
"""68 years. Later instants are some other unit, and below it floats are exact to a microsecond."""

COUNT_MAX = 2**53


@dataclass(frozen=True)
class TraceText:
    """A file to be parsed: its path for messages, its text, and the chosen options.

    `throughputs` are those at hand; a format that needs them always has them. `columns` are the
    names of columns that the file has under others, by these.
    """

    path: str
    text: str
    options: Mapping[str, str] = field(default_factory=dict)
    throughputs: ThroughputTable | None = None
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TraceFormat:
    """One format.

    Attributes:
        recognises: whether a file begins like this format; sees its first characters.
        parse: returns the usable jobs in file order, and tells the inspection about the others.
        is_absolute: instants are microseconds since 1970 (UTC) and become relative to the first
            selected one; otherwise they stand as the file has them.
        unit: what a place in the file is counted in.
        options: the allowed values of each option, the default first.
        needs_throughputs: rows give steps, and a table says how long they take.
    """

    name: str
    recognises: Callable[[str], bool]
    parse: Callable[[TraceText, Inspection], list[TraceJob]]
    is_absolute: bool = False
    unit: str = "line"
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    needs_throughputs: bool = False


def read_seconds(text: str) -> int:
    """Return microseconds for seconds; ValueError for NaN, negative or absurd."""
    seconds = float(text)
    if not 0 <= seconds <= SECONDS_MAX:
        raise ValueError(text)
    return round(seconds * 1_000_000)


def read_count(text: str) -> int:
    """Return a whole number from 0 up; "4.0" is one, 4.5 is a ValueError."""
    try:
        count = int(text)
    except ValueError:
        count = _whole(text)
    if not 0 <= count <= COUNT_MAX:
        raise ValueError(text)
    return count


def _whole(text: str) -> int:
    value = float(text)
    if not value.is_integer():
        raise ValueError(text)
    return int(value)


# Instants: ISO 8601, in UTC where no zone is named.

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH: Final = _EPOCH.replace(tzinfo=None)


def instant_us(text: str) -> int:
    """Return microseconds since 1970 (UTC); ValueError before, or for no instant."""
    moment = datetime.fromisoformat(text)
    since = moment - (_NAIVE_EPOCH if moment.tzinfo is None else _EPOCH)
    if since.days < 0:
        raise ValueError(text)
    return since.days * 86_400_000_000 + since.seconds * 1_000_000 + since.microseconds


def iso_text(us: int) -> str:
    """Return the ISO 8601 text of an instant in microseconds since 1970, in UTC."""
    return (_EPOCH + timedelta(microseconds=us)).isoformat()


# Formats; other packages add theirs by entry points `shunter.trace_formats` (extending.md).

_MODULES: Final = {
    "canonical-csv": ("canonical", "CSV_FORMAT"),
    "canonical-jsonl": ("canonical", "JSONL_FORMAT"),
    "philly-csv": ("philly", "CSV_FORMAT"),
    "philly-json": ("philly", "JSON_FORMAT"),
    "slurm-sacct": ("slurm_sacct", "FORMAT"),
}
"""The module of each format of ours, and its name there."""
_PLUGINS: Final = Plugins("trace format", "shunter.trace_formats")
_HEAD_LENGTH = 4096


def format_names() -> tuple[str, ...]:
    """Return the names of all formats that are installed, ours first."""
    return (*_MODULES, *(name for name in _PLUGINS.names() if name not in _MODULES))


def is_known_format(name: str) -> bool:
    """Return whether a format of that name is installed, or one of shunter-peers."""
    return name in format_names() or name in BROUGHT[_PLUGINS.group]


def find_format(name: str) -> TraceFormat:
    """Return the format of that name.

    Raises:
        TraceError: there is none; it names the others, or who brings it.
        ConfigError: its package cannot be imported, or gives something else.
    """
    if name in _MODULES:
        module, constant = _MODULES[name]
        found = getattr(import_module(f"shunter.workloads.formats.{module}"), constant)
        assert isinstance(found, TraceFormat)
        assert found.name == name
        return found
    point = _PLUGINS.point(name)
    if point is None and name in BROUGHT[_PLUGINS.group]:
        raise TraceError(_PLUGINS.missing(name))
    if point is None:
        known = ", ".join(format_names())
        raise TraceError(f"unknown trace format {name!r}: expected one of {known}")
    brought = _PLUGINS.loaded(point)
    if not isinstance(brought, TraceFormat) or brought.name != name:
        raise ConfigError(
            f"trace format {name!r}: expected {point.value} to be a "
            f"shunter.workloads.TraceFormat of that name, not {brought!r}"
        )
    return brought


def guess_format(path: str, text: str) -> TraceFormat:
    """Return the format a file begins like; TraceError if it is none of them."""
    head = text[:_HEAD_LENGTH]
    for name in format_names():
        if (candidate := find_format(name)).recognises(head):
            return candidate
    line = head.lstrip().partition("\n")[0][:80]
    away = [name for name in BROUGHT[_PLUGINS.group] if _PLUGINS.point(name) is None]
    others = f"; if it is {' or '.join(away)}: {brings(PEERS)}" if away else ""
    raise TraceError(
        f"{path}, line 1: cannot tell the format from {line!r}; name it with format = "
        f"{' | '.join(format_names())}, or rename the columns (docs/reference/traces.md){others}"
    )


class DelimitedRows:
    """Iterates over the rows of a CSV text behind its header, if it has one.

    Blank lines are skipped and listed in `blank_lines`; `line` is the last line of the row that
    was returned last, counted from 1.
    """

    def __init__(self, file: TraceText, columns: Sequence[str] = ()) -> None:
        """Read the header; TraceError if there is none or a name stands in it twice.

        A file without one has these `columns`.
        """
        self.path = file.path
        self.blank_lines: list[int] = []
        self.last_row_line = 0
        # The text is split here and not by the csv module: a lone carriage return inside quotes
        # is part of a field, and newline="" keeps it.
        self._reader = csv.reader(io.StringIO(file.text, newline=""), strict=True)
        theirs = [*columns] or [name.strip() for name in next(iter(self), [])]
        if absent := [name for name in file.columns if name not in theirs]:
            raise TraceError(
                f"{file.path}, line 1: there is no column {absent[0]!r} to be called "
                f"{file.columns[absent[0]]}; found {', '.join(theirs)}"
            )
        self.header = [file.columns.get(name, name) for name in theirs]
        if not self.header:
            raise TraceError(f"{file.path} is empty: expected a header and one row for each job")
        for name in self.header:
            if self.header.count(name) > 1:
                raise TraceError(f"{file.path}, line {self.line}: column {name!r} stands twice")

    @property
    def line(self) -> int:
        """The line the row returned last ends on, from 1."""
        return self._reader.line_num

    def __iter__(self) -> Iterator[list[str]]:
        """Yield rows; TraceError with the line where quotes do not match."""
        reader = self._reader
        try:
            for fields in reader:
                if fields and (len(fields) > 1 or fields[0].strip()):
                    yield fields
                    self.last_row_line = reader.line_num
                else:
                    self.blank_lines.append(reader.line_num)
        except csv.Error as error:
            raise TraceError(
                f"{self.path}, line {reader.line_num}: not valid CSV ({error}); check the quotes"
            ) from error

    def is_whole(self, fields: list[str], inspection: Inspection) -> bool:
        """Return whether a row has as many fields as the header; drop it if not."""
        excess = len(fields) - len(self.header)
        if excess:
            fault = Fault.surplus if excess > 0 else Fault.missing
            column = "" if excess > 0 else self.header[len(fields)]
            inspection.drop(fault, column, "", self.line)
        return not excess

    def report_blanks(self, inspection: Inspection) -> None:
        """Tell the inspection about blank lines; call it behind the last row."""
        inspection.see_blanks(self.blank_lines, self.last_row_line)

    def require(self, names: tuple[str, ...]) -> None:
        """Raise TraceError naming the columns that are missing."""
        missing = [name for name in names if name not in self.header]
        if missing:
            raise TraceError(
                f"{self.path}, line 1: missing columns {', '.join(missing)}; "
                f"found {', '.join(self.header)}; expected at least {', '.join(names)}"
            )

    def note_others(self, names: tuple[str, ...], inspection: Inspection) -> None:
        """Tell the inspection of columns that mean nothing here."""
        inspection.note_others(self.header, names)


def names_some_of(columns: Sequence[str], least: int) -> Callable[[str], bool]:
    """Return what recognises a header by some of its names, so many at the least.

    A file that lacks a column is one of the format all the same, and is told so, by name.
    """
    return lambda head: len(header_of(head).intersection(columns)) >= least


def header_of(head: str) -> set[str]:
    """Return the names in the first line that is not blank, for recognising a format."""
    line = head.lstrip("\ufeff\r\n \t").partition("\n")[0]
    return {name.strip().strip('"') for name in line.split(",")}


def first_fault(*numbers: tuple[str, str, Callable[[str], object]]) -> tuple[Fault, str, str]:
    """Return fault, column and text of the first number of a row that is none.

    Each is a column, the text in it, and the reader that raises ValueError for a wrong one.
    """
    wrong = [(column, text) for column, text, read in numbers if not can_read(read, text)]
    assert wrong, "a row is asked for its fault only when one of its numbers was refused"
    column, text = wrong[0]
    return number_fault(text), column, text


def can_read(read: Callable[[str], object], text: str) -> bool:
    """Say whether a reader takes a text."""
    try:
        read(text)
    except ValueError:
        return False
    return True
