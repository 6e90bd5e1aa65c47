"""A log turned back into a trace: the same jobs, with the run times that were observed.

The observed run time of a job is how long it held its GPUs, in all its attempts together. Jobs
that were rejected, never started or have not ended are left out, because nobody saw how long
they run.
"""

from dataclasses import replace

from shunter.app.collector import collector_off
from shunter.app.replaying.folding import Advance, fold_events
from shunter.core.state import Job, Outcome, State
from shunter.errors import TraceError
from shunter.events.facts.jobs import JobCancelled, JobFailed, JobFinished
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
    head = await reader.head()
    state, seen = State(), list[tuple[int, TraceJob]]()
    with collector_off():
        async for frame in reader.frames(0, head.seq):
            for event in frame.events():
                fold_events(state, (event,))
                if isinstance(event, JobFinished | JobFailed | JobCancelled):
                    job = state.departed
                    assert job is not None, "an end without a job"
                    if job.first_start_us is not None:
                        seen.append((job.ordinal, _observed(job, state)))
            if advance is not None:
                advance(state.seq, head.seq)
    if not seen:
        raise TraceError(f"no job of {reader.url} has run to its end: there is nothing to export")
    ended = {job.job_id for _, job in seen}
    jobs = tuple(_without_others(job, ended) for _, job in sorted(seen, key=lambda pair: pair[0]))
    report = QualityReport(len(jobs), len(jobs), len(jobs))
    trace = Trace(reader.url, "observed", jobs, head.chain.hex(), report)
    return trace, state.submitted - len(jobs)


def _observed(job: Job, state: State) -> TraceJob:
    end = _ENDS[state.ended[job.job_id]]
    return TraceJob(job.job_id, job.submitted_us, job.spec, job.held_us, end)


def _without_others(job: TraceJob, ended: set[JobId]) -> TraceJob:
    """Return the job without dependencies on jobs that are left out."""
    kept = tuple(each for each in job.spec.depends_on if each.job_id in ended)
    if len(kept) < len(job.spec.depends_on):
        job.spec = replace(job.spec, depends_on=kept)
    return job
