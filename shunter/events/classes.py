"""Which facts are inputs, and which follow from others: a class for each kind and cause.

    observed   a backend or a clock saw it             commanded  a person or the config wants it
    derived    follows from a fact and the state        decided    a policy's plan led to it

Observed and commanded facts are what a scheduler cannot know by itself: `replay --verify` takes
them from the log as they are. Derived and decided ones it makes once more, and compares. Where a
backend's outcomes take no time, an end of an attempt and what follows from it are one fact, that of
the job's end: there its exit code and instant are taken as observed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from shunter.events.facts.cluster import (
    GpuQuarantined,
    GpuRestored,
    NodeAdded,
    NodeDrained,
    NodeLost,
    NodeReachable,
    NodeRemoved,
    NodeRestored,
    NodeUnreachable,
    QuotaChanged,
)
from shunter.events.facts.decisions import (
    AllocationChanged,
    GangApproved,
    GangProposed,
    GangRejected,
    PlanRejected,
    PolicySetAside,
    ReservationSet,
    RoundPlanned,
    TargetsSet,
    TrialKept,
    TrialReverted,
    TrialStarted,
    WaitReasonChanged,
)
from shunter.events.facts.execution import (
    AttemptEnded,
    AttemptLost,
    AttemptSetAside,
    AttemptStarted,
    CheckpointDiscarded,
    CheckpointSaved,
    GpusReleased,
    JobContinued,
    JobStopped,
    JobSuspended,
    LaunchFailed,
    MessagesDropped,
    SpeedChanged,
    SuspendAcknowledged,
    SuspendEscalated,
    TrainingStarted,
)
from shunter.events.facts.jobs import (
    JobCancelled,
    JobCancelRequested,
    JobFailed,
    JobFinished,
    JobGroupChanged,
    JobHeld,
    JobPriorityChanged,
    JobRejected,
    JobReleased,
    JobResized,
    JobRetried,
    JobSubmitted,
    TimeLimitReached,
)
from shunter.events.facts.profiles import ProfileMeasured, ProfileSampled
from shunter.events.facts.run import (
    ClockStepped,
    ConfigChanged,
    SchedulerStarted,
    SchedulerStopped,
    SegmentSealed,
)
from shunter.events.kinds import Event
from shunter.events.values.causes import (
    ARRAY,
    BACKING_OFF,
    CHECKPOINT,
    GIVEN_UP,
    HELD,
    LOST,
    NODE_LOST,
)
from shunter.events.values.reasons import Because

__all__ = ["CLASSES", "DERIVED", "DerivedKind", "FactClass", "class_of"]


class FactClass(StrEnum):
    """Where a fact comes from."""

    observed = "observed"
    commanded = "commanded"
    derived = "derived"
    decided = "decided"


_OBSERVED, _COMMANDED, _DERIVED, _DECIDED = FactClass


@dataclass(frozen=True)
class _Class:
    """The class of a kind, and where `cause` is one of those named, another one."""

    usual: FactClass
    cause: str = ""
    others: Mapping[str | Because, FactClass] = field(default_factory=dict)


_HOLDERS: dict[str | Because, FactClass] = dict.fromkeys((BACKING_OFF, ARRAY, CHECKPOINT), _DERIVED)

CLASSES: Final[Mapping[type[Event], _Class]] = {
    SchedulerStarted: _Class(_COMMANDED),
    ConfigChanged: _Class(_COMMANDED),
    ClockStepped: _Class(_OBSERVED),
    SegmentSealed: _Class(_OBSERVED),
    SchedulerStopped: _Class(_COMMANDED),
    NodeAdded: _Class(_COMMANDED),
    NodeDrained: _Class(_COMMANDED),
    NodeRestored: _Class(_COMMANDED),
    NodeUnreachable: _Class(_OBSERVED),
    NodeReachable: _Class(_OBSERVED),
    NodeLost: _Class(_OBSERVED),
    NodeRemoved: _Class(_COMMANDED),
    GpuQuarantined: _Class(_OBSERVED),
    GpuRestored: _Class(_OBSERVED),
    QuotaChanged: _Class(_COMMANDED),
    JobSubmitted: _Class(_COMMANDED),
    JobRejected: _Class(_DERIVED),
    JobHeld: _Class(_COMMANDED, "by", _HOLDERS),
    JobReleased: _Class(_COMMANDED, "by", _HOLDERS),
    JobResized: _Class(_COMMANDED),
    JobRetried: _Class(_DERIVED),
    JobPriorityChanged: _Class(_COMMANDED),
    JobGroupChanged: _Class(_COMMANDED),
    JobCancelRequested: _Class(_COMMANDED),
    TimeLimitReached: _Class(_DERIVED),
    JobFinished: _Class(_DERIVED),
    JobFailed: _Class(_DERIVED),
    JobCancelled: _Class(_DERIVED),
    RoundPlanned: _Class(_DECIDED),
    TargetsSet: _Class(_DECIDED),
    AllocationChanged: _Class(_DECIDED, "because", {NODE_LOST: _DERIVED, HELD: _COMMANDED}),
    WaitReasonChanged: _Class(_DECIDED),
    PlanRejected: _Class(_DECIDED),
    PolicySetAside: _Class(_OBSERVED),
    GangProposed: _Class(_DECIDED),
    GangApproved: _Class(_DECIDED),
    GangRejected: _Class(_DECIDED),
    ReservationSet: _Class(_DECIDED),
    TrialStarted: _Class(_DECIDED),
    TrialKept: _Class(_DECIDED),
    TrialReverted: _Class(_DECIDED),
    LaunchFailed: _Class(_OBSERVED),
    AttemptStarted: _Class(_OBSERVED),
    SuspendAcknowledged: _Class(_OBSERVED),
    SuspendEscalated: _Class(_OBSERVED),
    TrainingStarted: _Class(_OBSERVED),
    JobStopped: _Class(_OBSERVED),
    JobContinued: _Class(_OBSERVED),
    CheckpointSaved: _Class(_OBSERVED),
    CheckpointDiscarded: _Class(_COMMANDED, "cause", {LOST: _DERIVED, GIVEN_UP: _COMMANDED}),
    JobSuspended: _Class(_OBSERVED),
    AttemptEnded: _Class(_OBSERVED),
    AttemptLost: _Class(_OBSERVED),
    GpusReleased: _Class(_OBSERVED),
    SpeedChanged: _Class(_OBSERVED),
    MessagesDropped: _Class(_OBSERVED),
    AttemptSetAside: _Class(_COMMANDED),
    ProfileSampled: _Class(_OBSERVED),
    ProfileMeasured: _Class(_OBSERVED),
}
"""The class of every kind, and of the causes by which it has another one."""


def class_of(event: Event) -> FactClass:
    """Return where a fact comes from."""
    known = CLASSES[type(event)]
    if not known.cause:
        return known.usual
    return known.others.get(getattr(event, known.cause), known.usual)


@dataclass(frozen=True)
class DerivedKind:
    """A kind of which all facts, or those with one cause, follow from others."""

    kind: type[Event]
    cause: str | Because | None = None

    @property
    def name(self) -> str:
        """The kind by its name, with the cause: `JobHeld array`."""
        cause = self.cause.rule if isinstance(self.cause, Because) else self.cause
        return self.kind.__name__ if cause is None else f"{self.kind.__name__} {cause}"

    def has(self, event: Event) -> bool:
        """Say whether a fact is one of these."""
        if type(event) is not self.kind:
            return False
        return self.cause is None or getattr(event, CLASSES[self.kind].cause) == self.cause


DERIVED: Final = tuple(
    DerivedKind(kind, cause)
    for kind, known in CLASSES.items()
    for cause in (None, *known.others)
    if (known.usual if cause is None else known.others[cause]) is _DERIVED
)
"""All that follows from facts and the state: what `replay --verify` makes once more."""
