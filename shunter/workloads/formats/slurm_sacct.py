"""A site's own history: what `sacct --parsable2` prints, by the names in its header.

Rows of steps (1.batch, 1.0) are parts of a job, and are left out, as are jobs without GPUs and
those that never ran or still run. A job that was requeued has a row for each submission, if sacct
was asked for --duplicates: it is submitted when it first was, runs as long as the last run that
began, and ends as its last row says. A job that was resized has a row for each size: they are one
run, with the GPUs of the first. The components of a heterogeneous job (5+0, 5+1) are one job with
the GPUs of all. An id that was used again for another job becomes 7#2. Of rows of the same run
one counts. A line ends at a line feed only: a name may hold what Unicode calls an end of a line.

Durations are ElapsedRaw where there is such a column, so that no change of clocks touches them.
Instants are seconds since 1970 (SLURM_TIME_FORMAT=%s), or local time, which is read as UTC. GPU
types are those that were asked for (ReqTRES), not those that were given.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from shunter.errors import TraceError
from shunter.events import GpuType, JobId, JobSpec, QueueName, UserName
from shunter.workloads.formats.format import TraceFormat, TraceText, instant_us
from shunter.workloads.trace import Fault, Inspection, JobEnd, TraceJob

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
    "LAUNCH_FAILED": JobEnd.failed,
    "NODE_FAIL": JobEnd.failed,
    "OUT_OF_MEMORY": JobEnd.failed,
    "RECONFIG_FAIL": JobEnd.failed,
    "REQUEUED": JobEnd.cancelled,
    "REQUEUE_FED": JobEnd.cancelled,
    "REQUEUE_HOLD": JobEnd.cancelled,
    "REVOKED": JobEnd.cancelled,
    "SPECIAL_EXIT": JobEnd.failed,
    "TIMEOUT": JobEnd.failed,
}
_RESIZING: Final = "RESIZING"
"""The last state of a row after which the job ran on with more nodes, or with fewer."""
_NOT_ENDED: Final = frozenset(
    {"RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "PENDING", "RESV_DEL_HOLD"}
    | {"SIGNALING", "STAGE_OUT", "STOPPED", _RESIZING}
)
_GONE_ON: Final = frozenset(
    {"BOOT_FAIL", "LAUNCH_FAILED", "NODE_FAIL", "PREEMPTED", "RECONFIG_FAIL", "REQUEUED"}
    | {"REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", _RESIZING}
)
"""States after which Slurm may have submitted the same job again, at once or later."""
_AT_ONCE_US: Final = 2 * _SECOND
"""What is submitted so soon after the end of a row, by the same id, is the same job."""

_COUNT = re.compile(r"(?:^|,)(?P<what>cpu|mem|gres/gpu(?::(?P<type>[^=,]+))?)=(?P<amount>[^,]*)")
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)[nc]?")
_MEGABYTES: Final = {"": 1.0, "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}
_NUMBERED = re.compile(r"(?:^|,)[1-9]\d{3,}=")
"""Up to 1000 Slurm has TRES of its own, such as 1 for CPUs; what a site names has more."""
_COMPONENT = re.compile(r"(\d+)\+\d+")
_MINUTES = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")


@dataclass(slots=True)
class _Row:
    """A row of a job, or of a component of one; why it is no run, if it is none."""

    number: str
    state: str
    line: int
    job: TraceJob
    start_us: int
    end_us: int
    fault: Fault | None
    component: str


class _Refused(Exception):  # noqa: N818 no error: a row that is left out, and why
    """A row is left out: fault, column and text."""


def parse_slurm_sacct(file: TraceText, inspection: Inspection) -> list[TraceJob]:
    """Return the usable jobs in file order, instants in microseconds since 1970."""
    lines = [line.removesuffix("\r") for line in file.text.removesuffix("\n").split("\n")]
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
        if row.fault is None:
            _note_oddities(told, row.job, inspection, line)
        row.job.spec = specs.setdefault(row.job.spec, row.job.spec)
        rows.append(row)
    inspection.see_blanks(
        [line for line, text in enumerate(lines, start=1) if not text.strip()],
        max((line for line, text in enumerate(lines, start=1) if text.strip()), default=0),
    )
    return _joined(_single(rows, inspection), inspection)


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
        shown = told.get("alloctres") or told.get("reqtres", "")
        raise _Refused(Fault.numbered if _NUMBERED.search(shown) else Fault.no_gpus, "", shown)
    state = told["state"].partition(" ")[0]
    fault: Fault | None = None
    if told["start"] in _NOTHING or state == "PENDING":
        fault = Fault.never_ran
    elif told["end"] in _NOTHING or state in _NOT_ENDED - {_RESIZING}:
        fault = Fault.still_runs
    elif state not in _ENDS and state != _RESIZING:
        raise _Refused(Fault.unparsable, "State", told["state"])
    submit_us = _instant(told, "submit")
    start_us = submit_us if fault is Fault.never_ran else _instant(told, "start")
    end_us = submit_us if fault else _instant(told, "end")
    duration_us = 0 if fault else _duration_us(told)
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
    component = _COMPONENT.fullmatch(told.get("jobid", ""))
    number = number if component is None else component[1]
    ends = _ENDS.get(state, JobEnd.cancelled)  # of a row that is no last one nobody asks
    job = TraceJob(JobId(number), submit_us, spec, duration_us, ends)
    part = "" if component is None else component[0]
    return _Row(number, state, line, job, start_us, end_us, fault, part)


def _single(rows: Sequence[_Row], inspection: Inspection) -> list[_Row]:
    """Keep one row of each run, or size of it: one that has ended, if there is one."""
    single: dict[tuple[object, ...], _Row] = {}
    for row in rows:
        kind = row.line if row.fault is Fault.never_ran else row.state == _RESIZING
        key = (row.number, row.component, row.job.submit_us, row.start_us, kind)
        other = single.setdefault(key, row)
        if other is row:
            continue
        if (row.fault is None, row.job.duration_us) > (other.fault is None, other.job.duration_us):
            single[key], row = row, other
        inspection.drop(Fault.duplicate, "", row.number, row.line)
    return list(single.values())


def _joined(rows: Sequence[_Row], inspection: Inspection) -> list[TraceJob]:
    """Make the rows of a job one job, and rename an id that is used again."""
    jobs: list[TraceJob] = []
    used: dict[str, int] = {}
    for chain in _chains(_whole_jobs(rows, inspection)):
        last, run = chain[-1], _last_run(chain)
        if last.state in _NOT_ENDED or last.fault is Fault.still_runs or not run:
            for row in chain[:-1]:
                inspection.drop(Fault.requeued, "", row.number, row.line)
            _drop_whole(last, inspection)
            continue
        for row in chain:
            # What was lost at a requeue is no work of the job: it began again.
            if row not in run:
                inspection.drop(Fault.requeued, "", row.number, row.line)
            elif row is not run[0]:
                inspection.drop(Fault.resized, "", row.number, row.line)
        job, number = run[0].job, last.number
        used[number] = used.get(number, 0) + 1
        if used[number] > 1:
            job.job_id = JobId(f"{number}#{used[number]}")
            inspection.note(Fault.used_again, "JobID", number, run[0].line)
        job.submit_us = chain[0].job.submit_us
        job.duration_us = sum(row.job.duration_us for row in run)
        job.ends = last.job.ends
        jobs.append(job)
        inspection.places.append(run[0].line)
    return jobs


def _whole_jobs(rows: Sequence[_Row], inspection: Inspection) -> list[_Row]:
    """Make the components of a run of a heterogeneous job one row, the first of them."""
    whole: list[_Row] = []
    runs: dict[tuple[str, int], tuple[_Row, set[str]]] = {}
    for row in sorted(rows, key=_order):
        key = (row.number, row.job.submit_us)
        leader, components = runs.get(key, (row, {row.component}))
        if not row.component or row.component in components or _is_later(row, leader):
            whole.append(row)
            runs[key] = (row, {row.component})
            continue
        components.add(row.component)
        inspection.drop(Fault.component, "", row.number, row.line)
        job, spec, more = leader.job, leader.job.spec, row.job.spec
        job.spec = replace(
            spec,
            gpus=spec.gpus + more.gpus,
            cpus_milli=spec.cpus_milli + more.cpus_milli,
            memory_mb=spec.memory_mb + more.memory_mb,
            gpu_types=tuple(sorted({*spec.gpu_types, *more.gpu_types})),
        )
        job.duration_us = max(job.duration_us, row.job.duration_us)
        leader.end_us = max(leader.end_us, row.end_us)
        leader.fault = leader.fault or row.fault
    return whole


def _order(row: _Row) -> tuple[int, bool, int, int]:
    """Order the rows of a job, also with one Submit: what never began comes last."""
    return (row.job.submit_us, row.fault is Fault.never_ran, row.start_us, row.line)


def _is_later(row: _Row, leader: _Row) -> bool:
    """Say whether a component is of a later run: all of one begin together."""
    return leader.fault is None and max(leader.start_us + 1, leader.end_us) <= row.start_us


def _last_run(chain: Sequence[_Row]) -> list[_Row]:
    """Return the rows of the last run that lasted: several if it was resized."""
    run: list[_Row] = []
    for row in reversed(chain):
        if run and row.state != _RESIZING:
            break
        if run or row.job.duration_us:
            run.insert(0, row)
    return run


def _drop_whole(last: _Row, inspection: Inspection) -> None:
    """Record why a job is left out whose rows end with this one."""
    if last.state in _NOT_ENDED or last.fault is not None:
        inspection.drop(last.fault or Fault.still_runs, "", last.state, last.line)
    else:
        inspection.drop(Fault.impossible, "the duration", "0", last.line)


def _chains(rows: Sequence[_Row]) -> Sequence[Sequence[_Row]]:
    """Return the runs of each job, in the order of their submission."""
    chains: list[list[_Row]] = []
    newest: dict[str, list[_Row]] = {}
    for row in sorted(rows, key=_order):
        chain = newest.get(row.number)
        if chain is not None and _is_same(chain[-1], row):
            chain.append(row)
        else:
            newest[row.number] = [row]
            chains.append(newest[row.number])
    return sorted(chains, key=lambda rows: (rows[0].job.submit_us, min(row.line for row in rows)))


def _is_same(before: _Row, row: _Row) -> bool:
    one, other = before.job.spec, row.job.spec
    at_once = before.fault is None and 0 <= row.job.submit_us - before.end_us <= _AT_ONCE_US
    is_again = before.job.submit_us == row.job.submit_us and not (before.fault or row.fault)
    is_alike = (one.name, one.user) == (other.name, other.user)
    return is_alike and (is_again or at_once or before.state in _GONE_ON)


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
