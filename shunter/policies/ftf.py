"""Finish-time fairness: whoever is worst off by sharing goes first.

rho = shared time / independent time (Mahajan et al., Themis, NSDI 2020, section 3): how long the
job takes here, from submission to its expected end, over how long it would take alone. The shared
time assumes that the job runs from now on, so rho of a running job stays, and that of a waiting
one grows until it is served. An oracle: the run time alone is what a trace says.

Deviation: Themis has apps bid for GPUs with their own estimates of rho and auctions among those
worst off; this index serves the worst off first, one by one.
"""

from dataclasses import dataclass

from shunter.core.placement import Placement
from shunter.core.ranking import Misfit, RankedPolicy
from shunter.core.state import Job
from shunter.core.view import View
from shunter.policies.params import PolicyParams

__all__ = ["FinishTimeFairness", "Ftf"]

RHO_ONE = 1 << 20
"""The resolution of rho; one that is larger than `RHO_MOST` counts as that."""
RHO_MOST = 1 << 60


@dataclass(frozen=True)
class FinishTimeFairness:
    """Ranks jobs by falling rho."""

    name: str = "ftf"
    version: str = "1"
    oracle: bool = True
    preemptive: bool = True
    drifts: bool = False
    wanders: bool = False
    misfit: Misfit = Misfit.skipped

    def standing(self, job: Job, view: View) -> tuple[int, int | None]:
        """Return minus rho; a job of unknown length counts as served as if alone.

        That of a job without progress changes all the time.
        """
        now_us, alone_us = view.now_us, view.duration_us(job)
        if not alone_us:
            return -RHO_ONE, None
        shared_us = now_us - job.submitted_us + alone_us - job.done_us(now_us)
        rho = min(RHO_MOST, shared_us * RHO_ONE // alone_us)
        steady = job.working_since_us is not None and job.speed == 1.0
        return -rho, None if steady else now_us + 1


class Ftf:
    """The job worst off by sharing goes first (finish-time fairness). An oracle."""

    name = "ftf"
    oracle = True
    Params = PolicyParams

    @staticmethod
    def build(params: PolicyParams, placement: Placement) -> RankedPolicy:
        """Return the policy."""
        return RankedPolicy(FinishTimeFairness(), placement)
