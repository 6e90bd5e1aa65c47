"""The Philly job list: `timestamp,duration,num_gpus,gpu_time,cluster`.

Microsoft's philly-traces (CC-BY-4.0; Jeon et al., USENIX ATC 2019) as filtered for the Sia
artifact: 82,247 jobs of 15 virtual clusters, not in order of time. `timestamp` is taken as the
submission in UTC (the source does not say whether it is the submission or the start), `cluster` is
the virtual cluster and becomes the queue. The list names no users, ends, CPUs or memory. A job's
id is the number of its row in the file, from 0.
"""

from operator import itemgetter
from typing import Final

from shunter.events.values import JobId, JobSpec, QueueName
from shunter.workloads.formats.cells import read_length, read_positive
from shunter.workloads.formats.delimited import DelimitedRows, can_read, names_some_of
from shunter.workloads.formats.format import (
    TraceFormat,
    TraceText,
    instant_us,
    read_count,
    read_seconds,
)
from shunter.workloads.quality import Fault, Inspection, number_fault
from shunter.workloads.trace import TraceJob

_COLUMNS: Final = ("timestamp", "duration", "num_gpus", "gpu_time", "cluster")
_GPU_TIME_ERROR_US = 1_000


def parse_philly_csv(file: TraceText, inspection: Inspection) -> list[TraceJob]:
    """Return the usable rows in file order, instants in microseconds since 1970."""
    rows = DelimitedRows(file)
    rows.require(_COLUMNS)
    rows.note_others(_COLUMNS, inspection)
    pick = itemgetter(*(rows.header.index(name) for name in _COLUMNS))
    specs: dict[tuple[int, str], JobSpec] = {}
    jobs: list[TraceJob] = []
    number = -1
    for number, fields in enumerate(rows):
        if not rows.is_whole(fields, inspection):
            continue
        stamp, duration, num_gpus, gpu_time, cluster = cells = pick(fields)
        try:
            submit_us = instant_us(stamp)
            duration_us = read_seconds(duration)
            gpus = read_count(num_gpus)
            gpu_us = float(gpu_time) * 1e6
        except ValueError:
            inspection.drop(*_fault(cells), rows.line)
            continue
        # Written so that a NaN, which compares as false, does not pass.
        if not (duration_us and gpus and cluster and gpu_us >= 0):
            inspection.drop(*_fault(cells), rows.line)
            continue
        spec = specs.get((gpus, cluster))
        if spec is None:
            spec = specs[gpus, cluster] = JobSpec(gpus=gpus, queue=QueueName(cluster.strip()))
        if abs(gpu_us - duration_us * gpus) > _GPU_TIME_ERROR_US:
            inspection.note(Fault.contradiction, "gpu_time", gpu_time, rows.line)
        jobs.append(TraceJob(JobId(str(number)), submit_us, spec, duration_us))
    inspection.rows_read = number + 1
    rows.report_blanks(inspection)
    return jobs


def _fault(cells: tuple[str, ...]) -> tuple[Fault, str, str]:
    """Return the first thing wrong with a row: fault, column, text."""
    stamp, duration, num_gpus, gpu_time, cluster = cells
    if not can_read(instant_us, stamp):
        return Fault.unparsable if stamp.strip() else Fault.missing, "timestamp", stamp
    if not cluster.strip():
        return Fault.missing, "cluster", cluster
    for column, text, read in (
        ("duration", duration, read_length),
        ("num_gpus", num_gpus, read_positive),
    ):
        if not can_read(read, text):
            return number_fault(text), column, text
    return number_fault(gpu_time), "gpu_time", gpu_time


FORMAT: Final = TraceFormat(
    name="philly-csv",
    recognises=names_some_of(_COLUMNS, 3),
    parse=parse_philly_csv,
    is_absolute=True,
)
