"""How long a live job still needs: nobody declares run times there, so what is seen must do.

(total steps - step) x measured time of a mini-batch     if it says its steps and shows its pace
what is left of its time limit                           else, where it has one
nothing                                                  else: an oracle ranks it last
"""

from shunter.core.state import Job, State


def remaining_us(job: Job, now_us: int) -> int | None:
    """Return the time a job probably still needs, None where nothing is known of it.

    It falls as time passes while the job works, from the last sample on.
    """
    measured_rate, steps = job.measured_rate, job.spec.total_steps
    if measured_rate is not None and steps is not None:
        left_us = max(0, steps - measured_rate.step) * measured_rate.batch_us
        since_us = job.working_since_us
        worked_us = 0 if since_us is None else now_us - max(since_us, measured_rate.at_us)
        return max(0, left_us - worked_us)
    limit_us = job.spec.time_limit_us
    return None if limit_us is None else max(0, limit_us - job.occupied_us(now_us))


def is_by_limit(job: Job, state: State) -> bool:
    """Say whether nothing but its time limit tells how long a job still needs."""
    is_measured = job.measured_rate is not None and job.spec.total_steps is not None
    return not is_measured and job.job_id not in state.durations_us


def expected_us(job: Job, now_us: int) -> int:
    """Return the time a job is taken to need still.

    Where nothing is known it is as long as it has run: the usual guess for jobs of unknown length,
    few of which are long.
    """
    left_us = remaining_us(job, now_us)
    return job.occupied_us(now_us) if left_us is None else left_us


def total_us(job: Job) -> int | None:
    """Return the time a job probably needs in all, None where nothing is known of it."""
    measured_rate, steps = job.measured_rate, job.spec.total_steps
    if measured_rate is not None and steps is not None:
        return steps * measured_rate.batch_us
    return job.spec.time_limit_us
