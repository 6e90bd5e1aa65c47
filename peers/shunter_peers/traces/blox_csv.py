"""The job list of the Blox simulator: `job_id,arrival_s,iterations,iteration_time_s,gpus`.

A job runs for iterations x iteration time: the product of the two decimals as they are written,
to the microsecond. The public lists give iterations with fractions and one second for each, which
is a duration in disguise; only whole iterations are kept as the job's total steps.
"""

from decimal import Decimal, InvalidOperation
from functools import partial
from operator import itemgetter
from typing import Final

from shunter.events import JobId, JobSpec
from shunter.workloads import Fault, Inspection, TraceJob
from shunter.workloads.formats import (
    COUNT_MAX,
    SECONDS_MAX,
    DelimitedRows,
    TraceFormat,
    TraceText,
    first_fault,
    names_some_of,
    read_positive,
    read_seconds,
)

_COLUMNS: Final = ("job_id", "arrival_s", "iterations", "iteration_time_s", "gpus")


def parse_blox_csv(file: TraceText, inspection: Inspection) -> list[TraceJob]:
    """Return the usable rows in file order, instants as the file has them."""
    rows = DelimitedRows(file)
    rows.require(_COLUMNS)
    rows.note_others(_COLUMNS, inspection)
    pick = itemgetter(*(rows.header.index(name) for name in _COLUMNS))
    specs: dict[tuple[int, int | None], JobSpec] = {}
    jobs: list[TraceJob] = []
    for fields in rows:
        inspection.rows_read += 1
        if not rows.is_whole(fields, inspection):
            continue
        job_id, arrival, iterations, iteration_time, gpus_text = cells = pick(fields)
        try:
            submit_us = read_seconds(arrival)
            count = _read_iterations(iterations)
            duration_us = _length_us(count, _read_iteration_time(iteration_time))
            gpus = read_positive(gpus_text)
        except ValueError:
            inspection.drop(*_fault(cells), rows.line)
            continue
        if not job_id.strip():
            inspection.drop(Fault.missing, "job_id", job_id, rows.line)
            continue
        steps = int(count) if count == count.to_integral_value() else None
        spec = specs.get((gpus, steps))
        if spec is None:
            spec = specs[gpus, steps] = JobSpec(gpus=gpus, total_steps=steps)
        jobs.append(TraceJob(JobId(job_id.strip()), submit_us, spec, duration_us))
        inspection.places.append(rows.line)
    rows.report_blanks(inspection)
    return jobs


def _above_zero(text: str, greatest: int) -> Decimal:
    """Return a decimal above 0; ValueError for NaN, and for what is no number."""
    try:
        value = Decimal(text.strip())
    except InvalidOperation as error:
        raise ValueError(text) from error
    # A NaN refuses to be compared, so it is sorted out first.
    if not (value.is_finite() and 0 < value <= greatest):
        raise ValueError(text)
    return value


_read_iterations = partial(_above_zero, greatest=COUNT_MAX)
_read_iteration_time = partial(_above_zero, greatest=SECONDS_MAX)


def _length_us(iterations: Decimal, iteration_time_s: Decimal) -> int:
    """Return the duration; ValueError if it rounds to nothing or is absurd."""
    seconds = iterations * iteration_time_s
    length_us = round(seconds * 1_000_000)
    if not length_us or seconds > SECONDS_MAX:
        raise ValueError(str(seconds))
    return length_us


def _fault(cells: tuple[str, ...]) -> tuple[Fault, str, str]:
    """Return the first thing wrong with a row; the product, if nothing else is."""
    _, arrival, iterations, iteration_time, gpus = cells

    def read_length(text: str) -> int:
        return _length_us(_read_iterations(text), _read_iteration_time(iteration_time))

    return first_fault(
        ("arrival_s", arrival, read_seconds),
        ("iterations", iterations, _read_iterations),
        ("iteration_time_s", iteration_time, _read_iteration_time),
        ("gpus", gpus, read_positive),
        ("iterations", iterations, read_length),
    )


FORMAT: Final = TraceFormat(
    name="blox-csv",
    recognises=names_some_of(_COLUMNS, 3),
    parse=parse_blox_csv,
)
