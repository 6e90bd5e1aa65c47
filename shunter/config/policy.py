"""`[policy]`: who decides, when, and where jobs go."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, field_validator, model_validator

from shunter.config.section import Positive, Section, Span, Stretch
from shunter.core import AnyPolicy, Guards
from shunter.core.planning import (
    PACK_ABOVE,
    PLACEMENTS,
    SKEW_THRESHOLD,
    SPREAD_BELOW,
    CanMakeRoom,
    CanPropose,
    Decentralised,
    Mode,
    OnFault,
    Placement,
    Skew,
    Topology,
)
from shunter.core.ranking import LEVELS_MOST, Aged, RankedPolicy
from shunter.core.sizing import Mechanism, Sizing
from shunter.core.speeds import SensitivityTable
from shunter.errors import ConfigError
from shunter.policies import BUILTIN_SKEWS, MakeRoomParams

Part = Annotated[float, Field(ge=0, le=1)]
"""A part of a whole, from 0 to 1; a NaN is not."""


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


class TopologySection(Section):
    """Which of equally near places jobs get under placement `topology`."""

    mode: Mode = Field(
        default=Mode.adaptive,
        description="'spread' puts jobs apart, 'pack' beside each other, 'adaptive' by the load",
    )
    pack_above: Part = Field(
        default=PACK_ABOVE,
        description="jobs are packed once a greater part of a type's GPUs is in use; ours, for the "
        "text names none",
    )
    spread_below: Part = Field(
        default=SPREAD_BELOW,
        description="and spread again once a smaller part is; at most pack_above; ours",
    )
    make_room: MakeRoomParams | None = Field(
        default=None,
        description="move running jobs where that gives a waiting gang its place, and pays; none "
        "is moved for that if left out",
    )
    learn: bool | None = Field(
        default=None,
        description="whether what gangs measure becomes the curve of tolerance of their model, "
        "for those that say none; where jobs are measured if left out",
    )

    @model_validator(mode="after")
    def _has_a_gap(self) -> Self:
        if self.spread_below > self.pack_above:
            raise ValueError(
                f"spread_below = {self.spread_below:g} is above pack_above = {self.pack_above:g}: "
                "expected at most as much, or jobs would be packed and spread at once"
            )
        return self

    def placement(self) -> Topology:
        """Return the placement."""
        return Topology(self.mode, self.pack_above, self.spread_below)


PlacementName = Literal["consolidated", "spread", "first_fit", "skew", "topology"]
assert set(PLACEMENTS) == set(get_args(PlacementName))

_SOLVE_LIVE_US = 1_000_000
_CORRECT_BEYOND = 0.1
QUANTUM_LEAST_US = 50_000
"""The supervisor that rotates looks no sooner again (`SWITCH_LOOK_US` of its rotator)."""


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
        description="how long a job waits at a stretch before it goes to the head of the line; "
        "once it runs it ranks as others do, so a policy that preempts soon gives back what it "
        "took: how long it keeps it, `min_runtime` says",
    )

    def guards(self, *, launches_first: bool, only_lower: bool) -> Guards:
        """Return them as the core takes them.

        Args:
            launches_first: whether a job keeps what it was given until it was launched there.
            only_lower: whether a job is told to wait only for guards of jobs that rank behind it.
        """
        limit, starves_us = self.max_preemptions_per_job_hour, self.starvation_after
        return Guards(self.min_runtime, limit, starves_us, launches_first, only_lower)


class AgingSection(Section):
    """Waiting jobs rise in rank under any index policy."""

    every: Stretch = Field(description="a waiting job rises one level each time it has waited so")
    levels: int = Field(
        default=8,
        ge=1,
        le=LEVELS_MOST,
        description="after so many, only jobs that have waited longer stand before it",
    )


class SlicingSection(Section):
    """How jobs that share GPUs of one or more servers take turns (Gandiva, 2018)."""

    quantum: Stretch = Field(
        default=60_000_000,
        description="how long a turn is while others wait for one; 50 ms at least",
    )
    wait_most: Stretch | None = Field(
        default=None, description="a job that has waited longer for a turn goes before all others"
    )
    boundary_most: Span | None = Field(
        default=None,
        description="how long the end of a turn waits for the next mini-batch boundary before the "
        "job is stopped where it is; 10 s live, any time in a simulation",
    )

    @field_validator("quantum")
    @classmethod
    def _can_be_kept(cls, quantum_us: int) -> int:
        if quantum_us < QUANTUM_LEAST_US:
            raise ValueError(
                f"expected {QUANTUM_LEAST_US // 1000} ms at least, not {quantum_us / 1000:g} ms: "
                "so often at most those who share a server's GPUs look whose turn it is"
            )
        return quantum_us


class DecentralisedSection(Section):
    """Job schedulers propose gangs, an approver grants or rejects them.

    Xiao, SOSP student research competition 2017.
    """

    schedulers: Literal["built_in", "callers"] = Field(
        default="built_in",
        description="who proposes: a scheduler of each job in here, or callers of POST /proposals "
        "alone; the text leaves it open",
    )
    staleness: Span = Field(
        default=0,
        description="how old the view of a job scheduler is at most, drawn anew each time; with 0 "
        "each sees all that was granted before",
    )
    candidates: int = Field(
        default=4, ge=1, le=64, description="how many placements a proposal names at most"
    )
    retry: Stretch = Field(
        default=1_000_000,
        description="who was rejected proposes again after a part of it, drawn at random, and of "
        "twice as much each further time",
    )
    retry_most: Stretch = Field(
        default=60_000_000,
        description="the longest of which a part is drawn; `retry` where that is longer",
    )
    reserve_after: Positive = Field(
        default=8, description="so many rejections in a row, and GPUs are kept for the job"
    )
    reserve_for: Stretch = Field(
        default=60_000_000, description="how long they are kept for a job that callers propose"
    )

    @property
    def scheme(self) -> Decentralised:
        """The scheme as the core takes it."""
        return Decentralised(
            self.schedulers == "built_in",
            self.staleness,
            self.candidates,
            self.retry,
            max(self.retry, self.retry_most),
            self.reserve_after,
            self.reserve_for,
        )


class PolicySection(Section):
    """The policy with its rounds, its placement and the guards around it."""

    name: str = Field(default="fifo", description="who decides: `shunter policy list` names all")
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
    decentralised: DecentralisedSection | None = Field(
        default=None,
        description="let job schedulers propose where gangs go; the policy places them otherwise",
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
    topology: TopologySection = Field(
        default=TopologySection.usual(), description="what placement topology goes by"
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
        from shunter.policies import HighsSolver

        limit_us = self.solve_limit or (_SOLVE_LIVE_US if is_live else None)
        solver = HighsSolver(seconds_most=None if limit_us is None else limit_us / 1e6)
        return replace(ranked, sizing=Sizing(self.sizing, table, solver))

    @property
    def waits_for_callers(self) -> bool:
        """Whether no job starts unless a caller proposes it."""
        return self.decentralised is not None and self.decentralised.schedulers == "callers"

    @property
    def scheme(self) -> Decentralised | None:
        """How job schedulers propose; None: the policy places jobs itself."""
        return None if self.decentralised is None else self.decentralised.scheme

    def proposing(self, policy: AnyPolicy) -> AnyPolicy:
        """Return a policy whose jobs have schedulers of their own, if that is configured.

        Raises:
            ConfigError: its plans name no such starts, or place jobs as only one plan can.
        """
        if self.decentralised is None:
            return policy
        if not isinstance(policy, CanPropose):
            raise ConfigError(
                f"policy.decentralised: policy {policy.name!r} does not say who may start wherever "
                "its job scheduler finds a place; expected an index policy, one of gavel's or "
                "two_level; or leave the table out"
            )
        if self.slicing is not None:
            raise ConfigError(
                "policy.decentralised: with policy.slicing jobs are put on GPUs that others have, "
                "and a proposal is granted only GPUs that are free; leave one of the two out"
            )
        if self.sizing is not None and not self.decentralised.scheme.built_in:
            raise ConfigError(
                "policy.decentralised.schedulers: callers propose GPUs with what a job asks for "
                "beside them; with policy.sizing expected 'built_in'"
            )
        return policy.with_scheme(self.decentralised.scheme)

    def making_room(self, policy: AnyPolicy) -> AnyPolicy:
        """Return a policy that moves running jobs for gangs, if it is to.

        Raises:
            ConfigError: jobs are placed by another rule, or the policy cannot do it.
        """
        section, key = self.topology.make_room, "policy.topology.make_room"
        if section is None:
            return policy
        if self.placement != "topology":
            raise ConfigError(
                f"{key}: expected policy.placement = 'topology', not {self.placement!r}; or leave "
                "the table out"
            )
        if self.slicing is not None:
            raise ConfigError(
                f"{key}: with policy.slicing jobs are put on GPUs that others have, so a place is "
                "never waited for; leave one of the two out"
            )
        if not isinstance(policy, CanMakeRoom):
            raise ConfigError(
                f"{key}: policy {policy.name!r} makes no room by moves; expected an index policy, "
                "one of gavel's or two_level; or leave the table out"
            )
        return policy.with_room(section.making_room())

    def tolerance(self, *, is_measured: bool) -> float:
        """Return from which part on a measured speed corrects the table; 0: none does.

        Args:
            is_measured: whether jobs are measured while they run.
        """
        if self.sizing is None or self.sizing is Mechanism.proportional or not is_measured:
            return 0.0
        return _CORRECT_BEYOND if self.correct_beyond is None else self.correct_beyond

    def learns(self, *, is_measured: bool) -> bool:
        """Say whether curves of tolerance are learnt.

        Args:
            is_measured: whether jobs are measured while they run.
        """
        if self.placement != "topology" or self.topology.learn is False:
            return False
        return is_measured

    def placement_strategy(self, skews: Mapping[str, float]) -> Placement:
        """Return where gangs go; `skews` is the whole table that the placement may need."""
        if self.placement == "skew":
            return self.skew.placement(skews)
        if self.placement == "topology":
            return self.topology.placement()
        return PLACEMENTS[self.placement]()


def _ranked(policy: AnyPolicy, key: str, what: str) -> RankedPolicy:
    """Return a policy; ConfigError: it has no index for a key to act on."""
    if isinstance(policy, RankedPolicy):
        return policy
    raise ConfigError(f"policy.{key}: policy {policy.name!r} has no index {what}")
