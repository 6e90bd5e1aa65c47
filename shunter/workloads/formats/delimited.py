"""Comma-separated files: the header, if any, checked once; lines numbered from 1."""

import csv
import io
from collections.abc import Callable, Iterator, Sequence

from shunter.errors import TraceError
from shunter.workloads.formats.format import TraceText
from shunter.workloads.quality import Fault, Inspection, number_fault


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
