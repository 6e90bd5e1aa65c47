"""`[policy.skew]` and `[policy.topology]`: what the placements of these names go by."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from shunter.config.section import Section
from shunter.core.planning.placement import (
    PACK_ABOVE,
    SKEW_THRESHOLD,
    SPREAD_BELOW,
    Mode,
    Skew,
    Topology,
)
from shunter.policies.migration import MakeRoomParams
from shunter.policies.tables import BUILTIN_SKEWS

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
