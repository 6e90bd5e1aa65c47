"""The ranks of the first policies, written down as their papers say them; lower goes first."""

from collections.abc import Callable, Sequence

from shunter.core.state import Job
from shunter.core.view import View

Rank = Callable[[Job, View], int]


def by_submission(job: Job, view: View) -> int:
    """Fifo: nothing but the order of submission."""
    return 0


def by_duration(job: Job, view: View) -> int:
    """Sjf: the whole run time."""
    duration_us = view.duration_us(job)
    assert duration_us is not None, "every job of a trace has a run time"
    return duration_us


def by_remaining_time(job: Job, view: View) -> int:
    """Srtf: the part of the run time that is left, at base speed."""
    duration_us = view.duration_us(job)
    assert duration_us is not None, "every job of a trace has a run time"
    done_us = job.work_us
    if job.working_since_us is not None:
        done_us += int((view.now_us - job.working_since_us) * job.speed)
    return max(0, duration_us - done_us)


def by_service(bounds_gpu_us: Sequence[int]) -> Rank:
    """Las: the number of thresholds that the GPU time used has reached, or that time itself."""

    def rank(job: Job, view: View) -> int:
        used = job.service_gpu_us
        if job.since_us is not None:
            used += job.gpus * (view.now_us - job.since_us)
        return sum(used >= bound for bound in bounds_gpu_us) if bounds_gpu_us else used

    return rank
