"""The canonical trace as CSV: a header, then one job a row; lists written as a|b."""

from typing import Final

from shunter.workloads.formats.canonical import COLUMNS, CanonicalRows
from shunter.workloads.formats.columns import REQUIRED
from shunter.workloads.formats.delimited import DelimitedRows, header_of
from shunter.workloads.formats.format import TraceFormat, TraceText
from shunter.workloads.quality import Inspection
from shunter.workloads.trace import TraceJob

__all__ = ["FORMAT", "parse_canonical_csv"]


def parse_canonical_csv(file: TraceText, inspection: Inspection) -> list[TraceJob]:
    """Return the usable rows in file order, instants as the file has them."""
    rows = DelimitedRows(file)
    rows.require(REQUIRED)
    rows.refuse_others(COLUMNS)
    canonical = CanonicalRows(rows.header, inspection, file.throughputs)
    number = -1
    for number, fields in enumerate(rows):
        if rows.is_whole(fields, inspection):
            canonical.add(fields, number, rows.line)
    inspection.rows_read = number + 1
    rows.report_blanks(inspection)
    return canonical.jobs


def _recognises(head: str) -> bool:
    """Two of the three required names: a file that lacks one is told so, by name."""
    return len(header_of(head).intersection(REQUIRED)) >= 2


FORMAT: Final = TraceFormat(
    name="canonical-csv",
    recognises=_recognises,
    parse=parse_canonical_csv,
    is_absolute=False,
)
