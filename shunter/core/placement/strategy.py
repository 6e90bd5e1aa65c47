"""What a placement strategy is: a search over the free GPUs of one pool."""

from collections.abc import Mapping
from typing import Protocol

from shunter.core.cluster import Pool
from shunter.events.values import Demand, JobSpec

Spot = tuple[int, int]  # a server's position in the pool, and how many of its GPUs

Messages = Mapping[str, tuple[int, int]]  # the largest message and all, in bytes, by model


class Classing(Protocol):
    """Tells gangs that must be on the fewest servers from those that may spread."""

    def is_tight(self, spec: JobSpec, messages: Messages) -> bool:
        """Say whether a job is one of the former, by what was measured up to now."""

    def is_skewed(self, model: str, messages: Messages) -> bool:
        """Say whether jobs of a model are, if they do not say otherwise themselves."""


class Placement(Protocol):
    """Decides on which servers a gang runs.

    `classing` is None where that depends on nothing but a job's demand.
    """

    @property
    def name(self) -> str:
        """Its name in configurations."""

    @property
    def classing(self) -> Classing | None:
        """What tells tight demands from others."""

    def spots(self, pool: Pool, demand: Demand) -> list[Spot] | None:
        """Return servers and GPU counts that meet the demand, or None."""

    def pick(self, pool: Pool, position: int, count: int, demand: Demand) -> int:
        """Return the mask of the GPUs that a demand takes on a server that was found."""
