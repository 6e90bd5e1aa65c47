"""Gavel: an objective over effective throughputs, target shares of time, and turns that follow.

Narayanan et al., Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads, OSDI
2020. Throughputs come from `workload.throughputs`, else from samples of running jobs; of who is
not known at all, every GPU type counts the same.

Deviation: targets are computed at the next plan after anything changed, and what jobs are still
owed is carried over; the paper counts from nothing, and the public code waits 1,920 s at least.

Deviation: jobs go by the time they are owed, target × time − received, not by the ratio of the two:
shares then stay within a few rounds of their targets, where ratios let them drift by a dozen.

Deviation: within a turn free GPUs go to waiting jobs at once.
"""

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field, model_validator

from shunter.core.placement import Placement
from shunter.errors import ConfigError
from shunter.events.values.ids import GpuType
from shunter.policies.gavel.scheduling.catalogue import (
    OBJECTIVES,
    UNSHARED,
    Chosen,
    ObjectiveName,
)
from shunter.policies.gavel.scheduling.job_requests import EntityBy
from shunter.policies.gavel.scheduling.policy import GavelPolicy, Timing
from shunter.policies.params import Duration, PolicyParams

PRICED: Final = ("min_cost", "min_cost_slo")
_TURNS: Final = 10
"""The window's length in turns: so many turns make up for one that came out wrong."""

Price = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Stretch = Annotated[Duration, Field(gt=0)]
Span = Annotated[Duration, Field(ge=0)]


class GavelOptions(PolicyParams):
    """What all objectives take."""

    full_waits: ClassVar[bool] = True

    aware: bool = Field(
        default=True,
        description="count how fast each job is on each GPU type; false: all types are alike",
    )
    turn: Stretch = Field(
        default=360_000_000,
        description="how long jobs keep their GPUs before others may get them (OSDI 2020, "
        "section 5: 6 minutes)",
    )
    recompute_after: Span = Field(
        default=0, description="the least time between two computations of targets"
    )
    recompute_every: Span = Field(
        default=0, description="the most, though nobody comes or leaves; 0: no bound"
    )
    entities: EntityBy = Field(
        default="user",
        description="who has weights and parts in `hierarchical` and `gandiva_fair`: user, "
        "queue or group",
    )
    entity_weights: dict[str, Price] = Field(
        default={},
        description="weights of entities by name, for the same objectives; 1 for all others",
    )
    inside: Literal["fairness", "fifo"] = Field(
        default="fairness", description="how an entity of `hierarchical` divides what it gets"
    )
    space_sharing: bool = Field(
        default=False,
        description="let two jobs share GPUs where workload.throughputs knows that it pays (OSDI "
        "2020, section 3.1)",
    )
    prices: dict[str, Price] = Field(
        default={}, description="dollars an hour of a GPU by type, for `min_cost`"
    )
    estimate: bool = Field(
        default=False,
        description="guess rates nobody measured from those that were: of kinds of the table, of "
        "pairs, and of jobs on types they never tried (OSDI 2020, section 6)",
    )


class GavelParams(GavelOptions):
    """What is to be achieved, and how often it is looked at."""

    objective: ObjectiveName = Field(
        default="max_min_fairness", description="what target shares are to achieve"
    )

    @model_validator(mode="after")
    def _has_prices(self) -> "GavelParams":
        if self.objective in PRICED and not self.prices:
            raise ValueError(f"objective {self.objective!r} needs prices, one for each GPU type")
        return self


class Gavel:
    """Target shares of time on GPU types by an objective, and turns that follow."""

    name = "gavel"
    oracle = False
    Params = GavelParams

    @staticmethod
    def build(params: GavelParams, placement: Placement) -> GavelPolicy:
        """Return the policy."""
        return gavel(params.objective, params, placement, "gavel")


def gavel(
    objective: ObjectiveName, options: GavelOptions, placement: Placement, name: str
) -> GavelPolicy:
    """Return the policy of an objective, under a name.

    Raises:
        ConfigError: the objective needs prices and there are none, or cannot share GPUs.
    """
    if objective in PRICED and not options.prices:
        raise ConfigError(
            f"policy.params.{name}.prices: expected dollars an hour for each GPU type of the "
            f"cluster; give them as [policy.params.{name}.prices]"
        )
    if options.space_sharing and objective in UNSHARED:
        raise ConfigError(
            f"policy.params.{name}.space_sharing: objective {objective} gives each job whole GPUs; "
            "expected false"
        )
    chosen = Chosen(
        aware=options.aware,
        prices={GpuType(name): price for name, price in options.prices.items()},
        entity_weights=dict(options.entity_weights),
        inside=options.inside,
        packed=options.space_sharing,
    )
    return GavelPolicy(
        OBJECTIVES[objective](chosen),
        placement,
        Timing(
            turn_us=options.turn,
            window_us=_TURNS * options.turn,
            least_us=options.recompute_after,
            most_us=options.recompute_every,
        ),
        options.entities,
        frozenset(options.prices) if objective in PRICED else None,
        name=name,
        needs_table=options.space_sharing,
        estimates=options.estimate,
    )
