"""The objectives by the names that configurations give them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from shunter.events.values import GpuType
from shunter.policies.gavel.mechanism import Targets
from shunter.policies.gavel.objectives import (
    FastestFirst,
    FinishTimes,
    GandivaFair,
    Hierarchical,
    Isolated,
    Makespan,
    MaxMinFairness,
    Proportional,
    QueueAssignment,
    ThroughputSum,
    WaterFilling,
)

ObjectiveName = Literal[
    "allox",
    "fifo",
    "finish_time_fairness",
    "gandiva_fair",
    "hierarchical",
    "isolated",
    "makespan",
    "max_min_fairness",
    "max_sum_throughput",
    "min_cost",
    "min_cost_slo",
    "proportional",
    "shortest_job_first",
    "water_filling",
]


@dataclass(frozen=True, slots=True)
class Chosen:
    """What objectives can be told; each looks at what concerns it."""

    aware: bool = True
    prices: dict[GpuType, float] = field(default_factory=dict)
    entity_weights: dict[str, float] = field(default_factory=dict)
    inside: Literal["fairness", "fifo"] = "fairness"
    packed: bool = False

    @property
    def agnostic(self) -> bool:
        """Whether all GPU types count the same."""
        return not self.aware


OBJECTIVES: Final[dict[str, Callable[[Chosen], Targets]]] = {
    "allox": lambda chosen: QueueAssignment(chosen.agnostic),
    "fifo": lambda chosen: FastestFirst(agnostic=chosen.agnostic),
    "finish_time_fairness": lambda chosen: FinishTimes(chosen.agnostic, packed=chosen.packed),
    "gandiva_fair": lambda chosen: GandivaFair(chosen.entity_weights, chosen.agnostic),
    "hierarchical": lambda chosen: Hierarchical(
        chosen.entity_weights, chosen.inside, chosen.agnostic, chosen.packed
    ),
    "isolated": lambda _chosen: Isolated(),
    "makespan": lambda chosen: Makespan(chosen.agnostic, packed=chosen.packed),
    "max_min_fairness": lambda chosen: MaxMinFairness(chosen.agnostic, packed=chosen.packed),
    "max_sum_throughput": lambda chosen: ThroughputSum(
        agnostic=chosen.agnostic, packed=chosen.packed
    ),
    "min_cost": lambda chosen: ThroughputSum(
        chosen.prices, agnostic=chosen.agnostic, packed=chosen.packed
    ),
    "min_cost_slo": lambda chosen: ThroughputSum(
        chosen.prices, deadlines=True, agnostic=chosen.agnostic, packed=chosen.packed
    ),
    "proportional": lambda _chosen: Proportional(),
    "shortest_job_first": lambda chosen: FastestFirst(shortest=True, agnostic=chosen.agnostic),
    "water_filling": lambda chosen: WaterFilling(chosen.agnostic, packed=chosen.packed),
}
UNSHARED: Final = (
    "allox",
    "fifo",
    "gandiva_fair",
    "isolated",
    "proportional",
    "shortest_job_first",
)
"""Objectives that give whole GPUs to one job each, so that there is no room for another."""

assert set(OBJECTIVES) == set(get_args(ObjectiveName))
