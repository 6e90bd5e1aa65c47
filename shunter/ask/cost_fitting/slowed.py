"""By how much a live scheduler has counted too much work of jobs that their contracts slow down.

It takes all time at work for work at full speed. A simulated world counts such a job's time at the
speed that the contract says; of t seconds at speed s, t x (1 - s) are no work there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shunter.ask.cost_fitting.attempts import Observed, ObservedJob
from shunter.ask.cost_fitting.costs import Fitted, slowed_us
from shunter.ask.cost_fitting.paces import mean_speed
from shunter.events.values.ids import JobId


@dataclass(frozen=True)
class Slowed:
    """The jobs that were slower by their contracts, and the costs of their log."""

    jobs: Mapping[JobId, ObservedJob] = field(default_factory=dict)
    fitted: Fitted | None = None

    @property
    def assumed(self) -> tuple[str, ...]:
        """What is taken for granted of them, in sentences."""
        words = (
            "jobs worked as fast as their contracts say of their GPUs and of who ran beside them; "
            "curves that were learnt do not count"
        )
        return (words,) if self.jobs else ()

    def by_us(self, job_id: JobId, at_us: int) -> int:
        """Return how much of the time at work of a job up to an instant was no work."""
        job = self.jobs.get(job_id)
        return 0 if job is None or self.fitted is None else slowed_us(job, self.fitted, at_us)

    def speed(self, job_id: JobId, at_us: int) -> float:
        """Return how fast the attempt is that a job had begun last at an instant."""
        job = self.jobs.get(job_id)
        begun = [] if job is None else [each for each in job.attempts if each.started_us <= at_us]
        return mean_speed(begun[-1].paces, at_us, at_us) if begun else 1.0


NOT_SLOWED = Slowed()


def slowed_in(observed: Observed, fitted: Fitted) -> Slowed:
    """Return what a live log shows of that; in a simulated one speeds are told."""
    if observed.is_simulated:
        return NOT_SLOWED
    jobs = {
        job.job_id: job
        for job in observed.jobs
        if any(pace.speed != 1.0 for each in job.attempts for pace in each.paces)
    }
    return Slowed(jobs, fitted)
