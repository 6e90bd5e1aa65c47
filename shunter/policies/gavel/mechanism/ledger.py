"""What every gang was to get of each GPU type, and what it has got since that was computed.

The priority of a gang on a type is its target fraction over the fraction it received (section 5);
whoever is furthest behind its target comes first. A deficit, carried over from one computation to
the next, decides between equal priorities.
"""

from dataclasses import dataclass, field

from shunter.events.values.ids import GpuType, JobId
from shunter.policies.gavel.mechanism.rules import CORRECTED, Rules
from shunter.policies.gavel.mechanism.targets import Fractions, Gang

__all__ = ["Ledger", "priority"]

UNSERVED = 1e9  # over a fraction, for who has received nothing yet
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
    rules: Rules = CORRECTED
    received_s: dict[Gang, dict[GpuType, float]] = field(default_factory=dict)
    whole_s: dict[GpuType, float] = field(default_factory=dict)
    deficit_s: dict[Gang, dict[GpuType, float]] = field(default_factory=dict)
    fractions: Fractions = field(default_factory=dict)
    reset_at_s: float | None = None
    is_dirty: bool = False

    def __post_init__(self) -> None:
        self.whole_s = self.whole_s or dict.fromkeys(self.types, 0.0)

    def know_types(self, types: list[GpuType]) -> None:
        """Count these types from now on; what was received of others is kept."""
        self.types = types
        self.whole_s = {name: self.whole_s.get(name, 0.0) for name in types}
        for rows in (self.received_s, self.deficit_s):
            for row in rows.values():
                for name in types:
                    row.setdefault(name, 0.0)

    def add(self, gang: Gang) -> None:
        """Know a gang from now on; it has no targets before the next computation."""
        seed_s = self.rules.seed_s if len(gang) == 1 else self.rules.pair_seed_s
        self.received_s[gang] = dict.fromkeys(self.types, seed_s)
        self.deficit_s[gang] = dict.fromkeys(self.types, 0.0)
        self.is_dirty = True

    def remove(self, *gone: JobId) -> None:
        """Forget jobs and all pairs with them."""
        if not gone:
            return
        names = frozenset(gone)
        for gang in [gang for gang in self.received_s if not names.isdisjoint(gang)]:
            del self.received_s[gang], self.deficit_s[gang]
        self.is_dirty = True

    def credit(self, gang: Gang, gpu_type: GpuType, time_s: float) -> None:
        """Note the time a gang was on a type, once, however many GPUs it had there."""
        self.received_s[gang][gpu_type] += time_s
        if not self.rules.window_s:
            self.whole_s[gpu_type] += time_s

    def pass_time(self, now_s: float) -> None:
        """Let the time go on of which shares are counted, where it is that of the clock."""
        if self.rules.window_s:
            since_s = now_s - (self.reset_at_s or 0.0)
            self.whole_s = dict.fromkeys(self.types, self.rules.window_s + since_s)

    def is_due(self, now_s: float) -> bool:
        """Say whether new fractions are to be computed in a round that begins now."""
        if not self.is_dirty:
            return False
        last_s = self.reset_at_s
        if last_s is None or (self.rules.zero_is_never and last_s == 0):
            return True
        return now_s - last_s >= self.rules.reset_s

    def forget_reset(self) -> None:
        """Let the next computation come at once."""
        self.reset_at_s = None

    def reset(self, fractions: Fractions, now_s: float) -> None:
        """Count anew against new targets; what was not received is carried over."""
        if self.rules.window_s:
            self._carry_on(fractions, now_s)
            return
        elapsed_s = now_s - (self.reset_at_s or 0.0)
        seed_s = self.rules.seed_s
        for gpu_type in self.types:
            whole_s = 0.0
            for gang, received_s in self.received_s.items():
                should_s = self.target(gang, gpu_type) * elapsed_s
                self.deficit_s[gang][gpu_type] += should_s - (received_s[gpu_type] - seed_s)
                received_s[gpu_type] = seed_s
                whole_s += seed_s
            self.whole_s[gpu_type] = whole_s
        self.reset_at_s = now_s
        self.fractions = fractions
        self.is_dirty = False

    def _carry_on(self, fractions: Fractions, now_s: float) -> None:
        """Count on against new targets, as if the window had passed under them.

        What a gang was owed, or had too much, counts as far as it has a target there.
        """
        window_s = self.rules.window_s
        elapsed_s = window_s + now_s - (self.reset_at_s or 0.0)
        for gang, received_s in self.received_s.items():
            old, new = self.fractions.get(gang, _NO_ROW), fractions.get(gang, _NO_ROW)
            for gpu_type in self.types:
                target = new.get(gpu_type, 0.0)
                owed_s = 0.0
                if gpu_type in old and target:
                    owed_s = old[gpu_type] * elapsed_s - received_s[gpu_type]
                self.deficit_s[gang][gpu_type] = owed_s
                owed_s = min(max(owed_s, -0.5 * window_s), 0.5 * window_s)
                received_s[gpu_type] = target * window_s - owed_s
        self.reset_at_s, self.fractions, self.is_dirty = now_s, fractions, False
        self.pass_time(now_s)

    def target(self, gang: Gang, gpu_type: GpuType) -> float:
        """Return the fraction a gang should have of a type."""
        return self.fractions.get(gang, _NO_ROW).get(gpu_type, 0.0)

    def share(self, gang: Gang, gpu_type: GpuType) -> float:
        """Return the fraction a gang has received of the time all gangs were on a type.

        One that is not known has received nothing; nor has anybody of a type that is gone.
        """
        row, whole_s = self.received_s.get(gang), self.whole_s.get(gpu_type)
        return max(0.0, row[gpu_type]) / whole_s if row and whole_s else 0.0

    def rank(self, gang: Gang, gpu_type: GpuType) -> tuple[float, float, float]:
        """Return what gangs that can run on a type are ordered by, the highest first.

        The priority, the deficit and the target; within a window, the time that is owed instead of
        the priority.
        """
        row = self.fractions.get(gang)
        target = row.get(gpu_type, 0.0) if row is not None else 0.0
        deficit_s = self.deficit_s[gang][gpu_type]
        if target == 0:
            return 0.0, deficit_s, target
        received_s = self.received_s[gang][gpu_type]
        if self.rules.window_s:
            return target * self.whole_s[gpu_type] - received_s, 0.0, target
        return priority(target, received_s, self.whole_s[gpu_type]), deficit_s, target
