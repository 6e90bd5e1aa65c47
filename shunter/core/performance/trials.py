"""What the state holds of trials: the mini-batches of jobs, what is being tried, what is known.

A mini-batch is measured anew after each change of what is beside a job: where the log tells its
speed (a simulation), once samples come at another one; else once somebody comes to its servers,
leaves them, stops or goes on there. Two samples after a change are left out: a job tells the mean
since it told last, so that what it told before the change may arrive after it, and what it tells
next reaches back before it.
"""

from dataclasses import replace

from shunter.events.facts import ProfileSampled
from shunter.events.records import fact
from shunter.events.values import NOTHING, Allocation, Batch, ChangeKey, GpuType, JobId, TrialKind

SAMPLES_BEFORE = 2
"""So many samples after a change may tell of what was before."""
SAMPLES_LEAST = 2
"""So many samples count before their mean does."""


@fact
class Pace:
    """The mini-batches of a job since something changed.

    `total_us` is the sum of all `seen` but those that may tell of what was before; `step` is that
    of the last one. The use of its GPUs is that of the last sample that told it: a part of the
    time, and MB. `speed` is that at which samples came, as the log tells it, `service_us` what the
    job had attained when something changed, in GPU-microseconds.
    """

    seen: int = 0
    total_us: int = 0
    gpu_utilisation: float | None = None
    gpu_memory_mb: int | None = None
    step: int | None = None
    speed: float = 1.0
    service_us: int = 0

    def sampled(self, batch_us: int, sample: ProfileSampled) -> "Pace":
        """Return it with a sample more, if the job has done anything since the last one."""
        if sample.step is not None and sample.step == self.step:
            return self
        used, memory_mb = sample.gpu_utilisation, sample.gpu_memory_mb
        return Pace(
            self.seen + 1,
            self.total_us + batch_us if self.seen >= SAMPLES_BEFORE else 0,
            self.gpu_utilisation if used is None else used,
            self.gpu_memory_mb if memory_mb is None else memory_mb,
            sample.step,
            self.speed,
            self.service_us,
        )

    def anew(self, service_us: int = 0) -> "Pace":
        """Return one without samples, which knows the last one when it comes once more."""
        return Pace(step=self.step, speed=self.speed, service_us=service_us)

    def at_speed(self, speed: float, service_us: int) -> "Pace":
        """Return it at a speed: anew, unless its samples had that, or it is 0."""
        if not speed or speed == self.speed:
            return self
        return Pace(
            gpu_utilisation=self.gpu_utilisation,
            gpu_memory_mb=self.gpu_memory_mb,
            step=self.step,
            speed=speed,
            service_us=service_us,
        )

    @property
    def batch_us(self) -> int | None:
        """The mean time of a mini-batch in microseconds; None: too few samples."""
        samples = self.seen - SAMPLES_BEFORE
        return max(1, self.total_us // samples) if samples >= SAMPLES_LEAST else None

    def batch_us_at(self, speed: float) -> int | None:
        """Return `batch_us`, unless it was measured at another speed; 0: between turns."""
        return self.batch_us if not speed or speed == self.speed else None


NO_PACE = Pace()


@fact
class MeasuredRate:
    """How far an attempt was at an instant, and how long its mini-batches took."""

    step: int
    batch_us: int
    at_us: int


@fact
class BestBatch:
    """The fastest mini-batch of a job on so many GPUs of a type, a mean of samples."""

    gpu_type: GpuType
    gpus: int
    batch_us: int


@fact
class Trial:
    """A change that is being tried.

    Attributes:
        kind: what is tried.
        key: what its verdict is remembered by.
        partners: the other jobs that it touches.
        started_us: when it began.
        sum_before: the sum of normalised rates as things were, in millionths.
        batches: the mini-batches that its jobs measured then.
        service_us: the service that each of them had then, in GPU-microseconds.
        origin: where a job was that has been moved.
        is_on: whether the jobs of a pack have had a turn together; until then it changed nothing.
    """

    kind: TrialKind
    key: ChangeKey
    partners: tuple[JobId, ...]
    started_us: int
    sum_before: int
    batches: tuple[Batch, ...]
    service_us: tuple[int, ...]
    origin: Allocation = NOTHING
    is_on: bool = False

    def begun(self) -> "Trial":
        """Return it as one whose pack has its turn."""
        return replace(self, is_on=True)


@fact
class KnownVerdict:
    """How the last trial of a change ended, with sums of rates in millionths."""

    is_loss: bool
    sum_before: int
    sum_after: int
