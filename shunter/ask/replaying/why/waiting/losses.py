"""Why those for whom a job was preempted had no GPUs any more: a pilot ended, a server was lost.

An order to Slurm, such as the scancel of one pilot, moves its jobs, and these preempt others.
"""

from shunter.ask.replaying.instants import clock
from shunter.ask.replaying.why.timeline import Run
from shunter.events.facts.decisions import AllocationChanged, is_preemption
from shunter.events.facts.execution import AttemptLost, JobSuspended
from shunter.events.log import LogReader
from shunter.events.values.ids import JobId

GAINERS_ASKED = 8


async def losses_before(reader: LogReader, runs: list[Run]) -> list[str]:
    """Return for whom the last attempt was preempted that had lost its own GPUs.

    Each in words, with when and by what; none: it was not preempted, or nobody had.
    """
    last = next((run.ended_by for run in reversed(runs) if run.ended_by is not None), None)
    if last is None or not isinstance(last.event, AllocationChanged):
        return []
    if not is_preemption(last.event):
        return []
    found = []
    for job_id in last.event.because.beneficiaries[:GAINERS_ASKED]:
        loss = await _loss(reader, job_id, last.seq, last.event.at_us)
        if loss is not None:
            found.append(f"{job_id} had lost its own GPUs at {clock(loss.at_us)}: {loss.cause}")
    return found


async def _loss(
    reader: LogReader, job_id: JobId, seq: int, at_us: int
) -> JobSuspended | AttemptLost | None:
    """Return what a job lost its GPUs by before an event; None: by nobody outside."""
    found: JobSuspended | AttemptLost | None = None
    for _, event in await reader.job_events(job_id, seq):
        if isinstance(event, JobSuspended | AttemptLost):
            found = event if event.cause else None
        elif isinstance(event, AllocationChanged) and event.at_us < at_us:
            found = None  # it was given others, or a plan took them
    return found
