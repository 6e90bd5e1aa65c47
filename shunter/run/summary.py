"""The document that a run is summed up in, and the file of what happened to each job.

docs/reference/results.md explains each name.

Statistics of completion and waiting are over finished jobs. A job that hit its time limit counts
as failed. What does not exist (the mean of no jobs) is None, never NaN.
"""

import csv
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import NotRequired, TypedDict

from shunter.core import (
    SIZE_CLASSES,
    Distribution,
    JobLedger,
    JobResult,
    ProposalsDocument,
    State,
    distribution,
    distribution_of,
    finish_time_fairness,
    size_class,
)
from shunter.events import Outcome
from shunter.output_files import replacing

SCHEMA = 1
_FAILED = ("failed", "timeout")


class Times(TypedDict):
    """Completion and waiting times of finished jobs, in seconds; None: no jobs."""

    jct_s: dict[str, float | None]
    wait_s: dict[str, float | None]


class SizeNumbers(Times):
    """The finished jobs of one size class."""

    jobs: int


class TraceNumbers(TypedDict):
    """Which jobs a run had."""

    source: str
    jobs: int
    digest: str
    rows_read: int
    rows_dropped: int


class RunDocument(Times):
    """What a run is summed up in, under the names of docs/reference/results.md."""

    schema: int
    evidence: str
    policy: str
    oracle: bool
    seed: int
    cluster: dict[str, int]
    trace: TraceNumbers
    jobs: dict[str, int]
    makespan_s: float
    gpu_utilisation: float | None
    preemptions: int
    migrations: int
    finish_time_fairness: dict[str, float | None]
    by_size: dict[str, SizeNumbers]
    rounds: dict[str, int]
    events: int
    log: dict[str, str]
    share_gap: NotRequired[dict[str, object]]
    opt: NotRequired[dict[str, object]]
    proposals: NotRequired[ProposalsDocument]
    notes: NotRequired[list[str]]
    state_digest: NotRequired[str]
    elapsed: NotRequired[dict[str, float]]


def stories(ledger: JobLedger, state: State) -> Iterator[JobResult]:
    """Yield the story of every job: those that ended, then the unfinished ones."""
    return chain(ledger.stories(), ledger.unfinished(state))


@dataclass(slots=True)
class _Sample:
    """Completion and waiting times of finished jobs, in microseconds."""

    jct_us: "array[int]" = field(default_factory=lambda: array("q"))
    wait_us: "array[int]" = field(default_factory=lambda: array("q"))

    def document(self) -> Times:
        return {"jct_s": _seconds(self.jct_us), "wait_s": _seconds(self.wait_us)}


@dataclass(frozen=True)
class JobNumbers:
    """What happened to the jobs of a run, as parts of its document."""

    counts: dict[str, int]
    times: Times
    sizes: dict[str, SizeNumbers]
    fairness: dict[str, float | None]
    preemptions: int
    migrations: int


def job_numbers(results: Iterable[JobResult], alone_us: Sequence[int]) -> JobNumbers:
    """Sum up the stories of all jobs.

    Args:
        results: the stories.
        alone_us: how long each job runs alone, in order of submission; 0: nobody knows.
    """
    statuses: Counter[str] = Counter()
    by_size = {name: _Sample() for _, name in SIZE_CLASSES}
    samples: dict[int, _Sample] = {}
    shares: array[float] = array("d")
    preemptions = migrations = 0
    for result in results:
        statuses[result.status] += 1
        preemptions += result.preemptions
        migrations += result.migrations
        if result.status != Outcome.finished:
            continue
        sample = samples.get(result.gpus)
        if sample is None:
            sample = samples[result.gpus] = by_size[size_class(result.gpus)]
        jct_us = result.jct_us
        assert jct_us is not None, "a finished job has an end"
        sample.jct_us.append(jct_us)
        sample.wait_us.append(jct_us - result.held_us)
        share = finish_time_fairness(result, alone_us[result.ordinal])
        if share is not None:
            shares.append(share)
    every = _Sample()
    for sample in by_size.values():
        every.jct_us += sample.jct_us
        every.wait_us += sample.wait_us
    return JobNumbers(
        counts=_counts(statuses, len(alone_us)),
        times=every.document(),
        sizes={
            name: {"jobs": len(sample.jct_us), **sample.document()}
            for name, sample in by_size.items()
            if sample.jct_us
        },
        fairness=asdict(distribution_of(shares)),
        preemptions=preemptions,
        migrations=migrations,
    )


def _counts(statuses: Counter[str], jobs: int) -> dict[str, int]:
    counts = {
        "submitted": jobs,
        "finished": statuses["finished"],
        "failed": sum(statuses[name] for name in _FAILED),
        "cancelled": statuses["cancelled"],
        "rejected": statuses["rejected"],
        "unfinished": statuses["unfinished"],
    }
    assert sum(counts.values()) == 2 * jobs, f"{jobs} jobs went in, and {counts} came out"
    return counts


def _seconds(values_us: "array[int]") -> dict[str, float | None]:
    summed: Distribution = distribution(values_us)
    return asdict(summed)


# `--jobs-out`: what happened to each job, one row each, in the order of the trace.

COLUMNS = (
    "job_id",
    "user",
    "gpus",
    "submit_s",
    "first_start_s",
    "finish_s",
    "jct_s",
    "wait_s",
    "attained_gpu_s",
    "preemptions",
    "migrations",
    "status",
)


def write_jobs(path: Path, results: Iterable[JobResult], jobs: int) -> None:
    """Write the stories of so many jobs to a file, which is replaced.

    Raises:
        ShunterError: the file cannot be written; one that was there is unchanged.
    """
    ordered: list[JobResult | None] = [None] * jobs
    for result in results:
        ordered[result.ordinal] = result
    with replacing(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(_rows(ordered))


def _rows(results: Iterable[JobResult | None]) -> Iterator[tuple[object, ...]]:
    for result in results:
        assert result is not None, "every job of the trace has a story"
        yield (
            result.job_id,
            result.user,
            result.gpus,
            _decimal_seconds(result.submit_us),
            _decimal_seconds(result.first_start_us),
            _decimal_seconds(result.end_us),
            _decimal_seconds(result.jct_us),
            _decimal_seconds(result.wait_us),
            _decimal_seconds(result.service_gpu_us),
            result.preemptions,
            result.migrations,
            result.status,
        )


def _decimal_seconds(value_us: int | None) -> str:
    """Return microseconds as exact decimal seconds; nothing for what never happened."""
    if value_us is None:
        return ""
    whole, rest = divmod(value_us, 1_000_000)
    return f"{whole}.{rest:06}".rstrip("0") if rest else str(whole)
