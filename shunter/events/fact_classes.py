"""The class of every fact: what `replay --verify` takes from a log, and what it makes once more.

observed   a backend or a clock saw it             commanded  a person or the config wants it
derived    follows from a fact and the state        decided    a policy's plan led to it

Observed and commanded facts are what a scheduler cannot know by itself, and are taken as they are.
Derived and decided ones are made once more, and compared. Where a backend's outcomes take no time,
an end of an attempt and what follows from it are one fact, that of the job's end: there its exit
code and instant are taken as observed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from shunter.events import facts
from shunter.events.facts import Event
from shunter.events.values import (
    ARRAY,
    BACKING_OFF,
    BY_POLICY,
    CALLER,
    CHECKPOINT,
    DISPLACED,
    GIVEN_UP,
    HELD,
    LOST,
    NODE_LOST,
    PROPOSED,
    REPEATED,
    RESIZED,
    STAYS,
    Because,
)


class FactClass(StrEnum):
    """Where a fact comes from."""

    observed = "observed"
    commanded = "commanded"
    derived = "derived"
    decided = "decided"


_OBSERVED, _COMMANDED, _DERIVED, _DECIDED = FactClass


@dataclass(frozen=True)
class KindClass:
    """The class of a kind, and where `cause` is one of those named, another one."""

    usual: FactClass
    cause: str = ""
    others: Mapping[str | Because, FactClass] = field(default_factory=dict)


_HOLDERS: dict[str | Because, FactClass] = dict.fromkeys(
    (BACKING_OFF, ARRAY, CHECKPOINT, STAYS), _DERIVED
)

CLASSES: Final[Mapping[type[Event], KindClass]] = {
    facts.SchedulerStarted: KindClass(_COMMANDED),
    facts.ConfigChanged: KindClass(_COMMANDED),
    facts.ClockStepped: KindClass(_OBSERVED),
    facts.SegmentSealed: KindClass(_OBSERVED),
    facts.SchedulerStopped: KindClass(_COMMANDED),
    facts.EventsLost: KindClass(_COMMANDED),
    facts.NodeAdded: KindClass(_COMMANDED),
    facts.NodeDrained: KindClass(_COMMANDED),
    facts.NodeRestored: KindClass(_COMMANDED),
    facts.NodeUnreachable: KindClass(_OBSERVED),
    facts.NodeReachable: KindClass(_OBSERVED),
    facts.NodeLost: KindClass(_OBSERVED),
    facts.NodeRemoved: KindClass(_COMMANDED),
    facts.GpuQuarantined: KindClass(_OBSERVED),
    facts.GpuRestored: KindClass(_OBSERVED),
    facts.GpusTaken: KindClass(_OBSERVED),
    facts.QuotaChanged: KindClass(_COMMANDED),
    facts.JobSubmitted: KindClass(_COMMANDED),
    facts.JobRejected: KindClass(_DERIVED),
    facts.JobHeld: KindClass(_COMMANDED, "by", _HOLDERS),
    facts.JobReleased: KindClass(_COMMANDED, "by", _HOLDERS),
    facts.JobResized: KindClass(_COMMANDED, "by", {BY_POLICY: _DECIDED}),
    facts.JobRetried: KindClass(_DERIVED),
    facts.JobPriorityChanged: KindClass(_COMMANDED),
    facts.JobGroupChanged: KindClass(_COMMANDED),
    facts.JobCancelRequested: KindClass(_COMMANDED),
    facts.TimeLimitReached: KindClass(_DERIVED),
    facts.JobFinished: KindClass(_DERIVED),
    facts.JobFailed: KindClass(_DERIVED),
    facts.JobCancelled: KindClass(_DERIVED),
    facts.RoundPlanned: KindClass(_DECIDED),
    facts.TargetsSet: KindClass(_DECIDED),
    facts.SizesSet: KindClass(_DECIDED),
    facts.AllocationChanged: KindClass(
        _DECIDED,
        "because",
        {
            **dict.fromkeys((NODE_LOST, DISPLACED, RESIZED, PROPOSED), _DERIVED),
            HELD: _COMMANDED,
        },
    ),
    facts.JobReshaped: KindClass(_DECIDED),
    facts.WaitReasonChanged: KindClass(_DECIDED),
    facts.PlanRejected: KindClass(_DECIDED),
    facts.PolicySetAside: KindClass(_OBSERVED),
    facts.GangProposed: KindClass(_DECIDED, "cause", {CALLER: _COMMANDED}),
    facts.GangApproved: KindClass(_DECIDED, "cause", {CALLER: _DERIVED}),
    facts.GangRejected: KindClass(_DECIDED, "cause", {CALLER: _DERIVED, REPEATED: _OBSERVED}),
    facts.ReservationSet: KindClass(_DECIDED),
    facts.TrialStarted: KindClass(_DECIDED),
    facts.TrialKept: KindClass(_DECIDED),
    facts.TrialReverted: KindClass(_DECIDED),
    facts.LaunchFailed: KindClass(_OBSERVED),
    facts.AttemptStarted: KindClass(_OBSERVED),
    facts.SuspendAcknowledged: KindClass(_OBSERVED),
    facts.SuspendEscalated: KindClass(_OBSERVED),
    facts.TrainingStarted: KindClass(_OBSERVED),
    facts.JobStopped: KindClass(_OBSERVED),
    facts.JobContinued: KindClass(_OBSERVED),
    facts.TurnStarted: KindClass(_OBSERVED),
    facts.TurnEnded: KindClass(_OBSERVED),
    facts.CheckpointSaved: KindClass(_OBSERVED),
    facts.CheckpointDiscarded: KindClass(
        _COMMANDED, "cause", {LOST: _DERIVED, GIVEN_UP: _COMMANDED}
    ),
    facts.JobSuspended: KindClass(_OBSERVED),
    facts.AttemptEnded: KindClass(_OBSERVED),
    facts.AttemptLost: KindClass(_OBSERVED),
    facts.GpusReleased: KindClass(_OBSERVED),
    facts.SpeedChanged: KindClass(_OBSERVED),
    facts.MessagesDropped: KindClass(_OBSERVED),
    facts.JobWarned: KindClass(_OBSERVED),
    facts.AttemptSetAside: KindClass(_COMMANDED),
    facts.AllocationLearned: KindClass(_OBSERVED),
    facts.ReshapeRefused: KindClass(_OBSERVED),
    facts.ProfileSampled: KindClass(_OBSERVED),
    facts.ProfileMeasured: KindClass(_OBSERVED),
    facts.SensitivityCorrected: KindClass(_DERIVED),
    facts.ToleranceLearnt: KindClass(_DERIVED),
}
"""The class of every kind, and of the causes by which it has another one."""


def class_of(event: Event) -> FactClass:
    """Return where a fact comes from."""
    known = CLASSES[type(event)]
    if not known.cause:
        return known.usual
    return known.others.get(_cause_of(event, known), known.usual)


def _cause_of(event: Event, known: KindClass) -> str | Because:
    """Return the cause by which a fact is classed: a displacement, by whomever it is."""
    cause: str | Because = getattr(event, known.cause)
    is_displaced = isinstance(cause, Because) and cause.rule == DISPLACED.rule
    return DISPLACED if is_displaced else cause


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
        return self.cause is None or _cause_of(event, CLASSES[self.kind]) == self.cause


DERIVED_KINDS: Final = tuple(
    DerivedKind(kind, cause)
    for kind, known in CLASSES.items()
    for cause in (None, *known.others)
    if (known.usual if cause is None else known.others[cause]) is FactClass.derived
)
"""All that follows from facts and the state: what `replay --verify` makes once more."""
