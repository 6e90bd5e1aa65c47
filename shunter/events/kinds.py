"""The closed list of event kinds: the union type, and each class by its name on disk."""

from typing import TypeAlias

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

RunEvent: TypeAlias = (
    SchedulerStarted | ConfigChanged | ClockStepped | SegmentSealed | SchedulerStopped
)
ClusterEvent: TypeAlias = (
    NodeAdded
    | NodeDrained
    | NodeRestored
    | NodeUnreachable
    | NodeReachable
    | NodeLost
    | NodeRemoved
    | GpuQuarantined
    | GpuRestored
    | QuotaChanged
)
JobEvent: TypeAlias = (
    JobSubmitted
    | JobRejected
    | JobHeld
    | JobReleased
    | JobResized
    | JobRetried
    | JobPriorityChanged
    | JobGroupChanged
    | JobCancelRequested
    | TimeLimitReached
    | JobFinished
    | JobFailed
    | JobCancelled
)
DecisionEvent: TypeAlias = (
    RoundPlanned
    | TargetsSet
    | AllocationChanged
    | WaitReasonChanged
    | PlanRejected
    | PolicySetAside
    | GangProposed
    | GangApproved
    | GangRejected
    | ReservationSet
    | TrialStarted
    | TrialKept
    | TrialReverted
)
ExecutionEvent: TypeAlias = (
    LaunchFailed
    | AttemptStarted
    | SuspendAcknowledged
    | SuspendEscalated
    | TrainingStarted
    | JobStopped
    | JobContinued
    | CheckpointSaved
    | CheckpointDiscarded
    | JobSuspended
    | AttemptEnded
    | AttemptLost
    | GpusReleased
    | SpeedChanged
    | MessagesDropped
    | AttemptSetAside
)
ProfileEvent: TypeAlias = ProfileSampled | ProfileMeasured
Event: TypeAlias = (
    RunEvent | ClusterEvent | JobEvent | DecisionEvent | ExecutionEvent | ProfileEvent
)

KINDS: dict[str, type[Event]] = {kind.__name__: kind for kind in Event.__args__}
