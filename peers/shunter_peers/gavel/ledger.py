"""What every gang was to get of each GPU type, and what it has got, as the public simulator counts.

The priority of a gang on a type is its target fraction over the fraction it received (OSDI 2020,
section 5); whoever is furthest behind its target comes first. A deficit, carried over from one
computation to the next, decides between equal priorities. What is odd is the simulator's: each
count begins with half a round for every job, an instant of 0 s is taken for "never", and new
fractions wait for 1920 s, in which jobs without any take room in which nobody runs.
"""

from dataclasses import dataclass, field
from typing import Final

from shunter.events import GpuType, JobId
from shunter.policies.gavel import Fractions, Gang

RESET_S: Final = 1920.0
SEED_S: Final = 180.0
UNSERVED: Final = 1e9  # over a fraction, for who has received nothing yet
_NO_ROW: dict[GpuType, float] = {}


def priority(target: float, received_s: float, whole_s: float) -> float:
    """Return the priority of a gang on a GPU type.

    Args:
        target: the fraction of time it should have there.
        received_s: the time it was there.
        whole_s: the time all gangs were there, each counted by itself.

    Source: Narayanan et al., OSDI 2020, section 5.
    """
    share = received_s / whole_s if whole_s else 0.0
    return target / share if share else target * UNSERVED


@dataclass(slots=True)
class Ledger:
    """Targets and receipts of the known gangs, in float seconds.

    Gangs stand in the order of arrival. `is_dirty` says that something has changed since the
    fractions were computed.
    """

    types: list[GpuType]
    received_s: dict[Gang, dict[GpuType, float]] = field(default_factory=dict)
    whole_s: dict[GpuType, float] = field(default_factory=dict)
    deficit_s: dict[Gang, dict[GpuType, float]] = field(default_factory=dict)
    fractions: Fractions = field(default_factory=dict)
    reset_at_s: float | None = None
    is_dirty: bool = False

    def __post_init__(self) -> None:
        self.whole_s = self.whole_s or dict.fromkeys(self.types, 0.0)

    def add(self, gang: Gang) -> None:
        """Know a gang from now on; it has no targets before the next computation."""
        self.received_s[gang] = dict.fromkeys(self.types, SEED_S if len(gang) == 1 else 0.0)
        self.deficit_s[gang] = dict.fromkeys(self.types, 0.0)
        self.is_dirty = True

    def remove(self, job_id: JobId) -> None:
        """Forget a job and all pairs with it."""
        for gang in [gang for gang in self.received_s if job_id in gang]:
            del self.received_s[gang], self.deficit_s[gang]
        self.is_dirty = True

    def credit(self, gang: Gang, gpu_type: GpuType, time_s: float) -> None:
        """Note the time a gang was on a type, once, however many GPUs it had there."""
        self.received_s[gang][gpu_type] += time_s
        self.whole_s[gpu_type] += time_s

    def is_due(self, now_s: float) -> bool:
        """Say whether new fractions are to be computed in a round that begins now."""
        return self.is_dirty and (not self.reset_at_s or now_s - self.reset_at_s >= RESET_S)

    def forget_reset(self) -> None:
        """Let the next computation come at once."""
        self.reset_at_s = None

    def reset(self, fractions: Fractions, now_s: float) -> None:
        """Count anew against new targets; what was not received is carried over."""
        elapsed_s = now_s - (self.reset_at_s or 0.0)
        for gpu_type in self.types:
            whole_s = 0.0
            for gang, received_s in self.received_s.items():
                should_s = self.target(gang, gpu_type) * elapsed_s
                self.deficit_s[gang][gpu_type] += should_s - (received_s[gpu_type] - SEED_S)
                received_s[gpu_type] = SEED_S
                whole_s += SEED_S
            self.whole_s[gpu_type] = whole_s
        self.reset_at_s = now_s
        self.fractions = fractions
        self.is_dirty = False

    def target(self, gang: Gang, gpu_type: GpuType) -> float:
        """Return the fraction a gang should have of a type."""
        return self.fractions.get(gang, _NO_ROW).get(gpu_type, 0.0)

    def share(self, gang: Gang, gpu_type: GpuType) -> float:
        """Return the fraction a gang has received of the time all gangs were on a type."""
        row, whole_s = self.received_s.get(gang), self.whole_s.get(gpu_type)
        return row[gpu_type] / whole_s if row and whole_s else 0.0

    def rank(self, gang: Gang, gpu_type: GpuType) -> tuple[float, float, float]:
        """Return what gangs that can run on a type are ordered by, the highest first.

        The priority, the deficit and the target.
        """
        row = self.fractions.get(gang)
        target = row.get(gpu_type, 0.0) if row is not None else 0.0
        deficit_s = self.deficit_s[gang][gpu_type]
        if target == 0:
            return 0.0, deficit_s, target
        received_s = self.received_s[gang][gpu_type]
        return priority(target, received_s, self.whole_s[gpu_type]), deficit_s, target
