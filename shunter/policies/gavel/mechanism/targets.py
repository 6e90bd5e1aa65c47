"""What the mechanism asks of an objective: fractions of time by gang and GPU type.

A gang is what runs together in one place: one job, or two that share their GPUs, each job with all
of its GPUs or not at all.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from shunter.core.throughputs import ThroughputTable
from shunter.core.view import View
from shunter.events.values.ids import GpuType, JobId

__all__ = ["Fractions", "Gang", "Targets"]

Gang = tuple[JobId, ...]
Fractions = Mapping[Gang, Mapping[GpuType, float]]


class Targets(Protocol):
    """An objective, solved: from jobs, throughputs and cluster to fractions."""

    @property
    def name(self) -> str:
        """Its name in configuration and log."""

    def start(self) -> Any:
        """Return what it remembers from one computation to the next, before the first."""

    def fractions(self, view: View, table: ThroughputTable, memory: Any) -> Fractions:
        """Return the fraction of time each gang should have on each GPU type.

        A gang without a row is not to run until the next computation.
        """
