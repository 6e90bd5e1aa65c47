"""`[simulation]`: what things cost in the simulated world, how leases work, and what breaks."""

from pydantic import Field

from shunter.app.config.section import Section, Share, Span, Stretch
from shunter.backends.simulated.costs import Costs
from shunter.backends.simulated.lease import Credit, EndSeen, Lease, Progress, RoundEnds

__all__ = ["CostsSection", "FailuresSection", "LeaseSection", "SimulationSection", "SpeedsSection"]


class CostsSection(Section):
    """Time in which a job holds its GPUs and does no work."""

    start: Span = Field(default=0, description="a first launch")
    suspend: Span = Field(default=0, description="saving a checkpoint on the way out")
    resume: Span = Field(default=0, description="a launch from a checkpoint")
    migrate: Span = Field(default=0, description="a launch from a checkpoint after a move, instead")

    def costs(self) -> Costs:
        """Return them as the simulated backend takes them."""
        return Costs(self.start, self.suspend, self.resume, self.migrate)


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
    """Servers that die and come back; times are exponential with these means."""

    mtbf: Span = Field(
        default=0, description="mean time between failures of a server; 0: none fails"
    )
    mttr: Stretch = Field(
        default=3_600_000_000, description="mean time to repair; one hour, our choice"
    )
    rack_mtbf: Span = Field(
        default=0, description="mean time between failures of a rack; 0: none fails"
    )


class SpeedsSection(Section):
    """How fast jobs run on each GPU type, relative to the speed of their trace."""

    relative: dict[str, Share] = Field(
        default={}, description="speed by GPU type; 1 where left out"
    )


class SimulationSection(Section):
    """The simulated world."""

    costs: CostsSection = Field(default=CostsSection(), description="what launches and moves cost")
    lease: LeaseSection = Field(default=LeaseSection(), description="how a lease works")
    failures: FailuresSection = Field(
        default=FailuresSection(), description="what breaks, and how often"
    )
    speeds: SpeedsSection = Field(default=SpeedsSection(), description="how fast each GPU type is")

    @property
    def has_leases(self) -> bool:
        """Whether any switch of the lease is not at its default."""
        return self.lease != LeaseSection()
