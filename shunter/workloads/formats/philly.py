"""Microsoft's philly-traces: the job list of the Sia artifact, and the original job log."""

import json
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Final

from shunter.errors import TraceError
from shunter.events import JobId, JobSpec, QueueName, UserName
from shunter.workloads.formats.canonical import read_length, read_positive
from shunter.workloads.formats.format import (
    DelimitedRows,
    TraceFormat,
    TraceText,
    can_read,
    instant_us,
    names_some_of,
    read_count,
    read_seconds,
)
from shunter.workloads.trace import Fault, Inspection, JobEnd, TraceJob, number_fault

# The list `timestamp,duration,num_gpus,gpu_time,cluster`: Microsoft's philly-traces (CC-BY-4.0;
# Jeon et al., USENIX ATC 2019) as filtered for the Sia artifact, 82,247 jobs, not sorted by time.
# The source does not say what `timestamp` is: it is taken as the submission, in UTC.

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


CSV_FORMAT: Final = TraceFormat(
    name="philly-csv",
    recognises=names_some_of(_COLUMNS, 3),
    parse=parse_philly_csv,
    is_absolute=True,
)


# The original log `cluster_job_log` (CC-BY-4.0; Jeon et al., USENIX ATC 2019), in UTC. GPUs are
# those of the last counted attempt with any. Option `attempts`: all (lengths added, without the
# waits), the first, or the last.

Refusal = tuple[Fault, str, str]
Entry = Mapping[str, object]

_ENDS: Final = {"Pass": JobEnd.finished, "Killed": JobEnd.cancelled, "Failed": JobEnd.failed}
_ATTEMPTS: Final = ("all", "first", "last")


def parse_philly_json(file: TraceText, inspection: Inspection) -> list[TraceJob]:
    """Return the usable jobs in file order, instants in microseconds since 1970."""
    entries = _entries(file)
    chosen = file.options["attempts"]
    specs: dict[JobSpec, JobSpec] = {}
    jobs: list[TraceJob] = []
    for place, entry in enumerate(entries, start=1):
        job = _job(entry, chosen) if isinstance(entry, dict) else (Fault.unparsable, "", str(entry))
        if isinstance(job, tuple):
            inspection.drop(*job, place)
            continue
        job.spec = specs.setdefault(job.spec, job.spec)
        jobs.append(job)
        inspection.places.append(place)
    inspection.rows_read = len(entries)
    return jobs


def _entries(file: TraceText) -> Sequence[object]:
    try:
        entries = json.loads(file.text)
    except json.JSONDecodeError as error:
        raise TraceError(
            f"{file.path}, line {error.lineno}, column {error.colno}: not valid JSON "
            f"({error.msg}); expected one list of jobs"
        ) from error
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{file.path}: not usable JSON ({error})") from error
    if not isinstance(entries, list):
        raise TraceError(f"{file.path}, line 1: expected a JSON list of jobs, found an object")
    return entries


def _job(entry: Entry, chosen: str) -> TraceJob | Refusal:
    """Return the job, or what is wrong with it."""
    for key in ("jobid", "vc", "submitted_time", "status"):
        if not _text(entry, key):
            return Fault.missing, key, ""
    ends = _ENDS.get(_text(entry, "status"))
    if ends is None:
        return Fault.unparsable, "status", _text(entry, "status")
    submit_us = _instant(entry, "submitted_time")
    if not isinstance(submit_us, int):
        return submit_us
    attempts = [attempt for attempt in _list(entry, "attempts") if isinstance(attempt, dict)]
    if not attempts:
        return Fault.missing, "attempts", ""
    counted = {"all": attempts, "first": attempts[:1], "last": attempts[-1:]}[chosen]
    duration_us = _duration_us(counted)
    if not isinstance(duration_us, int):
        return duration_us
    gpus = next((count for count in map(_gpus, reversed(counted)) if count), 0)
    if not gpus:
        return Fault.impossible, "gpus", "0"
    queue, user = QueueName(_text(entry, "vc")), UserName(_text(entry, "user"))
    spec = JobSpec(gpus=gpus, queue=queue, user=user)
    return TraceJob(JobId(_text(entry, "jobid")), submit_us, spec, duration_us, ends)


def _duration_us(attempts: Sequence[Entry]) -> int | Refusal:
    total_us = 0
    for attempt in attempts:
        start_us, end_us = _instant(attempt, "start_time"), _instant(attempt, "end_time")
        if not isinstance(start_us, int):
            return start_us
        if not isinstance(end_us, int):
            return end_us
        if end_us < start_us:
            return Fault.negative, "duration", _text(attempt, "end_time")
        total_us += end_us - start_us
    return total_us or (Fault.impossible, "duration", "0")


def _instant(entry: Entry, key: str) -> int | Refusal:
    text = _text(entry, key)
    if not text:
        return Fault.missing, key, ""
    try:
        return instant_us(text)
    except ValueError:
        return Fault.unparsable, key, text


def _gpus(attempt: Entry) -> int:
    """Return how many GPUs an attempt held, over all its servers."""
    return sum(
        len(_list(server, "gpus"))
        for server in _list(attempt, "detail")
        if isinstance(server, dict)
    )


def _text(entry: Entry, key: str) -> str:
    """Return a text; empty if absent, null, or the word None that the log also uses."""
    value = entry.get(key)
    return value.strip() if isinstance(value, str) and value != "None" else ""


def _list(entry: Entry, key: str) -> Sequence[object]:
    value = entry.get(key)
    return value if isinstance(value, list) else []


JSON_FORMAT: Final = TraceFormat(
    name="philly-json",
    recognises=lambda head: head.lstrip().startswith("["),
    parse=parse_philly_json,
    is_absolute=True,
    unit="entry",
    options={"attempts": _ATTEMPTS},
)
