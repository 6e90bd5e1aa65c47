"""What the numbers of a rank count: for those who write ranks, and who read them in a log."""

from enum import StrEnum
from typing import Protocol, runtime_checkable


class Measure(StrEnum):
    """What one number of a rank counts.

    Times are in microseconds, unless the name says otherwise.
    `dominant_share` is in parts of `sizing.WHOLE`. `load` is that of a server, GPUs asked for over
    its own; the GPUs of a user, queue or group are those that a plan does not divide.
    """

    submission = "submission"
    level = "level"
    queue = "queue"
    entered_us = "entered_us"
    attained_gpu_us = "attained_gpu_us"
    duration_us = "duration_us"
    remaining_us = "remaining_us"
    remaining_gpu_us = "remaining_gpu_us"
    expected_gpu_us = "expected_gpu_us"
    gittins = "gittins"
    rho_step = "rho_step"
    gpus = "gpus"
    dominant_share = "dominant_share"
    cluster_ns = "cluster_ns"
    user_gpus = "user_gpus"
    queue_gpus = "queue_gpus"
    group_gpus = "group_gpus"
    load = "load"


@runtime_checkable
class Measured(Protocol):
    """An index or policy that says what its numbers count."""

    @property
    def measures(self) -> tuple[Measure, ...]:
        """What each number of a rank counts, in the order in which they are told."""
