"""A Slurm cluster as it is seen by its own commands: queue, nodes, partitions, submissions."""

from shunter.backends.slurm.answers import (
    NetworkSwitch,
    Partition,
    PastJob,
    QueuedJob,
    Reservation,
    SlurmNode,
)
from shunter.backends.slurm.commands import Slurm, Submitted

__all__ = [
    "NetworkSwitch",
    "Partition",
    "PastJob",
    "QueuedJob",
    "Reservation",
    "Slurm",
    "SlurmNode",
    "Submitted",
]
