"""The thresholds of multi-level feedback queues, as parameters that several policies share."""

from itertools import pairwise
from typing import Self

from pydantic import Field, field_validator, model_validator

from shunter.policies.params import Duration, PolicyParams


class QueueParams(PolicyParams):
    """The queues of a policy that demotes jobs by what they have used."""

    queues_gpu_s: tuple[Duration, ...] = Field(
        default=(3_600_000_000, 72_000_000_000),
        description="attained service at which a job falls to the next queue, in GPU-seconds "
        "(or written '1h'), strictly rising",
    )
    queues: int | None = Field(
        default=None,
        ge=1,
        description="how many queues there are: one more than thresholds; only a check",
    )

    @field_validator("queues_gpu_s")
    @classmethod
    def _rises(cls, bounds: tuple[int, ...]) -> tuple[int, ...]:
        if any(above <= below for below, above in pairwise((0, *bounds))):
            raise ValueError(
                "expected thresholds above 0 that strictly rise, such as ['1h', '20h']"
            )
        return bounds

    @model_validator(mode="after")
    def _counts(self) -> Self:
        expected = len(self.queues_gpu_s) + 1
        if self.queues is not None and self.queues != expected:
            raise ValueError(
                f"queues: {self.queues} queues need {self.queues - 1} thresholds, "
                f"but queues_gpu_s has {expected - 1}"
            )
        return self
