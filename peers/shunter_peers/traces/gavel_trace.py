"""The traces of the Gavel simulator: tab-separated, no header, one job a line.

Seven columns (the Philly traces) or ten (Narayanan et al., OSDI 2020; commit c4fa400). A row gives
steps, not a duration: that is steps / throughput of the kind of job on the base type, so the format
needs a table of throughputs. A deadline is the arrival plus SLO × duration, as the simulator
defines it; -1 is none. The command, its folder and its arguments are neither run nor kept. Option
`unknown` says what becomes of kinds the table lacks: an error, or rows that are dropped.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from shunter.core.speeds import JobKind, ThroughputTable
from shunter.errors import TraceError
from shunter.events import JobId, JobSpec
from shunter.workloads import Fault, Inspection, TraceJob
from shunter.workloads.formats import (
    SECONDS_MAX,
    TraceFormat,
    TraceText,
    first_fault,
    read_above_zero,
    read_positive,
    read_seconds,
)

LAYOUTS: Final = (
    (
        *("job_type", "command", "num_steps_arg", "needs_data_dir"),
        *("total_steps", "arrival_time", "scale_factor"),
    ),
    (
        *("job_type", "command", "working_directory", "num_steps_arg", "needs_data_dir"),
        *("total_steps", "scale_factor", "priority_weight", "SLO", "arrival_time"),
    ),
)
"""The columns of the two layouts; which one a file has is told by its first row."""

_BATCH_SIZE: Final = re.compile(r"\(batch size ([1-9][0-9]{0,8})\)$")
_UNKNOWN: Final = ("error", "drop")
_UNKNOWN_MOST: Final = 5
_NO_SLO: Final = -1.0
SLO_MOST: Final = 1e6
"""A deadline a million times a job's run time is none that anybody means."""


@dataclass(frozen=True)
class _Row:
    """The cells of one row that mean something, still as texts."""

    job_type: str
    total_steps: str
    scale_factor: str
    arrival_time: str
    priority_weight: str = "1"
    SLO: str = "-1"


def parse_gavel_trace(file: TraceText, inspection: Inspection) -> list[TraceJob]:
    """Return the usable rows in file order; ids are the rows' numbers from 0.

    Raises:
        TraceError: the file has neither 7 nor 10 columns, or the table lacks a kind of job.
    """
    assert file.throughputs is not None, "load_trace refuses the format without a table"
    kinds = _Kinds(file.throughputs)
    jobs: list[TraceJob] = []
    for number, (line, row) in enumerate(_rows(file, inspection)):
        inspection.rows_read += 1
        if row is None:
            continue
        try:
            job = _job(row, number, line, kinds)
        except ValueError:
            inspection.drop(*_fault(row), line)
            continue
        if job is None:
            found = f"{row.job_type}, {row.scale_factor} GPUs"
            inspection.drop(Fault.unknown, "job_type", found, line)
            continue
        jobs.append(job)
        inspection.places.append(line)
    if file.options["unknown"] == "error":
        kinds.refuse_unknown(file.path)
    return jobs


class _Kinds:
    """Looks kinds of jobs up in the table, and notes those it lacks."""

    def __init__(self, table: ThroughputTable) -> None:
        self._table = table
        self._specs: dict[JobSpec, JobSpec] = {}
        self._unknown: dict[JobKind, int] = {}

    def duration_us(self, kind: JobKind, steps: int, line: int) -> int | None:
        """Return how long so many steps take; None where the table does not say."""
        rate = self._table.rate(self._table.base_type, kind)
        if not rate:
            self._unknown.setdefault(kind, line)
            return None
        seconds = steps / rate
        length_us = round(seconds * 1_000_000) if seconds <= SECONDS_MAX else 0
        if not length_us:
            raise ValueError(steps)
        return length_us

    def shared(self, spec: JobSpec) -> JobSpec:
        """Return the one object for equal specifications."""
        return self._specs.setdefault(spec, spec)

    def refuse_unknown(self, path: str) -> None:
        """Raise TraceError if there was a kind without a rate to count a duration by."""
        if not self._unknown:
            return
        words = [
            f"{kind.model!r} on {kind.gpus} GPU{'s' if kind.gpus > 1 else ''} (line {line})"
            for kind, line in list(self._unknown.items())[:_UNKNOWN_MOST]
        ]
        if hidden := len(self._unknown) - len(words):
            words.append(f"{hidden} more")
        raise TraceError(
            f"{path}: {self._table.name or 'the table'} has no throughput above 0 on "
            f"{self._table.base_type!r} for {', '.join(words)}; name a table that has it as "
            "workload.throughputs, or another workload.base_type, or leave such rows out with "
            "workload.options.unknown = 'drop' (--option unknown=drop)"
        )


def _rows(file: TraceText, inspection: Inspection) -> Iterator[tuple[int, _Row | None]]:
    """Yield each row that is not blank with its line; None for one of another length."""
    blanks: list[int] = []
    last = 0
    names: tuple[str, ...] | None = None
    for line, text in enumerate(file.text.split("\n"), start=1):
        if not text.strip():
            blanks.append(line)
            continue
        cells = text.removesuffix("\r").split("\t")
        names = names or _layout(len(cells), file.path, line)
        last = line
        if len(cells) == len(names):
            known = zip(names, cells, strict=True)
            yield line, _Row(**{name: cell.strip() for name, cell in known if name in _MEANT})
            continue
        is_short = len(cells) < len(names)
        column = names[len(cells)] if is_short else ""
        inspection.drop(Fault.missing if is_short else Fault.surplus, column, "", line)
        yield line, None
    # Behind the last line break stands no line.
    ends = file.text.count("\n")
    inspection.see_blanks([line for line in blanks if line <= ends], last)


_MEANT: Final = frozenset(_Row.__dataclass_fields__)


def _layout(columns: int, path: str, line: int) -> tuple[str, ...]:
    for names in LAYOUTS:
        if len(names) == columns:
            return names
    expected = "; or ".join(f"{len(names)}: {', '.join(names)}" for names in LAYOUTS)
    raise TraceError(f"{path}, line {line}: {columns} tab-separated columns; expected {expected}")


def _job(row: _Row, number: int, line: int, kinds: _Kinds) -> TraceJob | None:
    """Return the job of a row, None where the table does not know it.

    Raises:
        ValueError: a cell is wrong; `_fault` says which.
    """
    if not row.job_type:
        raise ValueError(row.job_type)
    steps, gpus = read_positive(row.total_steps), read_positive(row.scale_factor)
    submit_us = read_seconds(row.arrival_time)
    weight, slo = read_above_zero(row.priority_weight), _read_slo(row.SLO)
    duration_us = kinds.duration_us(JobKind(row.job_type, gpus), steps, line)
    if duration_us is None:
        return None
    batch_size = _BATCH_SIZE.search(row.job_type)
    spec = JobSpec(
        gpus=gpus,
        model=row.job_type,
        batch_size=int(batch_size[1]) if batch_size else None,
        total_steps=steps,
        weight=weight,
        deadline_us=None if slo is None else submit_us + round(slo * duration_us),
    )
    return TraceJob(JobId(str(number)), submit_us, kinds.shared(spec), duration_us)


def _read_slo(text: str) -> float | None:
    """Return the factor of a deadline, None for no deadline."""
    slo = float(text)
    if slo == _NO_SLO:
        return None
    if not 0 < slo <= SLO_MOST:
        raise ValueError(text)
    return slo


def _fault(row: _Row) -> tuple[Fault, str, str]:
    """Return the first thing wrong with a row; its length, if nothing else is."""
    if not row.job_type:
        return Fault.missing, "job_type", ""

    def refuse(text: str) -> None:
        raise ValueError(text)

    return first_fault(
        ("total_steps", row.total_steps, read_positive),
        ("scale_factor", row.scale_factor, read_positive),
        ("arrival_time", row.arrival_time, read_seconds),
        ("priority_weight", row.priority_weight, read_above_zero),
        ("SLO", row.SLO, _read_slo),
        ("total_steps", row.total_steps, refuse),
    )


def _recognises(head: str) -> bool:
    """Six columns: a file with one too few or too many is told so."""
    return head.lstrip("\r\n ").partition("\n")[0].count("\t") >= 5


FORMAT: Final = TraceFormat(
    name="gavel-trace",
    recognises=_recognises,
    parse=parse_gavel_trace,
    options={"unknown": _UNKNOWN},
    needs_throughputs=True,
)
