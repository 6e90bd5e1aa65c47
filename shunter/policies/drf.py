"""Dominant resource first: the job that demands the smallest part of the cluster goes first.

A job's dominant share is the largest part that it demands of all GPUs, all CPUs or all memory
(Ghodsi et al., Dominant Resource Fairness, NSDI 2011, section 4), of its whole demand and not of
what it holds, as Synergy orders single jobs by it (Mohan et al., OSDI 2022, section 5).

Deviation: DRF of its paper divides a cluster across users, by what each holds. Here each job is
ranked by itself.
"""

from dataclasses import dataclass, field, replace

from shunter.core.planning.placement import Placement
from shunter.core.ranking import Measure, Misfit, RankedPolicy
from shunter.core.sizing import Demands
from shunter.core.speeds.sensitivity import SensitivityTable
from shunter.core.state import Job
from shunter.core.view import View
from shunter.policies.params import PolicyParams

RANK_MOST = (1 << 59) - 1
"""A demand so far beyond the cluster never fits; it ranks here, whatever it is."""


@dataclass(frozen=True)
class DominantShare:
    """Ranks jobs by their dominant share, in parts of `sizing.WHOLE`."""

    demands: Demands = field(default_factory=Demands)
    name: str = "drf"
    version: str = "1"
    oracle: bool = False
    preemptive: bool = True
    drifts: bool = False
    wanders: bool = False
    misfit: Misfit = Misfit.skipped
    is_relative: bool = True

    @property
    def measures(self) -> tuple[Measure, ...]:
        """What its numbers count."""
        return (Measure.dominant_share,)

    def knowing(self, table: SensitivityTable) -> "DominantShare":
        """Return the index by the demands of a table."""
        return replace(self, demands=Demands(table))

    def standing(self, job: Job, view: View) -> tuple[int, int | None]:
        """Return the dominant share, which changes with the servers of the cluster only."""
        return min(RANK_MOST, max(self.demands.parts(job, view))), None


class Drf:
    """The smallest dominant share goes first, and preempts larger ones."""

    name = "drf"
    oracle = False
    Params = PolicyParams

    @staticmethod
    def build(params: PolicyParams, placement: Placement) -> RankedPolicy:
        """Return the policy."""
        return RankedPolicy(DominantShare(), placement)
