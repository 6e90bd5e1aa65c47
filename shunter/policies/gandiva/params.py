"""What may be set of Gandiva: how high servers become, and what is tried."""

from collections.abc import Iterable
from typing import Any, Literal, Self

from pydantic import BaseModel, Field, PositiveInt, model_validator

from shunter.core.performance.introspection import TrialRules
from shunter.errors import ConfigError
from shunter.events.values.ids import GpuType
from shunter.events.values.trials import MILLION
from shunter.policies.gandiva.packing import Packing
from shunter.policies.migration import GoalSettings, Migrations
from shunter.policies.params import Duration, PolicyParams

SAMPLES_IN_PROBE = 6
"""So often at least a job is to be measured in the time of a probe.

Two of these may tell of what was before, two are needed, and turns begin a little after trials.
"""


class PackingParams(BaseModel):
    """How packs are tried: two jobs on the same GPUs at once."""

    model_config = PolicyParams.model_config

    probe: Duration = Field(
        default=60_000_000,
        gt=0,
        description="how long a pack is tried before it is judged, and how long each of its jobs "
        "may have GPUs without measuring anything; take no less than a quantum",
    )
    epsilon: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="by which part the rates of a pack, each over its rate alone, must add up to "
        "more than 1",
    )
    gpu_memory_mb: dict[str, PositiveInt] = Field(
        default_factory=dict,
        description="the memory of a GPU by type, in MB: jobs that use more together are not tried",
    )

    def packing(self) -> Packing:
        """Return what tries them."""
        rules = TrialRules(self.probe, round(self.epsilon * MILLION))
        memory = {GpuType(name): size for name, size in self.gpu_memory_mb.items()}
        return Packing(rules, memory)


class MigrationParams(BaseModel):
    """Why jobs are moved, and by what a move is judged."""

    model_config = PolicyParams.model_config

    goals: tuple[
        Literal["colocate", "lower_height", "apart", "cheaper_type", "defragment"], ...
    ] = Field(
        default=("colocate",),
        strict=False,
        description="why jobs are moved: `colocate` brings gangs over several servers to one, "
        "`lower_height` who takes turns to free GPUs, `apart` who has become slower to an empty "
        "server, `cheaper_type` jobs of one GPU to a cheaper type while others wait, `defragment` "
        "jobs from the emptiest server to fuller ones",
    )
    cost: Duration = Field(
        default=10_000_000,
        ge=0,
        description="what a move costs a job (Gandiva: 1 to 2 s with TensorFlow, 8 to 10 s with "
        "PyTorch); it must gain more within as long again as it has run",
    )
    probe: Duration = Field(
        default=60_000_000,
        gt=0,
        description="how long a move is tried before it is judged; take no less than a quantum",
    )
    free_most: int = Field(
        default=3,
        ge=1,
        description="`defragment` empties servers that have so many free GPUs at least (3 of 4 in "
        "the paper)",
    )
    cheaper: tuple[str, ...] = Field(
        default=(), strict=False, description="types of GPU for `cheaper_type`, the cheapest first"
    )
    slower: float = Field(
        default=0.1,
        gt=0,
        le=10,
        description="`apart` moves jobs whose mini-batches take longer by this part than their "
        "fastest did",
    )

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        for name, named in (("goals", self.goals), ("cheaper", self.cheaper)):
            if len(set(named)) < len(named):
                raise ValueError(f"{name}: expected each once")
        if not self.goals:
            raise ValueError("goals: expected one at least; leave migration out to move nobody")
        if "cheaper_type" in self.goals and len(self.cheaper) < 2:
            raise ValueError("cheaper: expected two types of GPU at least, the cheapest first")
        return self

    def migrations(self) -> Migrations:
        """Return what plans them."""
        cheaper = tuple(GpuType(name) for name in self.cheaper)
        settings = GoalSettings(self.free_most, cheaper, round(self.slower * MILLION))
        return Migrations(TrialRules(self.probe), self.cost, self.goals, settings)


class PlacingParams(PolicyParams):
    """What may be set of it."""

    height_most: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description="how many times its own GPUs the jobs of a server may ask for; no limit if "
        "left out",
    )
    grow_after: Duration | None = Field(
        default=None,
        gt=0,
        description="elastic jobs grow into GPUs of their server that were idle for so long while "
        "nobody waits, and shrink when others need them; left out: they keep their sizes",
    )
    packing: PackingParams | None = Field(
        default=None,
        description="try two jobs on the same GPUs at once where a server has more jobs than have "
        "turns at once; no packs if left out",
    )

    migration: MigrationParams | None = Field(
        default=None,
        description="try running jobs on other servers, for the goals that are named; none is "
        "moved if left out",
    )

    @property
    def probes_us(self) -> dict[str, int]:
        """How long what is tried is measured, by the name of its table."""
        tried = {"packing": self.packing, "migration": self.migration}
        return {name: one.probe for name, one in tried.items() if one is not None}

    @property
    def needs_samples_us(self) -> int | None:
        """How often jobs must be measured at least; None: they need not be."""
        probes_us = self.probes_us.values()
        return min(probes_us) // SAMPLES_IN_PROBE if probes_us else None

    def check_types(self, types: Iterable[GpuType]) -> None:
        """Say whether the cluster has all GPU types that are named.

        Raises:
            ConfigError: it lacks one; the message names type and key.
        """
        known = set(types)
        named: dict[str, Iterable[str]] = {
            "packing.gpu_memory_mb": () if self.packing is None else self.packing.gpu_memory_mb,
            "migration.cheaper": () if self.migration is None else self.migration.cheaper,
        }
        for key, names in named.items():
            if unknown := sorted(set(names) - known):
                raise ConfigError(
                    f"policy.params.gandiva.{key}: no server has {', '.join(unknown)}; expected "
                    f"GPU types of the cluster: {', '.join(sorted(known))}"
                )

    def record(self) -> dict[str, Any]:
        """Return the table for the log, without what is not used."""
        table = super().record()
        later = ("grow_after", "packing", "migration")
        return {name: each for name, each in table.items() if each is not None or name not in later}
