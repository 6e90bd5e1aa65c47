"""The canonical trace, read and written: as CSV and as JSON lines.

In this order: cells, columns, rows with the two formats, and writing.
"""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import cache
from hashlib import blake2b
from math import inf
from operator import itemgetter
from pathlib import Path
from typing import Final, NoReturn, TextIO

from shunter.core.planning import unfit_for_sizes
from shunter.core.speeds import JobKind, ThroughputTable, unfit_contract
from shunter.errors import TraceError
from shunter.events import (
    Dependency,
    DependsWhen,
    JobId,
    JobSpec,
    Level,
    QueueName,
    SuspendMode,
    UserName,
)
from shunter.workloads.formats.format import (
    COUNT_MAX,
    DelimitedRows,
    TraceFormat,
    TraceText,
    can_read,
    names_some_of,
    read_count,
    read_seconds,
)
from shunter.workloads.trace import Fault, Inspection, JobEnd, Trace, TraceJob, number_fault

# Cells: reading raises ValueError, and writing and reading again gives the value, bit for bit.


def read_positive(text: str) -> int:
    """Return a whole number from 1 up."""
    return read_count(text) or _refuse(text)


def read_length(text: str) -> int:
    """Return microseconds for decimal seconds that amount to at least one of them."""
    return read_seconds(text) or _refuse(text)


def read_above_zero(text: str) -> float:
    """Return a finite number above zero."""
    value = float(text)
    return value if 0 < value < inf else _refuse(text)


def read_part(text: str) -> float:
    """Return a number from 0 to 1."""
    value = float(text)
    return value if 0 <= value <= 1 else _refuse(text)


def read_thousandths(text: str) -> int:
    """Return the whole thousandths of a decimal from 0 up: 0.5 CPUs are 500."""
    value = float(text) * 1000
    return round(value) if 0 <= value <= COUNT_MAX else _refuse(text)


def read_priority(text: str) -> int:
    """Return a whole number of either sign."""
    value = int(text)
    return value if abs(value) <= COUNT_MAX else _refuse(text)


def read_shape(text: str) -> tuple[int, ...]:
    """Return GPU counts per server: "4+2" is (4, 2)."""
    return tuple(read_positive(part) for part in text.split("+"))


def write_shape(shape: object) -> str:
    """Return the text `read_shape` reads."""
    assert isinstance(shape, tuple)
    return "+".join(map(str, shape))


def read_yes(text: str) -> bool:
    """Return whether a cell says yes."""
    return text == "yes" if text in ("yes", "no") else _refuse(text)


def write_yes(value: object) -> str:
    """Return the text `read_yes` reads."""
    return "yes" if value else "no"


def read_tolerance(text: str) -> tuple[Level, float]:
    """Return a level and the speed there: "rack:0.8"."""
    level, _, speed = text.partition(":")
    return Level(level), read_above_zero(speed)


def write_tolerance(point: object) -> str:
    """Return the text `read_tolerance` reads."""
    assert isinstance(point, tuple)
    return f"{point[0]}:{point[1]!r}"


def read_shape_tolerance(text: str) -> tuple[tuple[int, ...], float]:
    """Return a split over servers and the speed there: "2+2:0.72"."""
    shape, _, speed = text.partition(":")
    return read_shape(shape), read_above_zero(speed)


def write_shape_tolerance(point: object) -> str:
    """Return the text `read_shape_tolerance` reads."""
    assert isinstance(point, tuple)
    return f"{write_shape(point[0])}:{point[1]!r}"


def read_dependency(text: str) -> Dependency:
    """Return the job named, and which end of it is meant: "j1", "j1:ok" or "j1:any"."""
    job_id, colon, when = text.rpartition(":")
    if not colon or when not in ("ok", "any"):
        job_id, when = text, DependsWhen.ok
    return Dependency(JobId(job_id or _refuse(text)), DependsWhen(when))


def write_dependency(dependency: object) -> str:
    """Return the text `read_dependency` reads."""
    assert isinstance(dependency, Dependency)
    is_plain = dependency.when is DependsWhen.ok and ":" not in dependency.job_id
    return dependency.job_id if is_plain else f"{dependency.job_id}:{dependency.when}"


def split_list(text: str) -> list[str]:
    """Return the items of "a|b", or of a JSON list of texts."""
    if not text.startswith("["):
        return text.split("|")
    items = json.loads(text)
    return [item if isinstance(item, str) else _refuse(text) for item in items]


def join_list(items: Iterable[str]) -> str:
    """Return the text `split_list` reads; JSON only where an item would be misread."""
    every = list(items)
    is_plain = all(item and "|" not in item for item in every) and every[0][0] != "["
    return "|".join(every) if is_plain else json.dumps(every)


def fixed_text(value: int, digits: int) -> str:
    """Return value / 10^digits as a decimal without needless zeros."""
    sign = "-" if value < 0 else ""
    whole, rest = divmod(abs(value), 10**digits)
    return f"{sign}{whole}.{rest:0{digits}}".rstrip("0").rstrip(".") if rest else f"{sign}{whole}"


def _refuse(text: str) -> NoReturn:
    raise ValueError(text)


# Columns of a job's specification. Units: seconds, the job's CPUs, gigabytes of 1,000 megabytes.
# docs/reference/traces.md lists them, and a test compares the two.

REQUIRED: Final = ("submit_s", "duration_s", "gpus")
ROW_COLUMNS: Final = ("job_id", "submit_s", "duration_s", "status")
"""The columns that are a job's own; all others are its specification's."""


@dataclass(frozen=True)
class Column:
    """One column: the field it fills, and how a text is read as a value, and written.

    `read` and `write` handle one item where the column is a list.
    """

    name: str
    field: str
    read: Callable[[str], object]
    write: Callable[[object], str]
    is_number: bool = False
    is_list: bool = False

    def value(self, text: str) -> object:
        """Return the value of a cell that is not empty; ValueError if it is none."""
        if self.is_list:
            return tuple(self.read(item) for item in split_list(text))
        return self.read(text)

    def texts(self, spec: JobSpec) -> str | list[str]:
        """Return what to write for a specification; empty stands for an optional default."""
        value = getattr(spec, self.field)
        if value == _DEFAULTS[self.field] and self.name not in REQUIRED:
            return ""
        return [self.write(item) for item in value] if self.is_list else self.write(value)

    def fault(self, text: str) -> Fault:
        """Return what is wrong with a text `value` refused."""
        if self.is_number:
            return number_fault(text)
        return Fault.unparsable if text.strip() else Fault.missing


def read_spec(texts: Mapping[str, str]) -> JobSpec:
    """Return the specification of a row; ValueError if a cell is wrong."""
    spec = _build(texts)
    if wrong := _contradiction(spec):
        raise ValueError(f"impossible {wrong}")
    return spec


def spec_fault(texts: Mapping[str, str]) -> tuple[Fault, str, str] | None:
    """Return fault, column and text of the first wrong cell; None if none is."""
    for column in SPEC_COLUMNS:
        text = texts.get(column.name, "")
        if text or column.name in REQUIRED:
            try:
                column.value(text)
            except ValueError:
                return column.fault(text), column.name, text
    wrong = _contradiction(_build(texts))
    return (Fault.impossible, wrong, texts.get(wrong, "")) if wrong else None


def _build(texts: Mapping[str, str]) -> JobSpec:
    values = {
        column.field: column.value(text)
        for column in SPEC_COLUMNS
        if (text := texts.get(column.name, "")) or column.name in REQUIRED
    }
    return JobSpec(**values)  # type: ignore[arg-type]  # a test holds columns and fields together


def _contradiction(spec: JobSpec) -> str:
    """Return the column that cannot be as the others are; empty if none."""
    if not spec.gpus and not spec.cpus_milli:
        return "gpus"
    if (unfit := unfit_for_sizes(spec) or unfit_contract(spec)) is not None:
        return unfit[0]
    return "shapes" if any(sum(shape) != spec.gpus for shape in spec.shapes) else ""


def _seconds(value: object) -> str:
    assert isinstance(value, int)
    return fixed_text(value, 6)


def _thousandths(value: object) -> str:
    assert isinstance(value, int)
    return fixed_text(value, 3)


def _number(name: str, read: Callable[[str], object]) -> Column:
    return Column(name, name, read, str, is_number=True)


def _text(name: str) -> Column:
    return Column(name, name, str, str)


def _time(name: str, read: Callable[[str], object]) -> Column:
    return Column(name, f"{name.removesuffix('_s')}_us", read, _seconds, is_number=True)


_DEFAULTS: Final = {
    each.name: None if each.default is MISSING else each.default for each in fields(JobSpec)
}

SPEC_COLUMNS: Final = (
    _number("gpus", read_count),
    _text("user"),
    _text("queue"),
    _text("model"),
    _number("batch_size", read_positive),
    _number("total_steps", read_positive),
    Column("cpus", "cpus_milli", read_thousandths, _thousandths, is_number=True),
    Column("memory_gb", "memory_mb", read_thousandths, _thousandths, is_number=True),
    _time("time_limit_s", read_length),
    _number("weight", read_above_zero),
    _number("priority", read_priority),
    Column("gpu_type", "gpu_types", str, str, is_list=True),
    _text("name"),
    _text("group"),
    Column("command", "command", str, str, is_list=True),
    _text("directory"),
    _number("gpus_min", read_positive),
    _number("gpus_max", read_positive),
    Column("shapes", "shapes", read_shape, write_shape, is_list=True),
    _time("deadline_s", read_seconds),
    Column("depends_on", "depends_on", read_dependency, write_dependency, is_list=True),
    _number("array_index", read_count),
    Column("tolerance", "tolerance", read_tolerance, write_tolerance, is_list=True),
    Column("max_level", "max_level", Level, str),
    _number("min_speed", read_above_zero),
    Column("suspend_mode", "suspend_mode", SuspendMode, str),
    _time("checkpoint_interval_s", read_length),
    _number("skew", read_part),
    _text("array"),
    _number("at_once", read_positive),
    Column("split_may_change", "split_may_change", read_yes, write_yes),
    _number("retries", read_count),
    Column(
        "shape_tolerance",
        "shape_tolerance",
        read_shape_tolerance,
        write_shape_tolerance,
        is_list=True,
    ),
    _number("interference", read_part),
    Column("migratable", "migratable", read_yes, write_yes),
)
"""In the order of the specification's fields."""


# Rows, and the trace as CSV: lists are a|b.

COLUMNS: Final = (*ROW_COLUMNS, *(column.name for column in SPEC_COLUMNS))
"""Every column of a canonical trace; others are noted, unless they start with x_."""

_CACHED_MAX = 2**16
_NAMED_MOST = 5


class CanonicalRows:
    """Reads rows of texts, in the order of one header, as jobs.

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
    for number, cells in enumerate(rows):
        if rows.is_whole(cells, inspection):
            canonical.add(cells, number, rows.line)
    canonical.refuse_without_rate(file.path)
    inspection.rows_read = number + 1
    rows.report_blanks(inspection)
    return canonical.jobs


CSV_FORMAT: Final = TraceFormat(
    name="canonical-csv",
    recognises=names_some_of(REQUIRED, 2),
    parse=parse_canonical_csv,
)


# The trace as JSON lines: an absent key, null and an empty text are the default. The first row
# decides whether jobs have ids.


def parse_canonical_jsonl(file: TraceText, inspection: Inspection) -> list[TraceJob]:
    """Return the usable rows in file order, instants as the file has them.

    Raises:
        TraceError: the table lacks a rate that a row needs.
    """
    canonical: CanonicalRows | None = None
    has_ids = False
    known: set[tuple[str, ...]] = set()
    blanks: list[int] = []
    number, last_row_line = -1, 0
    # Not splitlines(): that also splits at separators which JSON allows inside a text.
    for line, text in enumerate(file.text.removesuffix("\n").split("\n"), start=1):
        if not text.strip():
            blanks.append(line)
            continue
        number, last_row_line = number + 1, line
        row = _row(text)
        if row is None:
            inspection.drop(Fault.unparsable, "", text, line)
            continue
        row = {file.columns.get(name, name): value for name, value in row.items()}
        names = tuple(row)
        if names not in known:
            inspection.note_others(names, COLUMNS)
            known.add(names)
        if canonical is None:
            has_ids = "job_id" in row
            columns = COLUMNS if has_ids else COLUMNS[1:]
            canonical = CanonicalRows(columns, inspection, file.throughputs)
        if has_ids is not ("job_id" in row):
            fault = Fault.missing if has_ids else Fault.contradiction
            inspection.drop(fault, "job_id", _cell(row.get("job_id")), line)
            continue
        columns = COLUMNS if has_ids else COLUMNS[1:]
        canonical.add([_cell(row.get(name)) for name in columns], number, line)
    if canonical is not None:
        canonical.refuse_without_rate(file.path)
    inspection.rows_read = number + 1
    inspection.see_blanks(blanks, last_row_line)
    return canonical.jobs if canonical else []


def _row(text: str) -> Mapping[str, object] | None:
    """Return the object on a line; None if there is none."""
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _cell(value: object) -> str:
    """Return the text the CSV form would have."""
    if value is None or value == []:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


JSONL_FORMAT: Final = TraceFormat(
    name="canonical-jsonl",
    recognises=lambda head: head.lstrip().startswith("{"),
    parse=parse_canonical_jsonl,
)


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


# Names become keyed hashes. Without a key, names known from elsewhere could be tried. Ids of jobs,
# sizes and instants stay.

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
