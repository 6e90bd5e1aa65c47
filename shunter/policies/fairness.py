"""Fair shares, a number for each job: dominant resource first, and finish-time fairness."""

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from math import ceil

from shunter.core import Job, View
from shunter.core.planning import Placement
from shunter.core.ranking import IndexDefaults, Measure, RankedPolicy
from shunter.core.sizing import Demands
from shunter.core.speeds import SensitivityTable
from shunter.policies.params import PolicyParams

# Dominant share: the largest part of the cluster's GPUs, CPUs or memory that a job demands (Ghodsi
# et al., DRF, NSDI 2011, section 4), as Synergy orders jobs (Mohan et al., OSDI 2022, section 5).
#
# Deviation: DRF divides a cluster across users by what each holds; here each job ranks by itself.

RANK_MOST = (1 << 59) - 1
"""A demand so far beyond the cluster never fits; it ranks here, whatever it is."""


@dataclass(frozen=True)
class DominantShare(IndexDefaults):
    """Ranks jobs by their dominant share, in parts of `sizing.WHOLE`."""

    demands: Demands = field(default_factory=Demands)
    name: str = "drf"
    is_relative: bool = True
    measures = (Measure.dominant_share,)

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


# Finish-time fairness: rho = shared time / independent time (Mahajan et al., Themis, NSDI 2020,
# section 3), from submission to the expected end. An oracle: the run time alone is the trace's.
#
# Rho counts in steps of a sixteenth, so that ranks of waiting jobs change at known instants.
#
# Deviation: Themis holds auctions among those worst off; here the worst off is served first.

RHO_ONE = 1 << 20
"""The unit in which rho is counted."""


QUANTUM_US = 1_000_000
"""How often rho of a job that runs faster than alone may fall: each second, our choice."""


def _ladder() -> tuple[int, ...]:
    steps = [RHO_ONE]
    while steps[-1] < RHO_ONE << 40:
        steps.append(steps[-1] * 17 // 16)
    return tuple(steps)


LADDER = _ladder()
"""The steps of rho: one, and each a sixteenth above the one before."""


@dataclass(frozen=True)
class FinishTimeFairness(IndexDefaults):
    """Ranks jobs by falling rho, step by step.

    Rho of a job that runs faster than its trace says falls, and jobs that take turns would do so
    as fast as they can, so a lower step is told at multiples of `quantum_us` only.
    """

    quantum_us: int = 1
    name: str = "ftf"
    oracle = True
    measures = (Measure.rho_step,)

    def standing(self, job: Job, view: View) -> tuple[int, int | None]:
        """Return minus the step of rho, and when it may be another one.

        A job of unknown length, or of none, counts as served as if alone.
        """
        now_us, alone_us = view.now_us, view.duration_us(job)
        if not alone_us:
            return 0, None
        shared_us = now_us - job.submitted_us + alone_us - job.done_us(now_us)
        step = bisect_right(LADDER, shared_us * RHO_ONE // alone_us)
        # While it gets nothing done, the shared time grows as fast as time.
        growth = 1.0 if job.working_since_us is None else 1.0 - job.speed
        if growth > 0.0 and step < len(LADDER):
            left_us = _shared_us(step, alone_us) - shared_us
            return -step, now_us + max(1, ceil(left_us / growth))
        if growth < 0.0 and step:
            left_us = shared_us - _shared_us(step - 1, alone_us) + 1
            falls_us = now_us + max(1, ceil(left_us / -growth))
            return -step, -(-falls_us // self.quantum_us) * self.quantum_us
        return -step, None


def _shared_us(step: int, alone_us: int) -> int:
    """Return the least shared time that is beyond a step of the ladder."""
    return -(-LADDER[step] * alone_us // RHO_ONE)


class Ftf:
    """The job worst off by sharing goes first (finish-time fairness). An oracle."""

    name = "ftf"
    oracle = True
    Params = PolicyParams

    @staticmethod
    def build(params: PolicyParams, placement: Placement) -> RankedPolicy:
        """Return the policy."""
        return RankedPolicy(FinishTimeFairness(QUANTUM_US), placement)
