"""First in, first out: strict, with backfilling, and with EASY backfilling.

None of them preempts. `fifo` stops at the first job that does not fit; `fifo_backfill` goes on to
later ones; `fifo_easy` goes on, but keeps a promise to the first one (Lifka, JSSPP 1995).
"""

from dataclasses import dataclass

from pydantic import Field

from shunter.core import Job, View
from shunter.core.planning import Placement
from shunter.core.ranking import Measure, Misfit, RankedPolicy
from shunter.policies.params import Duration, PolicyParams


@dataclass(frozen=True)
class SubmissionOrder:
    """Ranks all jobs alike, so that the order of submission decides."""

    name: str
    misfit: Misfit
    version: str = "1"
    oracle: bool = False
    preemptive: bool = False
    drifts: bool = False
    wanders: bool = False
    measures = (Measure.submission,)

    def standing(self, job: Job, view: View) -> tuple[int, int | None]:
        """Return the same rank for all, for ever."""
        return 0, None


class Fifo:
    """Strict first in, first out: nobody overtakes the first job that does not fit."""

    name = "fifo"
    oracle = False
    Params = PolicyParams

    @staticmethod
    def build(params: PolicyParams, placement: Placement) -> RankedPolicy:
        """Return the policy."""
        return RankedPolicy(SubmissionOrder("fifo", Misfit.stops), placement)


class FifoBackfill:
    """First in, first out among those that fit: misfits are skipped, and may starve."""

    name = "fifo_backfill"
    oracle = False
    Params = PolicyParams

    @staticmethod
    def build(params: PolicyParams, placement: Placement) -> RankedPolicy:
        """Return the policy."""
        return RankedPolicy(SubmissionOrder("fifo_backfill", Misfit.skipped), placement)


class EasyParams(PolicyParams):
    """What EASY backfilling assumes."""

    default_limit_us: Duration = Field(
        default=365 * 86_400_000_000,
        alias="default_limit",
        gt=0,
        description="the run time a job without a declared time limit counts as; the default is "
        "what Slurm takes for UNLIMITED in its backfill plan (one year)",
    )


class FifoEasy:
    """First in, first out with EASY backfilling: nobody delays the first misfit."""

    name = "fifo_easy"
    oracle = False
    Params = EasyParams

    @staticmethod
    def build(params: EasyParams, placement: Placement) -> RankedPolicy:
        """Return the policy."""
        index = SubmissionOrder("fifo_easy", Misfit.reserved)
        return RankedPolicy(index, placement, params.default_limit_us)
