"""One server: what it has, whether it takes jobs, and what of it is given away."""

from dataclasses import dataclass, field
from enum import StrEnum

from shunter.events.records import DERIVED
from shunter.events.values import ConfigurationSet, NodeName, Resources, Share


class Health(StrEnum):
    """Whether a server takes new jobs."""

    up = "up"
    unreachable = "unreachable"
    lost = "lost"
    removed = "removed"


_UP = Health.up  # members are slow to look up


@dataclass(slots=True)
class Server:
    """A server of the cluster.

    Bit i of a mask is GPU i. `decided` are the GPUs given to somebody by the last decisions,
    `held` those on which somebody still runs; the two differ while a job is being suspended.
    `quarantined` are the GPUs that misbehaved (why: `quarantine_causes`), `taken` those that others
    than this scheduler hold, with so many CPUs and so much memory. `beside_free` are the CPUs and
    memory that neither they hold nor anybody was given; below 0 where they have taken what was
    given away.
    """

    name: NodeName
    configuration: ConfigurationSet
    position: int
    health: Health = Health.up
    drained: bool = False
    quarantined: int = 0
    taken: int = 0
    taken_cpus_milli: int = 0
    taken_memory_mb: int = 0
    decided: int = field(default=0, metadata=DERIVED)
    held: int = field(default=0, metadata=DERIVED)
    beside_free: Resources = field(default_factory=Resources, metadata=DERIVED)
    quarantine_causes: dict[int, str] = field(default_factory=dict, compare=False, metadata=DERIVED)

    def __post_init__(self) -> None:
        self.beside_free = self.configuration.beside - self.taken_beside

    @property
    def is_up(self) -> bool:
        """Whether new jobs may be placed here."""
        return self.health is _UP and not self.drained

    @property
    def gpus_up(self) -> int:
        """How many of its GPUs work and take jobs, free or not."""
        return (self.all_gpus & ~self.unavailable).bit_count() if self.is_up else 0

    @property
    def unavailable(self) -> int:
        """The mask of the GPUs that no job is given: quarantined or taken."""
        return self.quarantined | self.taken

    @property
    def taken_beside(self) -> Resources:
        """The CPUs and memory that others than this scheduler hold."""
        return Resources(0, self.taken_cpus_milli, self.taken_memory_mb)

    @property
    def is_partly_taken(self) -> bool:
        """Whether others than this scheduler hold anything of it."""
        return bool(self.taken or self.taken_cpus_milli or self.taken_memory_mb)

    def take(self, gpu_mask: int, beside: Resources) -> None:
        """Set what others than this scheduler hold: GPUs, CPUs and memory."""
        self.beside_free = self.beside_free + self.taken_beside - beside
        self.taken = gpu_mask
        self.taken_cpus_milli, self.taken_memory_mb = beside.cpus_milli, beside.memory_mb

    @property
    def all_gpus(self) -> int:
        """The mask of all its GPUs."""
        return (1 << self.configuration.gpus) - 1

    @property
    def working_gpus(self) -> int:
        """The mask of the GPUs that take jobs, given away or not; 0: it is not up."""
        return self.all_gpus & ~self.unavailable if self.health is _UP else 0

    def lacks(self, share: Share) -> bool:
        """Say whether it has not all the GPUs of a share, or may not give them away."""
        return bool(share.gpu_mask >> self.configuration.gpus or share.gpu_mask & self.unavailable)

    def working(self, share: Share) -> Share:
        """Return a share without the GPUs that take no jobs any more."""
        mask = share.gpu_mask & ~self.unavailable
        return Share(share.node, mask, share.cpus_milli, share.memory_mb)

    @property
    def offered(self) -> int:
        """The mask of the GPUs that are free for new jobs."""
        if self.health is not _UP or self.drained:
            return 0
        return (1 << self.configuration.gpus) - 1 & ~(self.decided | self.quarantined | self.taken)
