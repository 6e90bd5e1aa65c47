"""Equal parts of everything: what each job would have if nobody knew how fast it is where.

Narayanan et al., OSDI 2020, section 4: the isolated share is the yardstick of sharing incentive.
"""

from dataclasses import dataclass

from shunter.events.values.ids import GpuType
from shunter.policies.gavel.mechanism.targets import Fractions, Gang, Wanted

__all__ = ["Isolated", "Proportional"]


@dataclass(slots=True)
class Isolated:
    """An equal part of each type's GPUs for each job, in time of its whole gang."""

    def fractions(self, wanted: Wanted) -> Fractions:
        """Return N_j / (m s_i), over the sum of the row where that is more than 1."""
        jobs = len(wanted.claims)
        found: dict[Gang, dict[GpuType, float]] = {}
        for claim in wanted.claims:
            row = {name: many / jobs / claim.kind.gpus for name, many in wanted.gpus.items()}
            whole = max(sum(row.values()), 1.0)
            found[(claim.job_id,)] = {name: part / whole for name, part in row.items()}
        return found


@dataclass(slots=True)
class Proportional:
    """All of the time, over the types as their GPUs are."""

    def fractions(self, wanted: Wanted) -> Fractions:
        """Return N_j / N."""
        whole = sum(wanted.gpus.values())
        row = {name: many / whole for name, many in wanted.gpus.items()}
        return {(claim.job_id,): dict(row) for claim in wanted.claims}
