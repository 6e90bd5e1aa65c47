"""Which GPUs, CPUs and memory a job is given, and whether it has them to itself."""

from enum import StrEnum

from shunter.events.values.fact import value
from shunter.events.values.ids import NodeName
from shunter.events.values.resources import Resources


class Sharing(StrEnum):
    """Whether the GPUs of an allocation have other tenants."""

    exclusive = "exclusive"
    packed = "packed"
    sliced = "sliced"


def gpu_numbers(mask: int) -> list[int]:
    """Return the numbers of the GPUs in a mask, lowest first."""
    return [gpu for gpu in range(mask.bit_length()) if mask >> gpu & 1]


@value
class Share:
    """The part of an allocation on one server; bit i of `gpu_mask` is GPU i."""

    node: NodeName
    gpu_mask: int
    cpus_milli: int = 0
    memory_mb: int = 0

    @property
    def gpus(self) -> int:
        """How many GPUs it is."""
        return self.gpu_mask.bit_count()

    @property
    def beside(self) -> Resources:
        """Its CPUs and memory."""
        return Resources(0, self.cpus_milli, self.memory_mb)


@value
class Allocation:
    """What one job holds, server by server; no shares means nothing."""

    shares: tuple[Share, ...] = ()
    sharing: Sharing = Sharing.exclusive

    @property
    def gpus(self) -> int:
        """The number of GPUs in it."""
        shares = self.shares
        if len(shares) == 1:
            return shares[0].gpu_mask.bit_count()
        return sum([share.gpus for share in shares])

    @property
    def is_spread(self) -> bool:
        """Whether it is on several servers."""
        return len(self.shares) > 1

    def is_on_gpus_of(self, other: "Allocation") -> bool:
        """Say whether it is the same GPUs as another, whatever CPUs and memory."""
        if self.shares == other.shares:
            return True
        mine, others = ([(one.node, one.gpu_mask) for one in each.shares] for each in (self, other))
        return mine == others


NOTHING = Allocation()
