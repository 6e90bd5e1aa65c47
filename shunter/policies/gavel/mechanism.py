"""The mechanism of Gavel: target fractions of time by gang and GPU type, and what each has got.

Narayanan et al., OSDI 2020, section 5. Any policy that yields target fractions can use it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from shunter.core.speeds import JobKind, ThroughputTable
from shunter.events import GpuType, JobId, fact

# A gang runs together in one place: one job, or two that share their GPUs.

Gang = tuple[JobId, ...]
Fractions = dict[Gang, dict[GpuType, float]]


@fact
class JobRequest:
    """A job that wants GPUs: its kind, its steps left, and since when.

    `deadline_s` is the time left until it should be done; `entity` is whose job it is. `rates` are
    what this very job does on each type, and go before the table; `on` is the type it has GPUs of.
    One that is to be `alone` shares GPUs with nobody.
    """

    job_id: JobId
    kind: JobKind
    left: int
    age_s: float = 0.0
    weight: float = 1.0
    deadline_s: float | None = None
    entity: str = ""
    rates: Mapping[GpuType, float] | None = None
    on: GpuType | None = None
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Demands:
    """All job requests by arrival, and what there is: whole GPUs of each type."""

    requests: tuple[JobRequest, ...]
    gpus: Mapping[GpuType, int]
    table: ThroughputTable

    def rate(self, request: JobRequest, gpu_type: GpuType) -> float:
        """Return the steps a second of a job alone; 0 where it cannot run."""
        if request.rates is not None:
            return request.rates.get(gpu_type, 0.0)
        return self.table.rate(gpu_type, request.kind) or 0.0


class Targets(Protocol):
    """An objective with what it remembers: a plain dataclass."""

    def fractions(self, demands: Demands) -> Fractions:
        """Return the fraction of time each gang should have on each GPU type.

        A gang without a row is not to run until the next computation.

        Raises:
            PlanError: there is no answer; the message says why.
        """


_NO_ROW: dict[GpuType, float] = {}


# Targets and receipts. Gangs are ordered by target fraction × time − received.
#
# Deviation: the paper (OSDI 2020, section 5) divides, and counts from zero at each computation.
# Where those are frequent, nothing would add up, so a window goes on over them; and in random
# instances of 40 jobs on 3 types ratios leave a job up to 12 rounds from its target, differences 3.


@dataclass(slots=True)
class Ledger:
    """Targets and receipts of the known gangs, in float seconds.

    Gangs stand in the order of arrival. Shares are counted of the time since a computation and of
    `window_s`, above 0, before it, in which everybody is taken to have received the new target,
    less what the old one still owed (half the window at most). `reset_s` is the least time between
    two computations. `is_dirty` says that something has changed since the last.
    """

    types: list[GpuType]
    window_s: float
    reset_s: float = 0.0
    received_s: dict[Gang, dict[GpuType, float]] = field(default_factory=dict)
    whole_s: dict[GpuType, float] = field(default_factory=dict)
    fractions: Fractions = field(default_factory=dict)
    reset_at_s: float | None = None
    is_dirty: bool = False

    def __post_init__(self) -> None:
        self.whole_s = self.whole_s or dict.fromkeys(self.types, 0.0)

    def know_types(self, types: list[GpuType]) -> None:
        """Count these types from now on; what was received of others is kept."""
        self.types = types
        self.whole_s = {name: self.whole_s.get(name, 0.0) for name in types}
        for row in self.received_s.values():
            for name in types:
                row.setdefault(name, 0.0)

    def add(self, gang: Gang) -> None:
        """Know a gang from now on; it has no targets before the next computation."""
        self.received_s[gang] = dict.fromkeys(self.types, 0.0)
        self.is_dirty = True

    def remove(self, *gone: JobId) -> None:
        """Forget jobs and all pairs with them."""
        if not gone:
            return
        names = frozenset(gone)
        for gang in [gang for gang in self.received_s if not names.isdisjoint(gang)]:
            del self.received_s[gang]
        self.is_dirty = True

    def credit(self, gang: Gang, gpu_type: GpuType, time_s: float) -> None:
        """Note the time a gang was on a type, once, however many GPUs it had there."""
        self.received_s[gang][gpu_type] += time_s

    def pass_time(self, now_s: float) -> None:
        """Let the time go on of which shares are counted."""
        since_s = now_s - (self.reset_at_s or 0.0)
        self.whole_s = dict.fromkeys(self.types, self.window_s + since_s)

    def is_due(self, now_s: float) -> bool:
        """Say whether new fractions are to be computed in a round that begins now."""
        last_s = self.reset_at_s
        return self.is_dirty and (last_s is None or now_s - last_s >= self.reset_s)

    def reset(self, fractions: Fractions, now_s: float) -> None:
        """Count on against new targets, as if the window had passed under them.

        What a gang was owed, or had too much, counts as far as it has a target there.
        """
        window_s = self.window_s
        elapsed_s = window_s + now_s - (self.reset_at_s or 0.0)
        for gang, received_s in self.received_s.items():
            old, new = self.fractions.get(gang, _NO_ROW), fractions.get(gang, _NO_ROW)
            for gpu_type in self.types:
                target = new.get(gpu_type, 0.0)
                owed_s = 0.0
                if gpu_type in old and target:
                    owed_s = old[gpu_type] * elapsed_s - received_s[gpu_type]
                owed_s = min(max(owed_s, -0.5 * window_s), 0.5 * window_s)
                received_s[gpu_type] = target * window_s - owed_s
        self.reset_at_s, self.fractions, self.is_dirty = now_s, fractions, False
        self.pass_time(now_s)

    def target(self, gang: Gang, gpu_type: GpuType) -> float:
        """Return the fraction a gang should have of a type."""
        return self.fractions.get(gang, _NO_ROW).get(gpu_type, 0.0)

    def share(self, gang: Gang, gpu_type: GpuType) -> float:
        """Return the fraction a gang has received of the time that counts.

        One that is not known has received nothing; nor has anybody of a type that is gone.
        """
        row, whole_s = self.received_s.get(gang), self.whole_s.get(gpu_type)
        return max(0.0, row[gpu_type]) / whole_s if row and whole_s else 0.0

    def owed(self, gang: Gang, gpu_type: GpuType) -> tuple[float, float]:
        """Return the seconds a gang is owed on a type, and its target there."""
        row = self.fractions.get(gang)
        target = row.get(gpu_type, 0.0) if row is not None else 0.0
        if target == 0:
            return 0.0, target
        return target * self.whole_s[gpu_type] - self.received_s[gang][gpu_type], target
