"""A Slurm cluster as it is seen by its own commands: queue, nodes, partitions, submissions."""

from shunter.backends.slurm.commands import Slurm, Submitted
from shunter.backends.slurm.records import (
    Partition,
    PastJob,
    QueuedJob,
    Reservation,
    SlurmNode,
    Switch,
)

__all__ = [
    "Partition",
    "PastJob",
    "QueuedJob",
    "Reservation",
    "Slurm",
    "SlurmNode",
    "Submitted",
    "Switch",
]
