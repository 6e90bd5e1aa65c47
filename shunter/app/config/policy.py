"""`[policy]`: who decides, when, and where jobs go."""

from dataclasses import replace
from typing import Any, Literal, get_args

from pydantic import Field

from shunter.app.config.section import Positive, Section, Span, Stretch
from shunter.core.placement import PLACEMENTS, Placement
from shunter.core.planning.guards import Guards
from shunter.core.ports import Policy
from shunter.core.ranking import LEVELS_MOST, Aged, RankedPolicy
from shunter.errors import ConfigError

__all__ = ["AgingSection", "GuardsSection", "PolicySection"]

PlacementName = Literal["consolidated", "spread", "first_fit", "skew"]
assert set(PLACEMENTS) == set(get_args(PlacementName))


class GuardsSection(Section):
    """Promises to single jobs that hold under every policy; all off by default."""

    min_runtime: Span = Field(
        default=0, description="what an attempt may run before it is preempted"
    )
    max_preemptions_per_job_hour: Positive | None = Field(
        default=None, description="how often one job is preempted in any hour at most"
    )
    starvation_after: Stretch | None = Field(
        default=None,
        description="how long a job waits at a stretch before it goes to the head of the line",
    )

    def guards(self) -> Guards:
        """Return them as the core takes them."""
        return Guards(self.min_runtime, self.max_preemptions_per_job_hour, self.starvation_after)


class AgingSection(Section):
    """Waiting jobs rise in rank under any index policy."""

    every: Stretch = Field(description="a waiting job rises one level each time it has waited so")
    levels: int = Field(
        default=8,
        ge=1,
        le=LEVELS_MOST,
        description="after so many, only jobs that have waited longer stand before it",
    )


class PolicySection(Section):
    """The policy with its rounds, its placement and the guards around it."""

    name: str = Field(default="fifo", description="entry point of the group shunter.policies")
    trigger: Literal["round", "event"] = Field(
        default="round", description="decide at each round, or at every arrival, end and crossing"
    )
    round: Stretch = Field(
        default=60_000_000,
        description="length of a round",
    )
    placement: PlacementName = Field(default="consolidated", description="where a gang goes")
    params: dict[str, dict[str, Any]] = Field(
        default={}, description="one table for each policy; all are checked, the chosen one is used"
    )
    aging: AgingSection | None = Field(
        default=None, description="let waiting jobs rise; off by default"
    )
    guards: GuardsSection = Field(default=GuardsSection(), description="promises to single jobs")

    @property
    def round_us(self) -> int:
        """The length of a round; 0 where decisions are made at every event."""
        return self.round if self.trigger == "round" else 0

    def aged(self, policy: Policy[Any]) -> Policy[Any]:
        """Return a policy with the aging that is configured, if it is.

        Raises:
            ConfigError: it is no index policy.
        """
        if self.aging is None:
            return policy
        if not isinstance(policy, RankedPolicy):
            raise ConfigError(
                f"policy.aging: policy {policy.name!r} has no index that could rise; "
                "leave the table out"
            )
        index = Aged(policy.index, self.aging.every, self.aging.levels)
        return replace(policy, index=index)

    def placement_strategy(self) -> Placement:
        """Return where gangs go."""
        return PLACEMENTS[self.placement]()
