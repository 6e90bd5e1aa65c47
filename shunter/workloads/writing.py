"""Writing a trace in a canonical form: reading it again gives the same jobs."""

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final, TextIO

from shunter.errors import TraceError
from shunter.events.values import JobSpec, QueueName, UserName
from shunter.workloads.formats.cells import fixed_text, join_list
from shunter.workloads.formats.columns import REQUIRED, SPEC_COLUMNS, Column
from shunter.workloads.trace import JobEnd, Trace, TraceJob

WRITTEN_FORMATS: Final = ("canonical-csv", "canonical-jsonl")

Cell = str | list[str]


def write_trace(
    trace: Trace,
    target: str | Path | TextIO,
    format: str,  # noqa: A002  the name of the option
) -> None:
    """Write the jobs of a trace; columns that say nothing anywhere are left out.

    Instants count from the trace's origin, which the canonical forms do not hold.

    Args:
        trace: what to write.
        target: a path, whose file is replaced, or an open text file.
        format: one of `WRITTEN_FORMATS`.
    Raises:
        TraceError: the format is not one of them, or the file cannot be written.
    """
    if format not in WRITTEN_FORMATS:
        names = ", ".join(WRITTEN_FORMATS)
        raise TraceError(f"cannot write format {format!r}: expected one of {names}")
    write = _write_csv if format == "canonical-csv" else _write_jsonl
    if not isinstance(target, str | Path):
        write(trace.jobs, target)
        return
    try:
        with Path(target).open("w", encoding="utf-8", newline="") as file:
            write(trace.jobs, file)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise TraceError(f"cannot write trace {target}: {why}; check the path") from error


def _write_csv(jobs: Sequence[TraceJob], file: TextIO) -> None:
    names, rows = _table(jobs)
    plain = csv.writer(file, lineterminator="\n")
    quoted = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
    plain.writerow(names)
    for row in rows:
        texts = [join_list(cell) if isinstance(cell, list) else cell for cell in row]
        # Python 3.11 leaves a lone carriage return bare, and reads it as the end of the row.
        writer = quoted if any("\r" in text for text in texts) else plain
        writer.writerow(texts)


def _write_jsonl(jobs: Sequence[TraceJob], file: TextIO) -> None:
    numbers = {column.name for column in SPEC_COLUMNS if column.is_number} | set(REQUIRED)
    names, rows = _table(jobs)
    for row in rows:
        record = {
            # The text of a number is the same in both forms; json would write floats its own way.
            name: json.loads(cell) if name in numbers and isinstance(cell, str) else cell
            for name, cell in zip(names, row, strict=True)
            if cell
        }
        file.write(json.dumps(record, ensure_ascii=False) + "\n")


def _table(jobs: Sequence[TraceJob]) -> tuple[list[str], Iterator[list[Cell]]]:
    """Return the names of the columns that say something, and the rows."""
    specs = {id(job.spec): job.spec for job in jobs}
    columns = [
        column
        for column in SPEC_COLUMNS
        if column.name in REQUIRED or any(column.texts(spec) for spec in specs.values())
    ]
    has_status = any(job.ends is not JobEnd.finished for job in jobs)
    names = ["job_id", "submit_s", "duration_s", *(["status"] if has_status else [])]
    return [*names, *(column.name for column in columns)], _rows(jobs, columns, has_status)


def _rows(
    jobs: Sequence[TraceJob], columns: Sequence[Column], has_status: bool
) -> Iterator[list[Cell]]:
    texts: dict[int, list[Cell]] = {}
    for job in jobs:
        cells = texts.get(id(job.spec))
        if cells is None:
            cells = texts[id(job.spec)] = [column.texts(job.spec) for column in columns]
        status = [job.ends.value] if has_status else []
        submit_s, duration_s = fixed_text(job.submit_us, 6), fixed_text(job.duration_us, 6)
        yield [job.job_id, submit_s, duration_s, *status, *cells]


# Names in a trace become keyed hashes: the same name the same hash, and none without the key.
#
# A hash without a key would hide nothing: whoever knows the users of a site could try them all.
# Ids of jobs, sizes and instants stay as they are.

KEY_BYTES_LEAST: Final = 16
_HASH_BYTES: Final = 8


def anonymised(trace: Trace, key: bytes, *, with_queues: bool) -> Trace:
    """Return a trace in which users and names of jobs are hashes.

    Args:
        trace: the trace, which is left as it is.
        key: secret bytes; traces made under the same key have the same hashes.
        with_queues: whether queues are hashes too; they are the names of accounts, say.
    Raises:
        TraceError: the key is too short to keep anybody from trying names.
    """
    if len(key) < KEY_BYTES_LEAST:
        raise TraceError(
            f"the key has {len(key)} bytes: expected {KEY_BYTES_LEAST} or more, such as those of "
            "`head -c 32 /dev/urandom`"
        )
    hashed = _hashing(blake2b(key).digest())

    @cache
    def spec_of(spec: JobSpec) -> JobSpec:
        return replace(
            spec,
            user=UserName(hashed("user", spec.user)),
            queue=QueueName(hashed("queue", spec.queue)) if with_queues else spec.queue,
            name=hashed("job", spec.name),
            command=(),
            directory="",
        )

    jobs = tuple(
        TraceJob(job.job_id, job.submit_us, spec_of(job.spec), job.duration_us, job.ends)
        for job in trace.jobs
    )
    return replace(trace, jobs=jobs)


def _hashing(key: bytes) -> Callable[[str, str], str]:
    def hashed(kind: str, name: str) -> str:
        if not name:
            return ""
        # The kind counts, so that a job that is called like a user is not told to be.
        content = f"{kind}\0{name}".encode("utf-8", errors="surrogateescape")
        return f"{kind}-{blake2b(content, key=key, digest_size=_HASH_BYTES).hexdigest()}"

    return hashed
