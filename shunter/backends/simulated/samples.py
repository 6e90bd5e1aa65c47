"""What is measured of jobs that run: how far they are, how long a mini-batch takes, what it uses.

A live job tells the first two through the SDK. Here both are known, and how much of a GPU and of
its memory a job uses if the table of factors says it; what is measured of a mini-batch is its true
time times exp(noise x z), with z a standard normal number by Box and Muller (Annals of Mathematical
Statistics 29(2), 1958), drawn from a stream of the attempt and the instant alone.
"""

from collections.abc import Callable
from math import cos, exp, log, pi, sqrt
from typing import Final

from shunter.backends.simulated.work import Run, Work
from shunter.core.rng import RandomStream
from shunter.core.speeds.speed_model import FactorTable, ModelFactors
from shunter.events.facts.profiles import ProfileSampled
from shunter.events.values.fact import fact
from shunter.events.values.ids import JobId


@fact
class SampleDue:
    """A sample of an attempt that is still to come, unless it is stopped before."""

    attempt: int
    stops: int


@fact
class Samples:
    """How often jobs are measured (0: never), and how inexactly.

    `noise` is the standard deviation of the logarithm of a measured time over the true one.
    """

    every_us: int = 0
    noise: float = 0.0
    seed: int = 0

    def taken(
        self,
        at_us: int,
        job_id: JobId,
        run: Run,
        left: int,
        batch_s: float,
        factors: ModelFactors | None,
    ) -> ProfileSampled:
        """Return what is measured of a job now; steps, where it counts them.

        Args:
            at_us: the instant.
            job_id: the job.
            run: its attempt.
            left: the units that it has left, of those of its step rate.
            batch_s: the time of a mini-batch, in seconds.
            factors: what is known of its use of GPUs, if anything is.
        """
        used = None if factors is None else factors.gpu_utilisation
        memory_mb = None if factors is None else factors.gpu_memory_mb
        units, steps = run.step_rate.units, run.task.spec.total_steps
        done = None if steps is None else steps * (units - left) // units if units else steps
        if self.noise:
            batch_s *= exp(self.noise * _normal(RandomStream(self.seed, "samples", job_id, at_us)))
        return ProfileSampled(at_us, job_id, run.attempt, done, batch_s, used, memory_mb)


class Sampler:
    """Measures the attempts of a simulated world at a steady pace.

    `enter` foresees something of a job: (instant, job, what).
    """

    __slots__ = ("_enter", "_factors", "_samples", "_work")

    def __init__(
        self,
        samples: Samples,
        work: Work,
        enter: Callable[[int, JobId, object], None],
        factors: FactorTable | None,
    ) -> None:
        self._factors = factors
        self._samples = samples
        self._work = work
        self._enter = enter

    def measured(self, job_id: JobId, at_us: int) -> list[ProfileSampled]:
        """Return what is measured of an attempt now; foresee its next sample."""
        work, run = self._work, self._work.runs[job_id]
        batch_s = work.batch_s(job_id, run)
        self.foresee(job_id, run, at_us)
        if batch_s is None:
            return []
        left, table = work.left(run, at_us), self._factors
        factors = None if table is None else table.of(run.task.spec.model)
        return [self._samples.taken(at_us, job_id, run, left, batch_s, factors)]

    def foresee(self, job_id: JobId, run: Run, at_us: int) -> None:
        """Foresee the next sample of an attempt that will end and is measured."""
        every_us = self._samples.every_us
        if every_us and run.end_us is not None and self._work.batch_s(job_id, run) is not None:
            self._enter(at_us + every_us, job_id, SampleDue(run.attempt, run.stops))


def _normal(rng: RandomStream) -> float:
    """Return a number of the standard normal distribution."""
    return sqrt(-2.0 * log(1.0 - rng.random())) * cos(2.0 * pi * rng.random())


NO_SAMPLES: Final = Samples()
