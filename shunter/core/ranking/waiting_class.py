"""Waiting jobs with equal demands: interchangeable but for their rank.

Most jobs join at the end of their class and leave at its head. So what has left the head stays in
the list for a while, before `first`: moving thousands of keys at every start would cost more than
all the rest of a round.
"""

from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import dataclass, field

from shunter.core.cluster import Pool
from shunter.events.values.job_spec import Demand
from shunter.events.values.reasons import Reason


@dataclass(slots=True)
class WaitingClass:
    """The keys of one class in rank order, from `first` on.

    `number` is its place among all classes. `recorded` is the reason recorded last for the class.
    `barrier` is why no plan can help it while the cluster is as it is: too few GPUs of its type
    are up.
    """

    demand: Demand
    number: int
    gpus: int
    keys: list[int] = field(default_factory=list)
    first: int = 0
    recorded: Reason | None = None
    barrier: Reason | None = None

    def add(self, key: int) -> None:
        """Insert a waiting job."""
        keys = self.keys
        if not keys or key > keys[-1]:
            keys.append(key)
        else:
            insort(keys, key, self.first)

    def remove(self, key: int) -> None:
        """Take out a waiting job."""
        keys, first = self.keys, self.first
        if keys[first] != key:
            at = bisect_left(keys, key, first)
            assert keys[at] == key, "a waiting job is not where its key says"
            del keys[at]
            return
        self.first = first = first + 1
        if first + first >= len(keys):
            del keys[:first]
            self.first = 0

    @property
    def in_order(self) -> list[int]:
        """The keys of the jobs that wait, in rank order."""
        return self.keys[self.first :]

    @property
    def count(self) -> int:
        """How many jobs of the class wait."""
        return len(self.keys) - self.first

    def look_at(self, pools: Mapping[str, Pool]) -> None:
        """Find out whether enough GPUs that it accepts are up."""
        names = self.demand.gpu_types or pools
        up = [pools[name].gpus_up for name in names if name in pools]
        if not up:
            self.barrier = Reason.gpu_type_unavailable
        else:
            self.barrier = Reason.node_lost if max(up) < self.gpus else None
