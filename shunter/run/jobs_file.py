"""`--jobs-out`: what happened to each job, one row each, in the order of the trace."""

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path

from shunter.core.metrics import JobResult
from shunter.output_files import replacing

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
            _seconds(result.submit_us),
            _seconds(result.first_start_us),
            _seconds(result.end_us),
            _seconds(result.jct_us),
            _seconds(result.wait_us),
            _seconds(result.service_gpu_us),
            result.preemptions,
            result.migrations,
            result.status,
        )


def _seconds(value_us: int | None) -> str:
    """Return microseconds as exact decimal seconds; nothing for what never happened."""
    if value_us is None:
        return ""
    whole, rest = divmod(value_us, 1_000_000)
    return f"{whole}.{rest:06}".rstrip("0") if rest else str(whole)
