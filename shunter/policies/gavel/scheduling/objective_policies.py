"""The objectives of Gavel as policies of their own, so that `compare` can be given their names.

Each is `gavel` with that objective, and takes the same parameters but `objective`. `gavel.fifo` has
no name here: it is taken.
"""

from typing import ClassVar, Final

from shunter.core.planning.placement import Placement
from shunter.policies.gavel.scheduling.catalogue import ObjectiveName
from shunter.policies.gavel.scheduling.policy import GavelOptions, GavelPolicy, gavel


class _Named:
    """A policy of one objective."""

    name: ClassVar[ObjectiveName]
    oracle: Final = False
    Params = GavelOptions

    @classmethod
    def build(cls, params: GavelOptions, placement: Placement) -> GavelPolicy:
        """Return the policy."""
        return gavel(cls.name, params, placement, cls.name)


class Allox(_Named):
    """The least sum of finish times, by assignment; jobs of one GPU (Gavel)."""

    name = "allox"


class FinishTimeFairness(_Named):
    """The worst ratio of finish times here and alone is the least (Gavel)."""

    name = "finish_time_fairness"


class GandivaFair(_Named):
    """Equal parts of every GPU type for each user, and trades between them."""

    name = "gandiva_fair"


class Hierarchical(_Named):
    """Fairness across users, queues or groups; that or FIFO inside (Gavel)."""

    name = "hierarchical"


class Isolated(_Named):
    """An equal part of every GPU type for each job (Gavel)."""

    name = "isolated"


class Makespan(_Named):
    """All jobs are done as early as possible (Gavel)."""

    name = "makespan"


class MaxMinFairness(_Named):
    """The least normalised throughput is the largest (Gavel)."""

    name = "max_min_fairness"


class MaxSumThroughput(_Named):
    """The most steps a second of all jobs together (Gavel)."""

    name = "max_sum_throughput"


class MinCost(_Named):
    """The most steps a dollar (Gavel)."""

    name = "min_cost"


class MinCostSlo(_Named):
    """The most steps a dollar with deadlines met (Gavel)."""

    name = "min_cost_slo"


class Proportional(_Named):
    """All of the time for everybody, over the GPU types as their GPUs are (Gavel)."""

    name = "proportional"


class ShortestJobFirst(_Named):
    """The shortest time left on the fastest type goes first (Gavel)."""

    name = "shortest_job_first"


class WaterFilling(_Named):
    """The least normalised throughput is the largest, then the next (Gavel)."""

    name = "water_filling"
