"""A second simulator of first-in-first-out, in forty lines, from the words of the issue alone.

GPUs are one pool; a job starts when enough are free. Decisions at every arrival and every end,
ends before arrivals. It shares no code with Shunter but the trace.
"""

from collections.abc import Sequence
from heapq import heappop, heappush

from shunter.workloads import TraceJob


def finish_times_us(jobs: Sequence[TraceJob], gpus: int, *, skips: bool) -> dict[str, int]:
    """Return when each job ends; with `skips`, later jobs may pass one that does not fit."""
    waiting: list[TraceJob] = []
    ends: list[tuple[int, int, int]] = []
    finished: dict[str, int] = {}
    arrived, free = 0, gpus
    while arrived < len(jobs) or ends:
        next_arrival = jobs[arrived].submit_us if arrived < len(jobs) else None
        now = ends[0][0] if ends else next_arrival
        if next_arrival is not None and (now is None or next_arrival < now):
            now = next_arrival
        assert now is not None
        while ends and ends[0][0] == now:
            free += heappop(ends)[2]
        while arrived < len(jobs) and jobs[arrived].submit_us == now:
            waiting.append(jobs[arrived])
            arrived += 1
        left: list[TraceJob] = []
        for place, job in enumerate(waiting):
            if job.spec.gpus <= free:
                free -= job.spec.gpus
                finished[job.job_id] = now + job.duration_us
                heappush(ends, (now + job.duration_us, len(finished), job.spec.gpus))
            elif skips:
                left.append(job)
            else:
                left = waiting[place:]
                break
        waiting = left
    return finished
