"""How much work a job did, as its attempts in a log show: what it held without the overheads."""

from itertools import pairwise

from shunter.app.fitting.attempts import Attempt, Observed, ObservedJob
from shunter.app.fitting.costs import Fitted
from shunter.core.state import Outcome

__all__ = ["checkpoint_interval_us", "work_us"]

LEAST_US = 1
"""What a trace knows as work: a job without any is no job of it."""


def work_us(job: ObservedJob, observed: Observed, fitted: Fitted) -> int:
    """Return the work of a job that ran, in microseconds on the first GPU type.

    In a simulation that is the run time that its trace declared, or, if a time limit ended it,
    what it had done. Live it is the time at work in all attempts, without their start-ups and what
    was lost. A job that was shorter than a start-up takes did the least work there is.
    """
    if observed.is_simulated:
        is_whole = job.declared_us is not None and job.outcome is not Outcome.timeout
        return max(LEAST_US, (job.declared_us or 0) if is_whole else job.counted_us)
    speeds = fitted.speeds
    kept = (
        _kept_us(attempt, fitted) * speeds.get(attempt.gpu_type, 1.0) for attempt in job.attempts
    )
    return max(LEAST_US, round(sum(kept)))


def checkpoint_interval_us(job: ObservedJob) -> int | None:
    """Return how often a job saves: as it says itself, or else as it was seen."""
    if job.spec.checkpoint_interval_us is not None:
        return job.spec.checkpoint_interval_us
    gaps_us: list[int] = []
    for attempt in job.attempts:
        told_us = attempt.told_us
        saves_us = [at_us for at_us, _ in attempt.saves if told_us is None or at_us < told_us]
        gaps_us += [after - before for before, after in pairwise(saves_us)]
    return sorted(gaps_us)[len(gaps_us) // 2] if gaps_us else None


def _kept_us(attempt: Attempt, fitted: Fitted) -> int:
    """Return the time at work of one attempt that was not done again."""
    began_us = attempt.launched_us + fitted.start_up_us(attempt)
    until_us = attempt.worked_until_us
    if attempt.is_lost and not attempt.lost_us:  # a live log does not say how much was lost
        until_us = attempt.saves[-1][0] if attempt.saves else began_us
    if until_us is None:
        return 0
    return max(0, until_us - began_us - attempt.stopped_us - attempt.lost_us)
