"""`[policy]`: who decides, when, and where jobs go."""

from typing import Any, Literal, get_args

from pydantic import Field

from shunter.app.config.section import Positive, Section, Span, Stretch
from shunter.core.placement import PLACEMENTS, Placement
from shunter.core.planning.guards import Guards

__all__ = ["GuardsSection", "PolicySection"]

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
    guards: GuardsSection = Field(default=GuardsSection(), description="promises to single jobs")

    @property
    def round_us(self) -> int:
        """The length of a round; 0 where decisions are made at every event."""
        return self.round if self.trigger == "round" else 0

    def placement_strategy(self) -> Placement:
        """Return where gangs go."""
        return PLACEMENTS[self.placement]()
