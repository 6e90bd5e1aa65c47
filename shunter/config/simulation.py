"""`[simulation]`: what things cost in the simulated world, how leases work, and what breaks."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Literal, Protocol, Self, runtime_checkable

from pydantic import Field, PlainValidator, WithJsonSchema, field_validator, model_validator

from shunter.backends.simulated import (
    Costs,
    Credit,
    EndSeen,
    Lease,
    Progress,
    RoundEnds,
    transfer_us,
    transfers_us,
)
from shunter.config.section import Section, Share, Span, Stretch
from shunter.core import AnyPolicy, Backend, SimulatedWorld
from shunter.errors import ConfigError
from shunter.events import ConfigurationSet
from shunter.plugins import Plugins
from shunter.policies import duration_text

_MB_MAX = 1e12
_MEAN_LEAST_US = 1_000_000
_OLD_WORLD = "remembered_ends"

Noise = Annotated[float, Field(ge=0, le=1)]
"""A relative error from 0 to 1."""

Megabytes = Annotated[float, Field(ge=0, le=_MB_MAX)]
"""A size of 0 or more."""


def _checkpoint_size(value: object) -> float | str:
    """Return a size in MB, or "model"; ValueError if it is neither."""
    if value == "model":
        return "model"
    if not isinstance(value, bool) and isinstance(value, int | float) and 0 <= value <= _MB_MAX:
        return float(value)
    raise ValueError(f"expected a number of MB, 0 or more, or 'model', not {value!r}")


# A union would give one fault for each of its members.
CheckpointSize = Annotated[
    float | str,
    PlainValidator(_checkpoint_size),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"const": "model"}]}),
]


class CostsSection(Section):
    """Time in which a job holds its GPUs and does no work."""

    start: Span = Field(default=0, description="a first launch")
    suspend: Span = Field(default=0, description="saving a checkpoint on the way out")
    resume: Span = Field(default=0, description="a launch from a checkpoint")
    migrate: Span | None = Field(
        default=None,
        description="the same on other GPUs than before, instead; as resume if left out",
    )
    turn: Span = Field(
        default=0, description="GPUs changing hands between jobs that share them in turns"
    )
    checkpoint_mb: CheckpointSize = Field(
        default=0.0,
        description="size of a checkpoint, saved and loaded on top of the times above, in MB; "
        "'model': by the job's model",
    )
    bandwidth_mb_s: Share | None = Field(
        default=None, description="how fast a checkpoint is written and read, in MB per second"
    )
    gpu_copy_mb_s: Share | None = Field(
        default=None,
        description="how fast the memory of a GPU is copied out and in when it changes hands, in "
        "MB per second, by the memory cycles of workload.factors; left out: in no time",
    )
    model_mb: dict[str, Megabytes] = Field(
        default={},
        description="checkpoint size by model, in MB; of others, all tensors in policy.skew.table",
    )

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.checkpoint_mb and self.bandwidth_mb_s is None:
            raise ValueError("checkpoint_mb is set: expected bandwidth_mb_s, in MB per second, too")
        if self.model_mb and not self.by_model:
            raise ValueError("model_mb is set: expected checkpoint_mb = 'model', too")
        return self

    @property
    def by_model(self) -> bool:
        """Whether a checkpoint is as large as the job's model."""
        return self.checkpoint_mb == "model"

    def sizes_mb(self, tensors_mb: Mapping[str, float]) -> dict[str, float]:
        """Return the checkpoint sizes by model, where they depend on that."""
        return {**tensors_mb, **self.model_mb} if self.by_model else {}

    def costs(self, tensors_mb: Mapping[str, float]) -> Costs:
        """Return them as the simulated backend takes them.

        Args:
            tensors_mb: the size of all tensors, by model.
        """
        bandwidth_mb_s, size_mb = self.bandwidth_mb_s or 1.0, self.checkpoint_mb
        return Costs(
            self.start,
            self.suspend,
            self.resume,
            self.migrate,
            0 if isinstance(size_mb, str) else transfer_us(size_mb, bandwidth_mb_s),
            transfers_us(self.sizes_mb(tensors_mb), bandwidth_mb_s),
        )


class LeaseSection(Section):
    """Four switches in which the simulators of the field differ."""

    progress: Progress = Field(
        default=Progress.continuous, strict=False, description="in which grains work counts"
    )
    credit: Credit = Field(
        default=Credit.as_run,
        strict=False,
        description="whether a lease's work counts as done or at once",
    )
    end_seen: EndSeen = Field(
        default=EndSeen.at_once, strict=False, description="when the end of a job is seen"
    )
    round_ends: RoundEnds = Field(
        default=RoundEnds.fixed,
        strict=False,
        description="what ends a round: its length, or its last gang",
    )

    def lease(self, round_us: int) -> Lease:
        """Return it as the simulated backend takes it."""
        return Lease(self.progress, self.credit, self.end_seen, self.round_ends, round_us)


class FailuresSection(Section):
    """Servers that die and come back; times are exponential with these means.

    None is shorter than a second: where servers die every few microseconds, no simulation ends.
    """

    mtbf: Span = Field(
        default=0, description="mean time between failures of a server, 1s or more; 0: none fails"
    )
    mttr: Stretch = Field(
        default=3_600_000_000, description="mean time to repair, 1s or more; one hour, our choice"
    )
    rack_mtbf: Span = Field(
        default=0, description="mean time between failures of a rack, 1s or more; 0: none fails"
    )

    @field_validator("mtbf", "mttr", "rack_mtbf")
    @classmethod
    def _is_no_instant(cls, mean_us: int) -> int:
        if 0 < mean_us < _MEAN_LEAST_US:
            raise ValueError(f"expected 1s or more, not {duration_text(mean_us)}")
        return mean_us


class SpeedsSection(Section):
    """How fast jobs run on each GPU type, relative to the speed of their trace."""

    relative: dict[str, Share] = Field(
        default={},
        description="speed by GPU type, 1 where left out; of jobs of which workload.throughputs "
        "has no rate there, where it is named",
    )
    shared: Share | None = Field(
        default=None,
        le=1,
        description="the part of its speed that a job keeps for each partner on its GPUs, where no "
        "table knows the pair; left out: 0.5, they take turns",
    )
    sensitivity: str | None = Field(
        default=None,
        min_length=1,
        description="how fast models really are by CPUs and memory per GPU, where that is not what "
        "workload.sensitivity says: 'builtin:synergy' or a JSON file",
    )


class SamplesSection(Section):
    """What is measured of jobs that run, as a live cluster measures it."""

    every: Span = Field(default=0, description="how often an attempt is measured; 0: never")
    noise: Noise = Field(
        default=0.0,
        description="how inexactly the time of a mini-batch is measured: the standard deviation of "
        "its logarithm",
    )


class Reactions(StrEnum):
    """What the scheduler does to the jobs of a simulation."""

    trace = "trace"
    live = "live"


class SimulationSection(Section):
    """The simulated world."""

    costs: CostsSection = Field(
        default=CostsSection.usual(), description="what launches and moves cost"
    )
    lease: LeaseSection = Field(default=LeaseSection.usual(), description="how a lease works")
    failures: FailuresSection = Field(
        default=FailuresSection.usual(), description="what breaks, and how often"
    )
    speeds: SpeedsSection = Field(
        default=SpeedsSection.usual(), description="how fast each GPU type is"
    )
    samples: SamplesSection = Field(
        default=SamplesSection.usual(),
        description="what is measured of jobs while they run",
    )
    reactions: Reactions = Field(
        default=Reactions.trace,
        strict=False,
        description="'trace': a job that fails has ended, as its trace says; 'live': as with "
        "`serve`, it is tried again as often as it may, jobs that are lost again and again wait "
        "in between, and those of suspend mode 'stop' are stopped in place",
    )
    turn_ends: Literal["at_boundary", "at_once"] = Field(
        default="at_boundary",
        description="whether a turn that is over goes on to the next mini-batch boundary",
    )
    world: str = Field(
        default="",
        description="a world of another package, put around this one: an entry point of the group "
        "shunter.worlds",
    )

    @model_validator(mode="before")
    @classmethod
    def _renamed(cls, values: object) -> object:
        """Take what `world = "remembered_ends"` was called at first."""
        if not isinstance(values, Mapping) or not isinstance(values.get(_OLD_WORLD), bool):
            return values
        kept = {key: value for key, value in values.items() if key != _OLD_WORLD}
        return {"world": _OLD_WORLD, **kept} if values[_OLD_WORLD] else kept

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        by_gangs = self.lease.round_ends is RoundEnds.last_gang
        if by_gangs and (self.samples.every or self.reactions is Reactions.live):
            raise ValueError(
                "lease.round_ends = 'last_gang' plays another simulator, which has no samples and "
                "no reactions: expected samples.every = 0 and reactions = 'trace'"
            )
        return self

    @property
    def has_leases(self) -> bool:
        """Whether any switch of the lease is not at its default."""
        return self.lease != LeaseSection.usual()


# Simulated worlds of other packages.

WORLDS = Plugins("world", "shunter.worlds")


class WorldPlugin(Protocol):
    """What an entry point of the group gives: a class or an object with these."""

    name: str

    def record(self) -> dict[str, object]:
        """Return what the log says of it, beside the other keys of `[simulation]`."""

    def around(self, inside: SimulatedWorld, round_us: int) -> Backend:
        """Return the world that is run.

        Args:
            inside: the simulated cluster of Shunter, as configured.
            round_us: the length of a round; 0 where every event is decided about.
        Raises:
            ConfigError: it cannot be put around that.
        """


@runtime_checkable
class PlaysPolicy(Protocol):
    """A world that must know which policy it is the world of, and its servers."""

    def playing(self, policy: AnyPolicy, servers: Iterable[ConfigurationSet]) -> WorldPlugin:
        """Return the world of a policy on these servers.

        Raises:
            ConfigError: it is not the world of that policy, or not with such servers.
        """


def world_around(
    name: str,
    inside: SimulatedWorld,
    round_us: int,
    policy: AnyPolicy,
    servers: Iterable[ConfigurationSet],
) -> Backend:
    """Return the simulated cluster inside the world of that name.

    Args:
        name: of the world.
        inside: the simulated cluster of Shunter, as configured.
        round_us: the length of a round; 0 where every event is decided about.
        policy: the one that is run.
        servers: what is in each.
    Raises:
        ConfigError: there is no such world, or it cannot be put around that.
    """
    world = find_world(name)
    if isinstance(world, PlaysPolicy):
        world = world.playing(policy, servers)
    return world.around(inside, round_us)


def find_world(name: str) -> WorldPlugin:
    """Load the world of that name.

    Raises:
        ConfigError: there is none, or its package cannot be imported.
    """
    point = WORLDS.point(name)
    if point is None:
        raise ConfigError(f"simulation.world: {WORLDS.missing(name)}")
    try:
        found = WORLDS.loaded(point)
    except ConfigError as error:
        raise ConfigError(f"simulation.world: {error}") from error
    world: WorldPlugin = found() if isinstance(found, type) else found
    lacking = [part for part in ("record", "around") if not callable(getattr(world, part, None))]
    if lacking:
        raise ConfigError(
            f"simulation.world: {name!r} of {point.value} is no world: it lacks "
            f"{', '.join(f'{part}()' for part in lacking)}"
        )
    return world
