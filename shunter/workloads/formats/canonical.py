"""Rows of a canonical trace, whatever they are written in, and the trace as CSV.

In CSV a header stands before one job a row; lists are written as a|b.
"""

from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from shunter.core.speeds.speed_model import JobKind, ThroughputTable
from shunter.errors import TraceError
from shunter.events.values.ids import JobId
from shunter.events.values.job_spec import JobSpec
from shunter.workloads.formats.columns import (
    REQUIRED,
    ROW_COLUMNS,
    SPEC_COLUMNS,
    read_spec,
    spec_fault,
)
from shunter.workloads.formats.delimited import DelimitedRows, can_read, names_some_of
from shunter.workloads.formats.format import TraceFormat, TraceText, read_seconds
from shunter.workloads.quality import Fault, Inspection, number_fault
from shunter.workloads.trace import JobEnd, TraceJob

COLUMNS: Final = (*ROW_COLUMNS, *(column.name for column in SPEC_COLUMNS))
"""Every column of a canonical trace; others are noted, unless they start with x_."""

_CACHED_MAX = 2**16
_NAMED_MOST = 5


class CanonicalRows:
    """Turns rows of texts, in the order of one header, into jobs.

    The inspection is told of those that are none. Equal specifications become one object; rows
    with equal texts, which is most rows of most traces, are not even read again.
    """

    def __init__(
        self,
        header: Sequence[str],
        inspection: Inspection,
        throughputs: ThroughputTable | None = None,
    ) -> None:
        """Take the columns that the rows will have; unknown ones are ignored.

        With throughputs a row may leave its duration to its steps.
        """
        self.jobs: list[TraceJob] = []
        self._inspection = inspection
        self._throughputs = throughputs
        self._names = tuple(c.name for c in SPEC_COLUMNS if c.name in header)
        places = [header.index(name) for name in self._names]
        # itemgetter returns no tuple for one column; every header has gpus, so ask it twice.
        self._pick = itemgetter(*places, places[0])
        self._submit, self._duration = header.index("submit_s"), header.index("duration_s")
        self._job_id = header.index("job_id") if "job_id" in header else None
        self._status = header.index("status") if "status" in header else None
        self._by_texts: dict[tuple[str, ...], JobSpec] = {}
        self._specs: dict[JobSpec, JobSpec] = {}
        self._without_rate: dict[JobKind, str] = {}

    def add(self, texts: Sequence[str], number: int, place: int) -> None:
        """Read one row; `number` is its id where the trace has none."""
        try:
            submit_us = read_seconds(texts[self._submit])
            picked: tuple[str, ...] = self._pick(texts)
            spec = self._by_texts.get(picked) or self._new_spec(picked)
            duration_us = self._duration_us(texts[self._duration], spec, place)
            ends = JobEnd((texts[self._status] if self._status is not None else "") or "finished")
        except ValueError:
            self._inspection.drop(*self._fault(texts), place)
            return
        job_id = str(number) if self._job_id is None else texts[self._job_id]
        if not (duration_us and job_id):
            self._inspection.drop(*self._fault(texts), place)
            return
        self.jobs.append(TraceJob(JobId(job_id), submit_us, spec, duration_us, ends))
        self._inspection.places.append(place)

    def refuse_without_rate(self, path: str) -> None:
        """Raise TraceError if rows say steps alone, and there is no rate.

        They are jobs as good as the others, so a trace without them would be another one.
        """
        if not self._without_rate:
            return
        table = self._throughputs
        assert table is not None, "without a table such rows have no duration"
        named = list(self._without_rate.values())[:_NAMED_MOST]
        if hidden := len(self._without_rate) - len(named):
            named.append(f"{hidden} more")
        raise TraceError(
            f"{path}: duration_s is empty, and {table.name or 'the table'} has no rate above 0 on "
            f"{table.base_type!r} to make one of total_steps, for {', '.join(named)}; write "
            "duration_s there, name a table that has the rate, or leave such rows out"
        )

    def _duration_us(self, text: str, spec: JobSpec, place: int) -> int:
        """Return the duration of a row: as it is written, or its steps by their rate."""
        table = self._throughputs
        if text or table is None or not spec.total_steps:
            return read_seconds(text)
        kind = table.kind_of(spec)
        rate = None if kind is None else table.rate(table.base_type, kind)
        if not rate:
            model = repr(spec.model) if spec.model else "jobs that name no model"
            size = f"{spec.gpus} GPU{'' if spec.gpus == 1 else 's'}"
            where = f"{model} on {size} ({self._inspection.unit} {place})"
            self._without_rate.setdefault(kind or JobKind(spec.model, spec.gpus), where)
        return round(spec.total_steps / rate * 1_000_000) if rate else read_seconds(text)

    def _new_spec(self, picked: tuple[str, ...]) -> JobSpec:
        read = read_spec(self._by_name(picked))
        spec = self._specs.setdefault(read, read)
        if len(self._by_texts) >= _CACHED_MAX:
            self._by_texts.clear()
        self._by_texts[picked] = spec
        return spec

    def _by_name(self, picked: tuple[str, ...]) -> dict[str, str]:
        return dict(zip(self._names, picked, strict=False))

    def _fault(self, texts: Sequence[str]) -> tuple[Fault, str, str]:
        """Return the first thing wrong with a row: fault, column, text."""
        for name, index in (("submit_s", self._submit), ("duration_s", self._duration)):
            text = texts[index]
            if not can_read(read_seconds, text) or (
                name == "duration_s" and not read_seconds(text)
            ):
                return number_fault(text), name, text
        if self._job_id is not None and not texts[self._job_id]:
            return Fault.missing, "job_id", ""
        fault = spec_fault(self._by_name(self._pick(texts)))
        if fault is not None:
            return fault
        assert self._status is not None
        return Fault.unparsable, "status", texts[self._status]


def parse_canonical_csv(file: TraceText, inspection: Inspection) -> list[TraceJob]:
    """Return the usable rows in file order, instants as the file has them.

    Raises:
        TraceError: the file is no such CSV, or the table lacks a rate that a row needs.
    """
    rows = DelimitedRows(file)
    rows.require(REQUIRED)
    rows.note_others(COLUMNS, inspection)
    canonical = CanonicalRows(rows.header, inspection, file.throughputs)
    number = -1
    for number, fields in enumerate(rows):
        if rows.is_whole(fields, inspection):
            canonical.add(fields, number, rows.line)
    canonical.refuse_without_rate(file.path)
    inspection.rows_read = number + 1
    rows.report_blanks(inspection)
    return canonical.jobs


FORMAT: Final = TraceFormat(
    name="canonical-csv",
    recognises=names_some_of(REQUIRED, 2),
    parse=parse_canonical_csv,
)
