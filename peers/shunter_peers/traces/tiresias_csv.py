"""The job list of the Tiresias simulator: seconds, one job a row.

`job_id,num_gpu,submit_time,iterations,model_name,duration,interval` (Gu et al., NSDI 2019; the
format of its public simulator). A duration is whole seconds: the simulator cuts fractions off, and
so does this reader, which notes it. `iterations` become the job's total steps; neither they nor
`interval`, the gap to the next submission, change how long a job runs, so a list without them, or
without models, is read too.
"""

from operator import itemgetter
from typing import Final

from shunter.events import JobId, JobSpec
from shunter.workloads import Fault, Inspection, TraceJob, number_fault
from shunter.workloads.formats import (
    SECONDS_MAX,
    DelimitedRows,
    TraceFormat,
    TraceText,
    first_fault,
    names_some_of,
    read_positive,
    read_seconds,
)

_NEEDED: Final = ("job_id", "num_gpu", "submit_time", "duration")
_COLUMNS: Final = (*_NEEDED, "iterations", "model_name", "interval")


def parse_tiresias_csv(file: TraceText, inspection: Inspection) -> list[TraceJob]:
    """Return the usable rows in file order, instants as the file has them."""
    rows = DelimitedRows(file)
    rows.require(_NEEDED)
    rows.note_others(_COLUMNS, inspection)
    pick = itemgetter(*(rows.header.index(name) for name in _NEEDED))
    specs = _Specs(rows.header, inspection)
    jobs: list[TraceJob] = []
    for fields in rows:
        inspection.rows_read += 1
        if not rows.is_whole(fields, inspection):
            continue
        job_id, num_gpu, submit_time, duration = cells = pick(fields)
        try:
            gpus = read_positive(num_gpu)
            submit_us = read_seconds(submit_time)
            duration_s, is_cut = _whole_seconds(duration)
        except ValueError:
            inspection.drop(*_fault(cells), rows.line)
            continue
        if not job_id.strip():
            inspection.drop(Fault.missing, "job_id", job_id, rows.line)
            continue
        if is_cut:
            inspection.note(Fault.fraction, "duration", duration, rows.line)
        spec = specs.of(gpus, fields, rows.line)
        jobs.append(TraceJob(JobId(job_id.strip()), submit_us, spec, duration_s * 1_000_000))
        inspection.places.append(rows.line)
    rows.report_blanks(inspection)
    return jobs


class _Specs:
    """Makes the specifications of rows; equal ones are one object."""

    def __init__(self, header: list[str], inspection: Inspection) -> None:
        self._inspection = inspection
        self._model = header.index("model_name") if "model_name" in header else None
        self._iterations = header.index("iterations") if "iterations" in header else None
        self._found: dict[tuple[int, str, int | None], JobSpec] = {}

    def of(self, gpus: int, fields: list[str], line: int) -> JobSpec:
        model = "" if self._model is None else fields[self._model].strip()
        key = (gpus, model, self._steps(fields, line))
        spec = self._found.get(key)
        if spec is None:
            spec = self._found[key] = JobSpec(gpus=gpus, model=model, total_steps=key[2])
        return spec

    def _steps(self, fields: list[str], line: int) -> int | None:
        """Return the iterations; those that are none cost the row nothing but a note."""
        text = "" if self._iterations is None else fields[self._iterations].strip()
        try:
            return read_positive(text) if text else None
        except ValueError:
            self._inspection.note(number_fault(text), "iterations", text, line)
            return None


def _whole_seconds(text: str) -> tuple[int, bool]:
    """Return a duration without its fraction, and whether it had one.

    Raises:
        ValueError: it is not a number, or less than one second is left.
    """
    seconds = float(text)
    if not 1 <= seconds <= SECONDS_MAX:
        raise ValueError(text)
    return int(seconds), not seconds.is_integer()


def _fault(cells: tuple[str, ...]) -> tuple[Fault, str, str]:
    _, num_gpu, submit_time, duration = cells
    return first_fault(
        ("num_gpu", num_gpu, read_positive),
        ("submit_time", submit_time, read_seconds),
        ("duration", duration, _whole_seconds),
    )


FORMAT: Final = TraceFormat(
    name="tiresias-csv",
    recognises=names_some_of(_COLUMNS, 4),  # logs of other clusters share three
    parse=parse_tiresias_csv,
)
