"""Smallest first: the gang with the fewest GPUs, with preemption.

What the public simulator of Tiresias (NSDI 2019) calls sjf.
"""

from dataclasses import dataclass

from shunter.core.planning.placement import Placement
from shunter.core.ranking import Measure, Misfit, RankedPolicy
from shunter.core.state import Job
from shunter.core.view import View
from shunter.policies.params import PolicyParams


@dataclass(frozen=True)
class GangSize:
    """Ranks jobs by how many GPUs they need."""

    name: str = "smallest"
    version: str = "1"
    oracle: bool = False
    preemptive: bool = True
    drifts: bool = False
    wanders: bool = False
    misfit: Misfit = Misfit.skipped

    @property
    def measures(self) -> tuple[Measure, ...]:
        """What its numbers count."""
        return (Measure.gpus,)

    def standing(self, job: Job, view: View) -> tuple[int, int | None]:
        """Return the number of GPUs, which never changes."""
        return job.spec.gpus, None


class Smallest:
    """The gang with the fewest GPUs goes first, and preempts larger ones."""

    name = "smallest"
    oracle = False
    Params = PolicyParams

    @staticmethod
    def build(params: PolicyParams, placement: Placement) -> RankedPolicy:
        """Return the policy."""
        return RankedPolicy(GangSize(), placement)
