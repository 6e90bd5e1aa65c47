"""The canonical trace as JSON lines: one object a job, the same names as in CSV.

Numbers may be written as numbers, lists as lists of texts; an absent key, null and an empty text
are all the default. Whether jobs have ids is settled by the first row.
"""

import json
from collections.abc import Mapping
from typing import Final

from shunter.workloads.formats.canonical import COLUMNS, CanonicalRows
from shunter.workloads.formats.format import TraceFormat, TraceText
from shunter.workloads.quality import Fault, Inspection
from shunter.workloads.trace import TraceJob


def parse_canonical_jsonl(file: TraceText, inspection: Inspection) -> list[TraceJob]:
    """Return the usable rows in file order, instants as the file has them.

    Raises:
        TraceError: the table lacks a rate that a row needs.
    """
    canonical: CanonicalRows | None = None
    has_ids = False
    known: set[tuple[str, ...]] = set()
    blanks: list[int] = []
    number, last_row_line = -1, 0
    # Not splitlines(): that also splits at separators which JSON allows inside a text.
    for line, text in enumerate(file.text.removesuffix("\n").split("\n"), start=1):
        if not text.strip():
            blanks.append(line)
            continue
        number, last_row_line = number + 1, line
        row = _row(text)
        if row is None:
            inspection.drop(Fault.unparsable, "", text, line)
            continue
        row = {file.columns.get(name, name): value for name, value in row.items()}
        names = tuple(row)
        if names not in known:
            inspection.note_others(names, COLUMNS)
            known.add(names)
        if canonical is None:
            has_ids = "job_id" in row
            columns = COLUMNS if has_ids else COLUMNS[1:]
            canonical = CanonicalRows(columns, inspection, file.throughputs)
        if has_ids is not ("job_id" in row):
            fault = Fault.missing if has_ids else Fault.contradiction
            inspection.drop(fault, "job_id", _cell(row.get("job_id")), line)
            continue
        columns = COLUMNS if has_ids else COLUMNS[1:]
        canonical.add([_cell(row.get(name)) for name in columns], number, line)
    if canonical is not None:
        canonical.refuse_without_rate(file.path)
    inspection.rows_read = number + 1
    inspection.see_blanks(blanks, last_row_line)
    return canonical.jobs if canonical else []


def _row(text: str) -> Mapping[str, object] | None:
    """Return the object on a line; None if there is none."""
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _cell(value: object) -> str:
    """Return the text the CSV form would have."""
    if value is None or value == []:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


FORMAT: Final = TraceFormat(
    name="canonical-jsonl",
    recognises=lambda head: head.lstrip().startswith("{"),
    parse=parse_canonical_jsonl,
)
