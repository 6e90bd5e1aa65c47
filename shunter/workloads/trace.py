"""A trace: the jobs of a run in the order of their submission, and where they come from.

In this order: what was wrong with a file of one, the trace, and what it is like in numbers.
"""

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, overload

from shunter.events import JobId, JobSpec

# Faults. Unusable rows are dropped and counted, odd ones kept and noted; what makes the whole file
# doubtful (a broken header, an id twice) is a `TraceError`.

EXAMPLES_MAX = 5


class Fault(StrEnum):
    """What can be wrong with a row."""

    missing = "missing"
    unparsable = "unparsable"
    nan = "nan"
    negative = "negative"
    impossible = "impossible"
    surplus = "surplus"
    blank = "blank"
    contradiction = "contradiction"
    fraction = "fraction"
    outside = "outside"
    unknown = "unknown"
    step = "step"
    no_gpus = "no_gpus"
    never_ran = "never_ran"
    still_runs = "still_runs"
    duplicate = "duplicate"
    requeued = "requeued"
    resized = "resized"
    component = "component"
    numbered = "numbered"
    used_again = "used_again"
    zoneless = "zoneless"


@dataclass(frozen=True)
class Finding:
    """Rows with the same fault: in which column, how many, and examples.

    `column` is empty where the whole row is at fault. `places` are numbers of lines, or of entries
    of a JSON list, counted from 1, at most `EXAMPLES_MAX`; `found` is the offending text of the
    first of them.
    """

    fault: Fault
    column: str
    count: int
    places: tuple[int, ...]
    found: str = ""

    def sentence(self, unit: str = "line") -> str:
        """Say it to a person, as "3 rows: gpus is negative ('-1'), lines 2, 5, 9"."""
        rows = "1 row" if self.count == 1 else f"{self.count:,} rows"
        found = f" ({self.found!r})" if self.found else ""
        plural = {"line": "lines", "entry": "entries"}[unit]
        places = ", ".join(map(str, self.places)) + (", …" if self.count > len(self.places) else "")
        where = f"{unit if self.count == 1 else plural} {places}"
        return f"{rows}: {self._what()}{found}, {where}"

    def _what(self) -> str:
        subject = self.column or "the row"
        return {
            Fault.missing: f"{subject} is missing",
            Fault.unparsable: f"{subject} cannot be read",
            Fault.nan: f"{subject} is not a number",
            Fault.negative: f"{subject} is negative",
            Fault.impossible: f"{subject} is impossible",
            Fault.surplus: "the row has more fields than the header",
            Fault.blank: "the line is blank",
            Fault.contradiction: f"{subject} contradicts the rest",
            Fault.fraction: f"{subject} was cut to whole seconds",
            Fault.outside: f"{subject} names a job outside the selection",
            Fault.unknown: f"{subject} has no throughput in the table",
            Fault.step: "it is a step of a job",
            Fault.no_gpus: "the job had no GPUs",
            Fault.never_ran: "the job never ran",
            Fault.still_runs: "the job has not ended",
            Fault.duplicate: "it is of the same run as another row",
            Fault.requeued: "the job was requeued, and only its last run counts",
            Fault.resized: "the job was resized, and this run counts with the GPUs it had first",
            Fault.component: "it is a component of a heterogeneous job, which is one job",
            Fault.numbered: "TRES are numbers, of which some may be GPUs: print them with names",
            Fault.used_again: f"{subject} was used again for another job",
            Fault.zoneless: f"{subject} names no time zone, and is read as UTC",
        }[self.fault]


@dataclass(frozen=True)
class QualityReport:
    """The account of a trace: rows read = rows kept + rows dropped.

    `rows_selected` of the kept ones are the trace's jobs. Blank lines are no rows; they are noted.
    `other_columns` mean nothing in the format, and their values are in no job. `unsorted` counts
    kept rows submitted before the row in front of them. Places are numbers of lines, or of entries
    where the file is one JSON list (`unit`).
    """

    rows_read: int
    rows_kept: int
    rows_selected: int
    dropped: tuple[Finding, ...] = ()
    noted: tuple[Finding, ...] = ()
    unsorted: int = 0
    blank_last_line: bool = False
    unit: str = "line"
    other_columns: tuple[str, ...] = ()

    @property
    def rows_dropped(self) -> int:
        """How many rows are in no trace made from this file."""
        return sum(finding.count for finding in self.dropped)

    def sentences(self) -> tuple[str, ...]:
        """Say everything that is worth knowing, the worst first; empty if all is well."""
        said = [f"dropped {finding.sentence(self.unit)}" for finding in self.dropped]
        said += [f"noted {finding.sentence(self.unit)}" for finding in self.noted]
        if self.other_columns:
            told = ", ".join(map(repr, self.other_columns))
            said.append(
                f"left out what the columns {told} say, for no trace has such: --columns "
                "theirs=ours says what they are, and x_ before their names that they are not meant"
            )
        if self.blank_last_line:
            said.append("the last line is blank and was ignored")
        if self.unsorted:
            was = "1 row was" if self.unsorted == 1 else f"{self.unsorted:,} rows were"
            said.append(f"{was} out of order, and the trace has been sorted")
        return tuple(said)


class Inspection:
    """Collects the findings of one file while it is read.

    `places` runs beside the usable jobs, in formats whose jobs have ids of their own.
    """

    def __init__(self, unit: str = "line") -> None:
        """Start with nothing found; `unit` names what places count."""
        self.unit = unit
        self.rows_read = 0
        self.places: list[int] = []
        self.blank_last_line = False
        self._other_columns: dict[str, None] = {}
        self._dropped: dict[tuple[Fault, str], Finding] = {}
        self._noted: dict[tuple[Fault, str], Finding] = {}

    def drop(self, fault: Fault, column: str, found: str, place: int) -> None:
        """Record that a row is left out."""
        _count(self._dropped, fault, column, found, place)

    def note(self, fault: Fault, column: str, found: str, place: int) -> None:
        """Record that a row is odd, though kept."""
        _count(self._noted, fault, column, found, place)

    def note_others(self, found: Iterable[str], known: Collection[str]) -> None:
        """Record columns that mean nothing in a format."""
        strange = (name for name in found if name not in known and not name.startswith("x_"))
        self._other_columns.update(dict.fromkeys(strange))

    def see_blanks(self, lines: list[int], last_row_line: int) -> None:
        """Record blank lines: inside the file they are noted, at its end reported."""
        self.blank_last_line = bool(lines) and lines[-1] > last_row_line
        for line in lines:
            if line < last_row_line:
                self.note(Fault.blank, "", "", line)

    def report(self, kept: int, selected: int, unsorted: int) -> QualityReport:
        """Close the account."""
        report = QualityReport(
            rows_read=self.rows_read,
            rows_kept=kept,
            rows_selected=selected,
            dropped=tuple(self._dropped.values()),
            noted=tuple(self._noted.values()),
            unsorted=unsorted,
            blank_last_line=self.blank_last_line,
            unit=self.unit,
            other_columns=tuple(self._other_columns),
        )
        assert report.rows_read == report.rows_kept + report.rows_dropped
        return report


def number_fault(text: str) -> Fault:
    """Return why a text that had to be a number in some range is none of them."""
    if not text.strip():
        return Fault.missing
    try:
        value = float(text)
    except ValueError:
        return Fault.unparsable
    if math.isnan(value):
        return Fault.nan
    return Fault.negative if value < 0 else Fault.impossible


def _count(
    findings: dict[tuple[Fault, str], Finding], fault: Fault, column: str, found: str, place: int
) -> None:
    finding = findings.get((fault, column))
    if finding is None:
        findings[fault, column] = Finding(fault, column, 1, (place,), found[:40])
        return
    places = finding.places if len(finding.places) >= EXAMPLES_MAX else (*finding.places, place)
    findings[fault, column] = replace(finding, count=finding.count + 1, places=places)


class JobEnd(StrEnum):
    """How a job ends once it has run for its duration."""

    finished = "finished"
    failed = "failed"
    cancelled = "cancelled"


@dataclass(slots=True)
class TraceJob:
    """One job: what it asks for, and how long it runs at base speed.

    `submit_us` counts from the trace's origin. Equal specifications of one trace are one object:
    a million jobs share a few thousand. Not frozen, because a frozen record takes three times as
    long to build; nobody changes one after the trace is made.
    """

    job_id: JobId
    submit_us: int
    spec: JobSpec
    duration_us: int
    ends: JobEnd = JobEnd.finished


_ENDS: Final = tuple(JobEnd)


class NumberedJobs(Sequence[TraceJob]):
    """Jobs in columns, whose ids are their places: a million take 25 MB.

    As records with ids and instants they take 170. Who looks a job up, or goes through all, gets a
    new and equal record each time.
    """

    __slots__ = ("_durations_us", "_ends", "_specs", "_submits_us")

    def __init__(self, jobs: Iterable[TraceJob]) -> None:
        """Take in jobs, of which the first has the id 0."""
        self._submits_us, self._durations_us = array("q"), array("q")
        self._specs: list[JobSpec] = []
        self._ends = bytearray()
        for place, job in enumerate(jobs):
            assert job.job_id == str(place), "ids are places"
            self._submits_us.append(job.submit_us)
            self._durations_us.append(job.duration_us)
            self._specs.append(job.spec)
            self._ends.append(_ENDS.index(job.ends))

    def __len__(self) -> int:
        return len(self._specs)

    @overload
    def __getitem__(self, place: int) -> TraceJob: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[TraceJob]: ...

    def __getitem__(self, place: int | slice) -> TraceJob | Sequence[TraceJob]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        end = _ENDS[self._ends[place]]
        job_id = JobId(str(place if place >= 0 else place + len(self)))
        times_us = self._submits_us[place], self._durations_us[place]
        return TraceJob(job_id, times_us[0], self._specs[place], times_us[1], end)

    def __iter__(self) -> Iterator[TraceJob]:
        columns = self._submits_us, self._specs, self._durations_us, self._ends
        for place, (submit_us, spec, duration_us, end) in enumerate(zip(*columns, strict=True)):
            yield TraceJob(JobId(str(place)), submit_us, spec, duration_us, _ENDS[end])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]  # as that of a list


@dataclass(frozen=True)
class Trace:
    """Jobs, stably sorted by submission, and everything needed to name them again.

    `source` is a file's name without its folder, or a generator's name. `digest` is a blake2b
    over the input's bytes and what was selected from them, or over a generator's parameters.
    `origin` is the instant of time zero in ISO 8601; None where the trace counts seconds from
    a zero it does not name.
    """

    source: str
    format: str
    jobs: Sequence[TraceJob]
    digest: str
    report: QualityReport
    origin: str | None = None


TOP: Final = 10
_US: Final = 1_000_000


@dataclass(frozen=True)
class SizeClass:
    """The jobs of one gang size: how many, their GPU-hours, both also as shares."""

    gpus: int
    jobs: int
    gpu_h: float
    jobs_share: float
    gpu_h_share: float


@dataclass(frozen=True)
class TraceDescription:
    """Statistics of a trace; percentiles interpolate linearly.

    `span_s` runs from the first to the last submission. `load` is offered GPU-seconds over that
    span and the cluster's GPUs; None without a cluster or with all jobs at one instant.
    `gpus_mean` is the load in whole GPUs. `wider` counts jobs with more GPUs than the cluster.
    `queues` and `users` are the busiest by GPU-hours: name, jobs, GPU-hours.
    """

    jobs: int
    span_s: float
    gpu_h: float
    duration_s: Mapping[str, float]
    gpus_mean: float | None
    load: float | None
    wider: int
    ends: Mapping[str, int]
    sizes: tuple[SizeClass, ...]
    queues: tuple[tuple[str, int, float], ...]
    users: tuple[tuple[str, int, float], ...]


def describe_trace(trace: Trace, cluster_gpus: int | None) -> TraceDescription:
    """Return the statistics of a trace, its load relative to so many GPUs."""
    jobs = trace.jobs
    durations = sorted(job.duration_us for job in jobs)
    work_us = sum(job.spec.gpus * job.duration_us for job in jobs)
    span_us = jobs[-1].submit_us - jobs[0].submit_us if jobs else 0
    gpus_mean = work_us / span_us if span_us else None
    return TraceDescription(
        jobs=len(jobs),
        span_s=span_us / _US,
        gpu_h=_hours(work_us),
        duration_s={
            "mean": sum(durations) / len(durations) / _US if durations else 0.0,
            **{f"p{p}": percentile(durations, p / 100) / _US for p in (50, 90, 99)},
            "max": durations[-1] / _US if durations else 0.0,
        },
        gpus_mean=gpus_mean,
        load=gpus_mean / cluster_gpus if gpus_mean is not None and cluster_gpus else None,
        wider=sum(job.spec.gpus > cluster_gpus for job in jobs) if cluster_gpus else 0,
        ends=dict(Counter(job.ends.value for job in jobs)),
        sizes=_sizes(trace, work_us),
        queues=_busiest((job.spec.queue, job.spec.gpus * job.duration_us) for job in jobs),
        users=_busiest(
            (job.spec.user, job.spec.gpus * job.duration_us) for job in jobs if job.spec.user
        ),
    )


def percentile(ordered: Sequence[int], fraction: float) -> float:
    """Return a quantile of ascending values, interpolated; 0 if there are none."""
    if not ordered:
        return 0.0
    place = fraction * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def _sizes(trace: Trace, work_us: int) -> tuple[SizeClass, ...]:
    counts: Counter[int] = Counter()
    work: dict[int, int] = defaultdict(int)
    for job in trace.jobs:
        counts[job.spec.gpus] += 1
        work[job.spec.gpus] += job.spec.gpus * job.duration_us
    return tuple(
        SizeClass(
            gpus=gpus,
            jobs=counts[gpus],
            gpu_h=_hours(work[gpus]),
            jobs_share=counts[gpus] / len(trace.jobs),
            gpu_h_share=work[gpus] / work_us if work_us else 0.0,
        )
        for gpus in sorted(counts)
    )


def _busiest(work: Iterable[tuple[str, int]]) -> tuple[tuple[str, int, float], ...]:
    counts: Counter[str] = Counter()
    total_us: dict[str, int] = defaultdict(int)
    for name, work_us in work:
        counts[name] += 1
        total_us[name] += work_us
    names = sorted(counts, key=lambda name: (-total_us[name], -counts[name], name))
    return tuple((name, counts[name], _hours(total_us[name])) for name in names[:TOP])


def _hours(work_us: int) -> float:
    return work_us / _US / 3600
