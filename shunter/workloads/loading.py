"""Reading a trace: file, format, jobs in order of submission, selection, digest.

    bytes ─▶ text ─▶ format.parse ─▶ stable sort ─▶ rows[start:stop] ─▶ origin ─▶ Trace

Time zero is the first submission of the selected rows where the file has absolute instants, and
the file's own zero where it counts seconds.
"""

import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import pairwise
from operator import attrgetter
from pathlib import Path

from shunter.core.speeds import ThroughputTable
from shunter.errors import ConfigError, TraceError
from shunter.events import JobId, JobSpec
from shunter.workloads.formats import TraceFormat, TraceText, find_format, guess_format, iso_text
from shunter.workloads.trace import Fault, Inspection, Trace, TraceJob

PIECE_BYTES = 1 << 20
FILE_BYTES_MOST = 4 << 30
"""Far more than the largest trace there is; a device has no end."""


def read_file(path: str | Path, most: int = FILE_BYTES_MOST) -> bytes:
    """Return the bytes of a file, or of a pipe up to its end.

    Raises:
        OSError: it cannot be read, is no file, or is larger than `most` bytes.
        ValueError: the path holds a zero byte.
    """
    too_large = OSError(None, f"it is larger than {most:,} bytes")
    with Path(path).open("rb") as file:
        found = os.fstat(file.fileno())
        if stat.S_ISREG(found.st_mode):
            if found.st_size > most:
                raise too_large
            return file.read()
        if not stat.S_ISFIFO(found.st_mode):
            raise OSError(None, "it is no file, but a device or the like")
        content = bytearray()
        while piece := file.read(PIECE_BYTES):
            content += piece
            if len(content) > most:
                raise too_large
    return bytes(content)


def table_text(source: str, builtin: str, path: Path, read: Callable[[str], str]) -> str:
    """Return the text of the table of the package, or of the file a source names.

    Args:
        source: `builtin`, or a path.
        builtin: what names the table of the package, `builtin:` and a name.
        path: where that one lies.
        read: returns the text of a file, or raises ConfigError.
    Raises:
        ConfigError: there is no such table, or the file cannot be read.
    """
    if source == builtin:
        return path.read_text(encoding="utf-8")
    if source.startswith("builtin:"):
        raise ConfigError(f"there is no table {source!r}; expected {builtin} or a file")
    return read(source)


def load_trace(
    path: str | Path,
    format: str | None = None,  # noqa: A002  the name of the config key
    rows: tuple[int, int] | None = None,
    *,
    options: Mapping[str, str] | None = None,
    throughputs: ThroughputTable | None = None,
    columns: Mapping[str, str] | None = None,
) -> Trace:
    """Read a trace file.

    Args:
        path: the file; its folder appears in messages only.
        format: one of `format_names()`; None guesses from the beginning of the file.
        rows: half-open selection from the usable rows, stably sorted by submission; None is all.
        options: choices of the format, such as {"attempts": "last"} for philly-json.
        throughputs: the rates by which a format that gives steps counts durations.
        columns: what columns of the file mean here, by the names they have there; the format is the
            canonical one where none is named.
    Raises:
        TraceError: the file cannot be read, is broken as a whole, or has no such rows.
    """
    content = _read_bytes(path)
    text = _decode(content, path)
    named = format
    if columns and not format:
        named = "canonical-jsonl" if text.lstrip().startswith("{") else "canonical-csv"
    chosen = find_format(named) if named else guess_format(str(path), text)
    settled = _settle_options(chosen, options or {})
    if chosen.needs_throughputs and throughputs is None:
        raise TraceError(
            f"{path}: format {chosen.name} gives steps, and no table says how long they take; "
            "name one as workload.throughputs (--throughputs): builtin:gavel, or a file"
        )
    inspection = Inspection(chosen.unit)
    file = TraceText(str(path), text, settled, throughputs, columns or {})
    jobs = chosen.parse(file, inspection)
    _refuse_duplicates(jobs, inspection, path)
    unsorted = sum(after.submit_us < before.submit_us for before, after in pairwise(jobs))
    kept = len(jobs)
    start, stop = _checked_rows(rows, path, inspection, kept)
    placed = zip(jobs, inspection.places, strict=False)
    dependents = [(job, place) for job, place in placed if job.spec.depends_on]
    jobs.sort(key=attrgetter("submit_us"))
    selected = tuple(jobs[start:stop])
    settle_dependencies(str(path), selected, dependents, inspection)
    origin = _count_from_first(selected) if chosen.is_absolute else None
    return Trace(
        source=Path(path).name,
        format=chosen.name,
        jobs=selected,
        digest=_digest(content, chosen.name, {**settled, **(columns or {})}, start, stop),
        report=inspection.report(kept, len(selected), unsorted),
        origin=origin,
    )


def place_in_trace(
    path: str | Path,
    job_id: JobId,
    format: str | None = None,  # noqa: A002  the name of the config key
    *,
    options: Mapping[str, str] | None = None,
    throughputs: ThroughputTable | None = None,
) -> str:
    """Return in which file and line a job stands; it is read again, for few ask.

    Only the file is named if the job is not in it (any more).
    """
    inspection = Inspection("line")
    try:
        text = _decode(_read_bytes(path), path)
        chosen = find_format(format) if format else guess_format(str(path), text)
        inspection = Inspection(chosen.unit)
        settled = _settle_options(chosen, options or {})
        jobs = chosen.parse(TraceText(str(path), text, settled, throughputs), inspection)
    except TraceError:
        return str(path)
    for job, place in zip(jobs, inspection.places, strict=False):
        if job.job_id == job_id:
            return f"{path}, {inspection.unit} {place}"
    return str(path)


def _read_bytes(path: str | Path) -> bytes:
    try:
        return read_file(path)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise TraceError(f"cannot read trace {path}: {why}; check the path") from error


def _decode(content: bytes, path: str | Path) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise TraceError(
            f"{path}, line {line}: not UTF-8 text (byte {error.start}); traces are plain text, "
            "unpack or convert the file"
        ) from error
    if not text.strip():
        raise TraceError(f"{path} is empty: expected one row for each job")
    return text


def _settle_options(chosen: TraceFormat, given: Mapping[str, str]) -> dict[str, str]:
    """Return every option of the format with its value; TraceError for unknown ones."""
    for name, value in given.items():
        allowed = chosen.options.get(name)
        if allowed is None:
            known = ", ".join(chosen.options) or "none"
            raise TraceError(f"format {chosen.name} has no option {name!r}; known: {known}")
        if value not in allowed:
            raise TraceError(f"option {name} = {value!r}: expected one of {', '.join(allowed)}")
    return {name: given.get(name, allowed[0]) for name, allowed in chosen.options.items()}


def _refuse_duplicates(jobs: list[TraceJob], inspection: Inspection, path: str | Path) -> None:
    if len({job.job_id for job in jobs}) == len(jobs):
        return
    first: dict[JobId, int] = {}
    for job, place in zip(jobs, inspection.places, strict=True):
        if job.job_id in first:
            unit = inspection.unit
            raise TraceError(
                f"{path}, {unit} {place}: job id {job.job_id!r} is that of {unit} "
                f"{first[job.job_id]}; ids must be unique"
            )
        first[job.job_id] = place


def _checked_rows(
    rows: tuple[int, int] | None, path: str | Path, inspection: Inspection, kept: int
) -> tuple[int, int]:
    if not kept:
        faults = "; ".join(inspection.report(0, 0, 0).sentences())
        raise TraceError(f"{path} has no usable rows{': ' if faults else ''}{faults}")
    start, stop = rows or (0, kept)
    if not 0 <= start < stop <= kept:
        raise TraceError(
            f"{path} has {kept} usable rows: rows = [{start}, {stop}] must satisfy "
            f"0 <= first < end <= {kept}"
        )
    return start, stop


def _count_from_first(jobs: tuple[TraceJob, ...]) -> str:
    """Make instants relative to the first submission; return that instant's text."""
    first_us = jobs[0].submit_us
    for job in jobs:
        job.submit_us -= first_us
    return iso_text(first_us)


def _digest(content: bytes, name: str, options: Mapping[str, str], start: int, stop: int) -> str:
    chosen = "".join(f" {key}={options[key]}" for key in sorted(options))
    digest = blake2b(f"trace 1 {name}{chosen} {start}:{stop}\n".encode(), digest_size=32)
    digest.update(content)
    return digest.hexdigest()


def settle_dependencies(
    path: str,
    selected: Sequence[TraceJob],
    dependents: Iterable[tuple[TraceJob, int]],
    inspection: Inspection,
) -> None:
    """Take dependencies on jobs that were not selected as met; note each.

    `dependents` are the jobs of the whole file that depend on any, with their places.

    Raises:
        TraceError: jobs wait for each other in a circle; they could never start.
    """
    ids = {job.job_id for job in selected}
    specs: dict[JobSpec, JobSpec] = {}
    inside = [(job, place) for job, place in dependents if job.job_id in ids]
    for job, place in inside:
        within = tuple(each for each in job.spec.depends_on if each.job_id in ids)
        if len(within) < len(job.spec.depends_on):
            lost = next(each.job_id for each in job.spec.depends_on if each.job_id not in ids)
            inspection.note(Fault.outside, "depends_on", lost, place)
            spec = replace(job.spec, depends_on=within)
            job.spec = specs.setdefault(spec, spec)
    _refuse_circles(path, [job for job, _ in inside])


def _refuse_circles(path: str, jobs: Sequence[TraceJob]) -> None:
    """Take away jobs that wait for nothing, until none or only circles are left."""
    needs = {job.job_id: len({each.job_id for each in job.spec.depends_on}) for job in jobs}
    waited_by: dict[JobId, list[JobId]] = {}
    for job in jobs:
        for needed in dict.fromkeys(each.job_id for each in job.spec.depends_on):
            waited_by.setdefault(needed, []).append(job.job_id)
    free = [needed for needed in waited_by if not needs.get(needed)]
    while free:
        for waiting in waited_by.get(free.pop(), ()):
            needs[waiting] -= 1
            if not needs[waiting]:
                free.append(waiting)
    stuck = [job_id for job_id, count in needs.items() if count]
    if stuck:
        shown = ", ".join(stuck[:5]) + (", …" if len(stuck) > 5 else "")
        raise TraceError(f"{path}: jobs {shown} depend on each other in a circle: remove one link")
