"""Running jobs in rank order, under one bound: the GPUs of a pool, or a queue's quota.

Planning only reads: how many GPUs are held by jobs ranked after a given one is a bisection and
the sum of the shorter side of a list of small integers.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

from shunter.core.ranking.keys import LAST


@dataclass(slots=True)
class RankedUsage:
    """Keys of running jobs in order, and their GPU counts beside them."""

    keys: list[int] = field(default_factory=list)
    gpus: list[int] = field(default_factory=list)
    total: int = 0

    def add(self, key: int, gpus: int) -> None:
        """Insert a running job."""
        keys = self.keys
        at = bisect_left(keys, key)
        keys.insert(at, key)
        self.gpus.insert(at, gpus)
        self.total += gpus

    def remove(self, key: int) -> None:
        """Take out a running job."""
        keys = self.keys
        at = bisect_left(keys, key)
        assert keys[at] == key, "a running job is not where its key says"
        del keys[at]
        self.total -= self.gpus.pop(at)

    def after(self, key: int) -> int:
        """Return how many GPUs the jobs ranked after a key hold."""
        return self.tail(key)[0]

    def tail(self, key: int) -> tuple[int, int]:
        """Return how many GPUs the jobs ranked after a key hold, and the first one's key."""
        at, count = bisect_right(self.keys, key), len(self.keys)
        if at == count:
            return 0, LAST
        if at + at > count:
            return sum(self.gpus[at:]), self.keys[at]
        return self.total - sum(self.gpus[:at]), self.keys[at]

    def first_misfit(self, after: int, upto: int, short: int) -> int:
        """Return the key of the first job in (after, upto] that does not fit.

        Going from the first to the last with the GPUs that are left, some do not fit, because
        `short` GPUs are missing for all of them. The first one that does not is the first with
        less than `short` GPUs behind it.
        """
        low, at = bisect_right(self.keys, after), bisect_right(self.keys, upto) - 1
        assert low <= at, "GPUs are short, but no running job has any"
        behind = 0
        while at > low and behind + self.gpus[at] < short:
            behind += self.gpus[at]
            at -= 1
        return self.keys[at]
