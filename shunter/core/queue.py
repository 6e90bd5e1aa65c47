"""A queue of the cluster, as the state has it."""

from dataclasses import dataclass, field

from shunter.events.records import DERIVED
from shunter.events.values import QueueName


@dataclass(slots=True)
class Queue:
    """A queue: hard GPU quota (None: no bound), weight, GPUs decided to its jobs."""

    name: QueueName
    quota_gpus: int | None = None
    weight: float = 1.0
    users: tuple[str, ...] = ()
    gpus: int = field(default=0, metadata=DERIVED)
