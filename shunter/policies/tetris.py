"""Least remaining work of all resources first: remaining time x the parts of the cluster demanded.

The part of Tetris that shortens completion times (Grandl et al., SIGCOMM 2014, section 3.2: fewest
remaining resources over time first), as Synergy orders jobs by it (Mohan et al., OSDI 2022, section
5): remaining time x (GPUs, CPUs and memory demanded, each over what the cluster has).

Deviation: Tetris adds how well a task's demand aligns with what a server has free. Here placement
decides where a job goes, and the order alone who goes first. The remaining time is that at base
speed, as `srtf` has it: the speed by more CPUs and memory than the proportional share, which the
public simulator of Synergy divides it by, tells of where a job was put.
"""

from dataclasses import dataclass, field, replace

from shunter.core.planning.placement import Placement
from shunter.core.ranking import Measure, Misfit, RankedPolicy
from shunter.core.sizing import WHOLE, Demands
from shunter.core.speeds.sensitivity import SensitivityTable
from shunter.core.state import Job
from shunter.core.view import View
from shunter.policies.params import PolicyParams
from shunter.policies.srtf import UNKNOWN_US

NS = 1_000
"""Nanoseconds in a microsecond."""

KNOWN_MOST = (1 << 59) - 1
"""The rank of all known volumes beyond it: a whole cluster for six years or more."""


@dataclass(frozen=True)
class RemainingVolume:
    """Ranks jobs by remaining time x parts of the cluster, in nanoseconds.

    The rank of a running job falls at a pace of its own, so it is told anew at every plan. Running
    jobs only improve, so no rank change by itself can alter the selection.
    """

    demands: Demands = field(default_factory=Demands)
    name: str = "tetris"
    version: str = "1"
    oracle: bool = True
    preemptive: bool = True
    drifts: bool = False
    wanders: bool = True
    misfit: Misfit = Misfit.skipped
    is_relative: bool = True

    @property
    def measures(self) -> tuple[Measure, ...]:
        """What its numbers count."""
        return (Measure.cluster_ns,)

    def knowing(self, table: SensitivityTable) -> "RemainingVolume":
        """Return the index by the demands of a table."""
        return replace(self, demands=Demands(table))

    def standing(self, job: Job, view: View) -> tuple[int, int | None]:
        """Return the remaining time at base speed x the sum of the parts demanded."""
        remaining_us = view.remaining_us(job)
        if remaining_us is None:
            return UNKNOWN_US, None
        volume_ns = remaining_us * NS * sum(self.demands.parts(job, view)) // WHOLE
        return min(KNOWN_MOST, volume_ns), None


class Tetris:
    """Least remaining work of all resources first, with preemption. An oracle."""

    name = "tetris"
    oracle = True
    Params = PolicyParams

    @staticmethod
    def build(params: PolicyParams, placement: Placement) -> RankedPolicy:
        """Return the policy."""
        return RankedPolicy(RemainingVolume(), placement)
