"""`[policy]`: who decides, when, and where jobs go."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Literal, get_args

from pydantic import Field

from shunter.app.config.section import Positive, Section, Span, Stretch
from shunter.core.interfaces import AnyPolicy
from shunter.core.performance.sensitivity import SensitivityTable
from shunter.core.placement import PLACEMENTS, SKEW_THRESHOLD, Placement, Skew
from shunter.core.planning.fault_barrier import OnFault
from shunter.core.planning.guards import Guards
from shunter.core.ranking import LEVELS_MOST, Aged, RankedPolicy
from shunter.core.sizing import Mechanism, Sizing
from shunter.errors import ConfigError
from shunter.policies.sizing import HighsSolver
from shunter.policies.skews import BUILTIN_SKEWS

__all__ = ["AgingSection", "GuardsSection", "PolicySection", "SkewSection"]

PlacementName = Literal["consolidated", "spread", "first_fit", "skew"]
assert set(PLACEMENTS) == set(get_args(PlacementName))

_SOLVE_LIVE_US = 1_000_000
_CORRECT_BEYOND = 0.1

Part = Annotated[float, Field(ge=0, le=1)]
"""A part of a whole, from 0 to 1; a NaN is not."""


class GuardsSection(Section):
    """Promises to single jobs that hold under every policy; all off by default."""

    min_runtime: Span = Field(
        default=0,
        description="what an attempt may run before it is preempted, from its first mini-batch on; "
        "where a job tells none, from 1, 2, 4 and 8 minutes after the start of its first attempts",
    )
    max_preemptions_per_job_hour: Positive | None = Field(
        default=None, description="how often one job is preempted in any hour at most"
    )
    starvation_after: Stretch | None = Field(
        default=None,
        description="how long a job waits at a stretch before it goes to the head of the line",
    )

    def guards(self, *, launches_first: bool) -> Guards:
        """Return them as the core takes them.

        Args:
            launches_first: whether a job keeps what it was given until it was launched there.
        """
        limit, starves_us = self.max_preemptions_per_job_hour, self.starvation_after
        return Guards(self.min_runtime, limit, starves_us, launches_first)


class AgingSection(Section):
    """Waiting jobs rise in rank under any index policy."""

    every: Stretch = Field(description="a waiting job rises one level each time it has waited so")
    levels: int = Field(
        default=8,
        ge=1,
        le=LEVELS_MOST,
        description="after so many, only jobs that have waited longer stand before it",
    )


class SkewSection(Section):
    """Which gangs placement `skew` keeps together."""

    threshold: Part = Field(
        default=SKEW_THRESHOLD,
        description="a skew above it keeps a gang together; the middle of the built-in table's gap",
    )
    table: str = Field(
        default=BUILTIN_SKEWS,
        min_length=1,
        description="skews and sizes by model: 'builtin:model-skew' or a CSV file",
    )
    models: dict[str, Part] = Field(
        default={}, description="skews of single models, instead of those in the table"
    )
    unknown: Literal["spread", "consolidate", "error"] = Field(
        default="spread",
        description="gangs of models nobody knows: they may spread, may not, or are refused",
    )

    def placement(self, skews: Mapping[str, float]) -> Skew:
        """Return the placement by the skews of a whole table."""
        return Skew(skews, self.threshold, self.unknown == "consolidate")


class SlicingSection(Section):
    """How jobs that share GPUs of a server in turns take them (Gandiva, OSDI 2018)."""

    quantum: Stretch = Field(
        default=60_000_000, description="how long a turn is while others wait for one"
    )
    wait_most: Stretch | None = Field(
        default=None, description="a job that has waited longer for a turn goes before all others"
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
    params: dict[str, dict[str, object]] = Field(
        default={}, description="one table for each policy; all are checked, the chosen one is used"
    )
    on_fault: Literal["stop", "isolate"] | None = Field(
        default=None,
        description="what a fault of the policy does: 'stop' ends the run, 'isolate' starts no job "
        "until it works again; isolate live, stop in a simulation",
    )
    time_limit: Stretch | None = Field(
        default=None,
        description="how long one planning may take before the policy is set aside and jobs run "
        "on; 60 s live, none in a simulation",
    )
    sizing: Mechanism | None = Field(
        default=None,
        description="how many CPUs and how much memory go with a job's GPUs, to which it is held "
        "live; what it asks for itself if left out",
    )
    solve_limit: Stretch | None = Field(
        default=None,
        description="how long sizing 'opt' may search in one round, beside its 100 nodes for each "
        "group of servers; 1 s live, no limit in a simulation, which is equal on any machine",
    )
    correct_beyond: Part | None = Field(
        default=None,
        description="by which part of it a speed that a running job measures may differ from the "
        "table of sensitivity before sizing goes by what was measured; 0: never; 0.1 if left out",
    )
    slicing: SlicingSection | None = Field(
        default=None, description="let jobs share GPUs in turns, under policies that want it"
    )
    aging: AgingSection | None = Field(
        default=None, description="let waiting jobs rise; off by default"
    )
    guards: GuardsSection = Field(
        default=GuardsSection.usual(), description="promises to single jobs"
    )
    skew: SkewSection = Field(
        default=SkewSection.usual(), description="what placement skew goes by"
    )

    @property
    def round_us(self) -> int:
        """The length of a round; 0 where decisions are made at every event."""
        return self.round if self.trigger == "round" else 0

    def reaction(self, *, is_live: bool) -> OnFault:
        """Return what a fault of the policy leads to."""
        if self.on_fault is not None:
            return OnFault(self.on_fault)
        return OnFault.isolate if is_live else OnFault.stop

    def aged(self, policy: AnyPolicy) -> AnyPolicy:
        """Return a policy with the aging that is configured, if it is.

        Raises:
            ConfigError: it is no index policy.
        """
        if self.aging is None:
            return policy
        ranked = _ranked(policy, "aging", "that could rise; leave the table out")
        index = Aged(ranked.index, self.aging.every, self.aging.levels)
        return replace(ranked, index=index)

    def sized(
        self, policy: AnyPolicy, table: SensitivityTable | None, *, is_live: bool
    ) -> AnyPolicy:
        """Return a policy that sizes jobs as configured, if it is to.

        Raises:
            ConfigError: it is no index policy, or lacks the table by which to size.
        """
        if self.sizing is None:
            return policy
        ranked = _ranked(policy, "sizing", "by which jobs could be sized; leave the key out")
        if table is None and self.sizing is not Mechanism.proportional:
            raise ConfigError(
                f"policy.sizing: {self.sizing.value!r} goes by how sensitive models are; name a "
                "table as workload.sensitivity"
            )
        if self.sizing is not Mechanism.opt:
            return replace(ranked, sizing=Sizing(self.sizing, table))
        limit_us = self.solve_limit or (_SOLVE_LIVE_US if is_live else None)
        solver = HighsSolver(seconds_most=None if limit_us is None else limit_us / 1e6)
        return replace(ranked, sizing=Sizing(self.sizing, table, solver))

    def tolerance(self, *, is_measured: bool) -> float:
        """Return from which part on a measured speed corrects the table; 0: none does.

        Args:
            is_measured: whether jobs are measured while they run.
        """
        if self.sizing is None or self.sizing is Mechanism.proportional or not is_measured:
            return 0.0
        return _CORRECT_BEYOND if self.correct_beyond is None else self.correct_beyond

    def placement_strategy(self, skews: Mapping[str, float]) -> Placement:
        """Return where gangs go; `skews` is the whole table that the placement may need."""
        if self.placement == "skew":
            return self.skew.placement(skews)
        return PLACEMENTS[self.placement]()


def _ranked(policy: AnyPolicy, key: str, what: str) -> RankedPolicy:
    """Return a policy, which has an index.

    Raises:
        ConfigError: it has none, and so nothing for a key of the section to act on.
    """
    if isinstance(policy, RankedPolicy):
        return policy
    raise ConfigError(f"policy.{key}: policy {policy.name!r} has no index {what}")
