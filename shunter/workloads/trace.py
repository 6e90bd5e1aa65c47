"""A trace: the jobs of a run in the order of their submission, and where they come from."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from shunter.events.values import JobId, JobSpec
from shunter.workloads.quality import QualityReport


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
