"""Waiting jobs with equal demands: interchangeable but for their rank."""

from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import dataclass, field

from shunter.core.cluster import Pool
from shunter.events.values.job_spec import Demand
from shunter.events.values.reasons import Reason


@dataclass(slots=True)
class WaitingClass:
    """The keys of one class in rank order; `number` is its place among all classes.

    `told` is the reason recorded last for the class. `barrier` is why no plan can help it while
    the cluster is as it is: too few GPUs of its type are up.
    """

    demand: Demand
    number: int
    gpus: int
    keys: list[int] = field(default_factory=list)
    told: Reason | None = None
    barrier: Reason | None = None

    def add(self, key: int) -> None:
        """Insert a waiting job."""
        insort(self.keys, key)

    def remove(self, key: int) -> None:
        """Take out a waiting job."""
        at = bisect_left(self.keys, key)
        assert self.keys[at] == key, "a waiting job is not where its key says"
        del self.keys[at]

    def look_at(self, pools: Mapping[str, Pool]) -> None:
        """Find out whether enough GPUs that it accepts are up."""
        names = self.demand.gpu_types or pools
        up = [pools[name].gpus_up for name in names if name in pools]
        if not up:
            self.barrier = Reason.gpu_type_unavailable
        else:
            self.barrier = Reason.node_lost if max(up) < self.gpus else None
