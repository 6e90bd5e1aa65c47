"""Least attained service: who has used the fewest GPU-seconds goes first.

Two-dimensional (GPUs x time) and discretised: a job falls to the next queue when its service
reaches a threshold, and queues are served in order, each by submission (Gu et al., Tiresias, NSDI
2019, section 3.2). Without thresholds the rank is the service itself, which changes all the time:
every running job is then ranked again at every round.

Deviation: the thresholds are our default of one and twenty GPU-hours; the paper leaves them open.
"""

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise

from pydantic import Field, field_validator

from shunter.core import Job, View
from shunter.core.planning import Placement
from shunter.core.ranking import IndexDefaults, Measure, RankedPolicy
from shunter.policies.params import Duration, PolicyParams


@dataclass(frozen=True)
class AttainedService(IndexDefaults):
    """Ranks jobs by the queue of their attained service; bounds in GPU-microseconds."""

    bounds_gpu_us: tuple[int, ...]
    name: str = "las"

    @property
    def measures(self) -> tuple[Measure, ...]:
        """What its numbers count."""
        return (Measure.queue if self.bounds_gpu_us else Measure.attained_gpu_us,)

    def standing(self, job: Job, view: View) -> tuple[int, int | None]:
        """Return the number of thresholds passed, and when the next one is.

        Without thresholds, the service itself, which changes while the job holds GPUs.
        """
        service_us, gpus, bounds = job.service_gpu_us, job.gpus, self.bounds_gpu_us
        if job.since_us is not None:
            service_us += gpus * (view.now_us - job.since_us)
        if not bounds:
            return service_us, view.now_us + 1 if gpus else None
        queue = bisect_right(bounds, service_us)
        if not gpus or queue == len(bounds):
            return queue, None
        return queue, view.now_us - (service_us - bounds[queue]) // gpus


class LasParams(PolicyParams):
    """The queues of discretised least attained service."""

    queues_gpu_s: tuple[Duration, ...] = Field(
        default=(3_600_000_000, 72_000_000_000),
        description="attained service at which a job falls to the next queue, in GPU-seconds "
        "(or written '1h'), strictly rising; an empty list ranks by the service itself",
    )

    @field_validator("queues_gpu_s")
    @classmethod
    def _rises(cls, bounds: tuple[int, ...]) -> tuple[int, ...]:
        if any(above <= below for below, above in pairwise((0, *bounds))):
            raise ValueError(
                "expected thresholds above 0 that strictly rise, such as ['1h', '20h']"
            )
        return bounds

    @property
    def needs_rounds(self) -> str:
        """Why it decides in rounds only: without queues, service changes all the time."""
        if self.queues_gpu_s:
            return ""
        return (
            "las with queues_gpu_s = [] ranks by the service itself, which changes all the time: "
            "expected policy.trigger = 'round', or thresholds such as ['1h', '20h']"
        )


class Las:
    """Least attained GPU service, discretised into queues."""

    name = "las"
    oracle = False
    Params = LasParams

    @staticmethod
    def build(params: LasParams, placement: Placement) -> RankedPolicy:
        """Return the policy."""
        return RankedPolicy(AttainedService(params.queues_gpu_s), placement)
