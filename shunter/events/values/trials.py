"""What is tried of a change, measured in it and remembered of it."""

from enum import StrEnum

from shunter.events.values.fact import value
from shunter.events.values.ids import GpuType, JobId

MILLION = 1_000_000
"""One, in the whole millionths in which normalised rates are counted."""

SUM_MOST = 1_000_000
"""A sum of normalised rates is below this."""


class TrialKind(StrEnum):
    """What is tried: two jobs on the same GPUs at once, or one job elsewhere."""

    pack = "pack"
    migrate = "migrate"


class TrialReason(StrEnum):
    """Why a trial ended as it did, or what was kept was given up."""

    gained = "gained"
    no_loss = "no_loss"
    lost = "lost"
    no_way_back = "no_way_back"
    cost_not_met = "cost_not_met"
    no_progress = "no_progress"
    not_measured = "not_measured"
    room = "room"


KEPT = frozenset(
    (
        *(TrialReason.gained, TrialReason.no_loss),
        *(TrialReason.cost_not_met, TrialReason.no_way_back),
    )
)
"""Why what was tried stays.

What gained less than it cost is not undone at the same cost again, and what lost stays where others
have taken the GPUs of before.
"""

LOSSES = frozenset(
    (
        *(TrialReason.lost, TrialReason.no_way_back),
        *(TrialReason.cost_not_met, TrialReason.no_progress),
    )
)
"""What says that a change does not help. Nothing measured says nothing."""


@value
class ChangeKey:
    """What verdicts go by: the change, the models in order, the type of GPU."""

    change: str
    models: tuple[str, ...]
    gpu_type: GpuType


@value
class Batch:
    """How long a mini-batch of a job takes, in microseconds."""

    job_id: JobId
    batch_us: int
