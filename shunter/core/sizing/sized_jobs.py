"""What a job and a server have while servers are sized: the state of one round, in plain numbers.

A round looks at a job many times: what it is guaranteed, could use and has is found once.
"""

from shunter.core.sizing.book import Bounds
from shunter.core.sizing.sizing_input import Shares
from shunter.events.values.ids import JobId
from shunter.events.values.job_spec import JobSpec
from shunter.events.values.resources import Resources


class Room:
    """What is left of a server, without what victims have yet to give back."""

    __slots__ = ("cpus_milli", "memory_mb")

    def __init__(self, left: Resources) -> None:
        self.cpus_milli, self.memory_mb = left.cpus_milli, left.memory_mb

    def has(self, resources: Resources) -> bool:
        """Say whether so much is left."""
        return resources.cpus_milli <= self.cpus_milli and resources.memory_mb <= self.memory_mb

    def take(self, resources: Resources) -> None:
        """Take so much of it; it may be short of that."""
        self.cpus_milli -= resources.cpus_milli
        self.memory_mb -= resources.memory_mb


class SizedJob:
    """A job where it runs or starts, all resources for each of its GPUs.

    Attributes:
        shares: its GPUs, with whatever it had or was placed with.
        least: what it keeps whatever happens.
        best: what makes it fastest; None: it is always of one size.
        before: what it had; nothing, if it starts.
        has: what it has now.
        rank: its place in the order of the policy; lower is first.
    """

    __slots__ = ("before", "best", "has", "job_id", "least", "rank", "shares", "spec")

    def __init__(
        self,
        job_id: JobId,
        spec: JobSpec,
        shares: Shares,
        bounds: Bounds,
        before: Resources,
        rank: int,
    ) -> None:
        self.job_id, self.spec, self.shares, self.rank = job_id, spec, shares, rank
        self.least, self.best = bounds.least, bounds.best
        self.before = self.has = before
