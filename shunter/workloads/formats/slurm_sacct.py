"""A site's own history: what `sacct --parsable2` prints, by the names in its header.

Rows of steps (1.batch, 1.0) are parts of a job, and are left out, as are jobs without GPUs and
those that never ran or still run. A job that was requeued stands there once for each submission, if
sacct was asked for --duplicates: it is submitted when it first was, and runs as long as its last
run. An id that was used again for another job becomes 7#2.

Durations are ElapsedRaw where there is such a column, so that no change of clocks touches them.
Instants are seconds since 1970 (SLURM_TIME_FORMAT=%s), or local time, which is read as UTC. GPU
types are those that were asked for (ReqTRES), not those that were given.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from shunter.errors import TraceError
from shunter.events.values.ids import GpuType, JobId, QueueName, UserName
from shunter.events.values.job_spec import JobSpec
from shunter.workloads.formats.format import TraceFormat, TraceText
from shunter.workloads.formats.instants import instant_us
from shunter.workloads.quality import Fault, Inspection
from shunter.workloads.trace import JobEnd, TraceJob

__all__ = ["COMMAND", "FORMAT"]

COMMAND: Final = (
    "SLURM_TIME_FORMAT=%s sacct --allusers --allocations --duplicates --parsable2 "
    "--starttime=YYYY-MM-DD --format=JobIDRaw,JobID,User,Account,Partition,Submit,Start,End,"
    "ElapsedRaw,TimelimitRaw,State,ReqTRES,AllocTRES,JobName"
)
"""What prints such a file. The name comes last, since it may hold the sign between columns."""

_SIGN: Final = "|"
_SECOND: Final = 1_000_000
_ID: Final = ("jobidraw", "jobid")
_TRES: Final = ("alloctres", "reqtres")
_NEEDED: Final = ("submit", "start", "end", "state")
_NOTHING: Final = frozenset({"", "Unknown", "None", "N/A"})
_ENDS: Final = {
    "COMPLETED": JobEnd.finished,
    "CANCELLED": JobEnd.cancelled,
    "PREEMPTED": JobEnd.cancelled,
    "BOOT_FAIL": JobEnd.failed,
    "DEADLINE": JobEnd.failed,
    "FAILED": JobEnd.failed,
    "NODE_FAIL": JobEnd.failed,
    "OUT_OF_MEMORY": JobEnd.failed,
    "REQUEUED": JobEnd.cancelled,
    "REVOKED": JobEnd.cancelled,
    "TIMEOUT": JobEnd.failed,
}
_GONE_ON: Final = frozenset({"REQUEUED", "NODE_FAIL", "PREEMPTED"})
"""States after which Slurm may have submitted the same job again."""

_COUNT = re.compile(r"(?:^|,)(?P<what>cpu|mem|gres/gpu(?::(?P<type>[^=,]+))?)=(?P<amount>[^,]*)")
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)[nc]?")
_MEGABYTES: Final = {"": 1.0, "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}
_MINUTES = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")


@dataclass(slots=True)
class _Row:
    """A run of a job, and the line it stands on."""

    number: str
    state: str
    line: int
    job: TraceJob


class _Refused(Exception):  # noqa: N818 no error: a row that is left out, and why
    """A row is left out: fault, column and text."""


def parse_slurm_sacct(file: TraceText, inspection: Inspection) -> list[TraceJob]:
    """Return the usable jobs in file order, instants in microseconds since 1970."""
    lines = file.text.splitlines()
    header = _header(lines[0], file.path)
    queue_column = file.options["queue"]
    specs: dict[JobSpec, JobSpec] = {}
    rows: list[_Row] = []
    for line, text in enumerate(lines[1:], start=2):
        if not text.strip():
            continue
        inspection.rows_read += 1
        try:
            told = _told(header, text)
            row = _row(told, line, queue_column)
        except _Refused as refused:
            fault, column, found = refused.args
            inspection.drop(fault, column, found, line)
            continue
        _note_oddities(told, row.job, inspection, line)
        row.job.spec = specs.setdefault(row.job.spec, row.job.spec)
        rows.append(row)
    inspection.see_blanks(
        [line for line, text in enumerate(lines, start=1) if not text.strip()],
        max((line for line, text in enumerate(lines, start=1) if text.strip()), default=0),
    )
    return _joined(rows, inspection)


def _header(line: str, path: str) -> list[str]:
    header = [name.strip().lower() for name in line.split(_SIGN)]
    if header[-1] == "":  # --parsable ends each line with a sign, --parsable2 does not
        header.pop()
    missing = [name for name in _NEEDED if name not in header]
    missing += [] if any(name in header for name in _ID) else ["JobIDRaw"]
    missing += [] if any(name in header for name in _TRES) else ["AllocTRES"]
    if missing:
        raise TraceError(
            f"{path}, line 1: missing columns {', '.join(missing)}; print it with: {COMMAND}"
        )
    return header


def _told(header: Sequence[str], text: str) -> Mapping[str, str]:
    """Return a row by column; a sign in a name that stands last is part of the name."""
    cells = text.split(_SIGN)
    if len(cells) == len(header) + 1 and cells[-1] == "":
        cells.pop()
    if len(cells) > len(header) and header[-1] == "jobname":
        cells[len(header) - 1 :] = [_SIGN.join(cells[len(header) - 1 :])]
    if len(cells) > len(header):
        raise _Refused(Fault.surplus, "", "")
    if len(cells) < len(header):
        raise _Refused(Fault.missing, header[len(cells)], text)
    return dict(zip(header, cells, strict=True))


def _row(told: Mapping[str, str], line: int, queue_column: str) -> _Row:
    number = next(told[name] for name in _ID if name in told)
    if not number:
        raise _Refused(Fault.missing, "JobID", "")
    if "." in number or "." in told.get("jobid", ""):
        raise _Refused(Fault.step, "", number)
    granted, asked = _counts(told.get("alloctres", "")), _counts(told.get("reqtres", ""))
    gpus = _gpus(granted or asked)
    if not gpus:
        raise _Refused(Fault.no_gpus, "", told.get("alloctres") or told.get("reqtres", ""))
    state = told["state"].partition(" ")[0]
    if told["start"] in _NOTHING or state == "PENDING":
        raise _Refused(Fault.never_ran, "", told["state"])
    ends = _ENDS.get(state)
    if told["end"] in _NOTHING or state in {"RUNNING", "SUSPENDED", "COMPLETING"}:
        raise _Refused(Fault.still_runs, "", told["state"])
    if ends is None:
        raise _Refused(Fault.unparsable, "State", told["state"])
    submit_us, duration_us = _instant(told, "submit"), _duration_us(told)
    counts = granted or asked
    spec = JobSpec(
        gpus=gpus,
        user=UserName(told.get("user", "")),
        queue=QueueName(told.get(queue_column, "") or "default"),
        cpus_milli=_amount(counts.get("cpu", ""), {"": 1000.0}),
        memory_mb=_amount(counts.get("mem", ""), _MEGABYTES),
        time_limit_us=_time_limit_us(told),
        gpu_types=tuple(sorted(GpuType(name) for name in _types(asked))),
        name=told.get("jobname", ""),
        group=told.get("jobid", "").partition("_")[0] if "_" in told.get("jobid", "") else "",
    )
    return _Row(number, state, line, TraceJob(JobId(number), submit_us, spec, duration_us, ends))


def _joined(rows: Sequence[_Row], inspection: Inspection) -> list[TraceJob]:
    """Make the runs of a requeued job one job, and rename an id that is used again."""
    jobs: list[TraceJob] = []
    used: dict[str, int] = {}
    for runs in _chains(rows):
        first, last = runs[0], runs[-1]
        for run in runs[:-1]:
            # What was lost at a requeue is no work of the job: it began again.
            inspection.drop(Fault.requeued, "", run.number, run.line)
        if not last.job.duration_us:
            inspection.drop(Fault.impossible, "the duration", "0", last.line)
            continue
        used[last.number] = used.get(last.number, 0) + 1
        if used[last.number] > 1:
            last.job.job_id = JobId(f"{last.number}#{used[last.number]}")
            inspection.note(Fault.used_again, "JobID", last.number, last.line)
        last.job.submit_us = first.job.submit_us
        jobs.append(last.job)
        inspection.places.append(last.line)
    return jobs


def _chains(rows: Sequence[_Row]) -> Sequence[Sequence[_Row]]:
    """Return the runs of each job, in the order of their submission."""
    chains: list[list[_Row]] = []
    newest: dict[str, list[_Row]] = {}
    for row in sorted(rows, key=lambda row: (row.job.submit_us, row.line)):
        chain = newest.get(row.number)
        if chain is not None and _is_same(chain[-1], row):
            chain.append(row)
        else:
            newest[row.number] = [row]
            chains.append(newest[row.number])
    return chains


def _is_same(before: _Row, row: _Row) -> bool:
    one, other = before.job.spec, row.job.spec
    return before.state in _GONE_ON and (one.name, one.user) == (other.name, other.user)


def _note_oddities(
    told: Mapping[str, str], job: TraceJob, inspection: Inspection, line: int
) -> None:
    if not told["submit"].isdigit():
        inspection.note(Fault.zoneless, "Submit", told["submit"], line)
    between_us = _instant(told, "end") - _instant(told, "start")
    if abs(between_us - job.duration_us) > _SECOND:
        inspection.note(Fault.contradiction, "ElapsedRaw", told["elapsedraw"], line)


def _instant(told: Mapping[str, str], column: str) -> int:
    text = told[column]
    try:
        return int(text) * _SECOND if text.isdigit() else instant_us(text)
    except ValueError:
        raise _Refused(Fault.unparsable, column.capitalize(), text) from None


def _duration_us(told: Mapping[str, str]) -> int:
    text = told.get("elapsedraw")
    if text is None:
        length_us = _instant(told, "end") - _instant(told, "start")
    elif text.isdigit():
        length_us = int(text) * _SECOND
    else:
        raise _Refused(Fault.unparsable, "ElapsedRaw", text)
    if length_us < 0:
        raise _Refused(Fault.negative, "the duration", str(length_us // _SECOND))
    return length_us


def _time_limit_us(told: Mapping[str, str]) -> int | None:
    """Return the limit: minutes (TimelimitRaw), or D-HH:MM:SS (Timelimit)."""
    raw = told.get("timelimitraw", "")
    if raw.isdigit():
        return int(raw) * 60 * _SECOND or None
    found = _MINUTES.fullmatch(told.get("timelimit", ""))
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * _SECOND or None


def _counts(text: str) -> dict[str, str]:
    return {found["what"]: found["amount"] for found in _COUNT.finditer(text)}


def _types(counts: Mapping[str, str]) -> Iterator[str]:
    return (what.partition(":")[2] for what in counts if what.startswith("gres/gpu:"))


def _gpus(counts: Mapping[str, str]) -> int:
    """Return how many GPUs TRES name: the count without a type is the total."""
    if total := _amount(counts.get("gres/gpu", ""), {"": 1.0}):
        return total
    return sum(_amount(counts[f"gres/gpu:{name}"], {"": 1.0}) for name in _types(counts))


def _amount(text: str, units: Mapping[str, float]) -> int:
    found = _AMOUNT.fullmatch(text)
    return round(float(found[1]) * units.get(found[2], 0.0)) if found else 0


def _recognises(head: str) -> bool:
    names = {name.strip().lower() for name in head.partition("\n")[0].split(_SIGN)}
    return any(name in names for name in _ID) and len(names & {*_NEEDED, *_TRES}) >= 2


FORMAT: Final = TraceFormat(
    name="slurm-sacct",
    recognises=_recognises,
    parse=parse_slurm_sacct,
    is_absolute=True,
    options={"queue": ("partition", "account")},
)
