"""A log turned back into a trace: the same jobs, with the work that they were seen to do.

The work of a job is its time at work in all its attempts, without start-ups, suspensions and what
was lost: with the costs of the same log (`shunter trace fit`) a simulation holds GPUs for as long
as the job did. Jobs that were rejected, never started or have not ended are left out, because
nobody saw how long they run.
"""

from dataclasses import replace

from shunter.ask.cost_fitting import (
    Fitted,
    Observed,
    ObservedJob,
    checkpoint_interval_us,
    fit_costs,
    observe_log,
    work_us,
)
from shunter.ask.replaying.folding import Advance
from shunter.errors import TraceError
from shunter.events.facts.jobs import Outcome
from shunter.events.log import LogReader
from shunter.events.values.ids import JobId
from shunter.workloads import JobEnd, QualityReport, Trace, TraceJob

_ENDS = {
    Outcome.finished: JobEnd.finished,
    Outcome.failed: JobEnd.failed,
    Outcome.timeout: JobEnd.failed,
    Outcome.cancelled: JobEnd.cancelled,
}


async def observed_trace(reader: LogReader, advance: Advance | None = None) -> tuple[Trace, int]:
    """Return the trace of the jobs that ended, and how many others there were.

    Raises:
        TraceError: no job has run to its end.
    """
    observed = await observe_log(reader, advance)
    fitted = fit_costs(observed)
    seen = [
        _observed(job, observed, fitted)
        for job in sorted(observed.jobs, key=lambda job: job.ordinal)
        if job.has_run and job.outcome in _ENDS
    ]
    if not seen:
        raise TraceError(f"no job of {reader.url} has run to its end: there is nothing to export")
    ended = {job.job_id for job in seen}
    jobs = tuple(_without_others(job, ended) for job in seen)
    report = QualityReport(len(jobs), len(jobs), len(jobs))
    trace = Trace(reader.url, "observed", jobs, observed.digest, report)
    return trace, len(observed.jobs) - len(jobs)


def _observed(job: ObservedJob, observed: Observed, fitted: Fitted) -> TraceJob:
    assert job.outcome is not None, "a job that has ended has an outcome"
    spec, every_us = job.spec, checkpoint_interval_us(job)
    if every_us != spec.checkpoint_interval_us or spec.retries:  # all its attempts are in its work
        spec = replace(spec, checkpoint_interval_us=every_us, retries=0)
    duration_us = work_us(job, observed, fitted)
    return TraceJob(job.job_id, job.submit_us, spec, duration_us, _ENDS[job.outcome])


def _without_others(job: TraceJob, ended: set[JobId]) -> TraceJob:
    """Return the job without dependencies on jobs that are left out."""
    kept = tuple(each for each in job.spec.depends_on if each.job_id in ended)
    if len(kept) < len(job.spec.depends_on):
        job.spec = replace(job.spec, depends_on=kept)
    return job
