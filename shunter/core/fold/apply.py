"""The one fold: the only code that changes the state.

`RULES` names one small function for each kind of event. An event that does not fit what is true
raises `IllegalEventError`: it means a bug or a corrupt log, and is never skipped.
"""

from collections.abc import Callable, Iterable
from typing import Any

from shunter.core.fold import cluster, decisions, execution, jobs, profiles, run
from shunter.core.state import NO_RESULT, FoldResult, State
from shunter.errors import IllegalEventError
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
from shunter.events.facts.profiles import (
    ProfileMeasured,
    ProfileSampled,
)
from shunter.events.facts.run import (
    ClockStepped,
    ConfigChanged,
    SchedulerStarted,
    SchedulerStopped,
    SegmentSealed,
)
from shunter.events.kinds import Event

Rule = Callable[[State, Any], FoldResult | None]
"""Folds a fact of one kind; returns what became of jobs, if that is more than the fact says."""

RULES: dict[type[Event], Rule] = {
    SchedulerStarted: run.scheduler_started,
    ConfigChanged: run.config_changed,
    ClockStepped: run.clock_stepped,
    SegmentSealed: run.segment_sealed,
    SchedulerStopped: run.scheduler_stopped,
    NodeAdded: cluster.node_added,
    NodeDrained: cluster.node_drained,
    NodeRestored: cluster.node_restored,
    NodeUnreachable: cluster.node_unreachable,
    NodeReachable: cluster.node_reachable,
    NodeLost: cluster.node_lost,
    NodeRemoved: cluster.node_removed,
    GpuQuarantined: cluster.gpu_quarantined,
    GpuRestored: cluster.gpu_restored,
    QuotaChanged: cluster.quota_changed,
    JobSubmitted: jobs.job_submitted,
    JobRejected: jobs.job_rejected,
    JobHeld: jobs.job_held,
    JobReleased: jobs.job_released,
    JobResized: jobs.job_resized,
    JobRetried: jobs.job_retried,
    JobPriorityChanged: jobs.job_priority_changed,
    JobGroupChanged: jobs.job_group_changed,
    JobCancelRequested: jobs.job_cancel_requested,
    TimeLimitReached: jobs.time_limit_reached,
    JobFinished: jobs.job_finished,
    JobFailed: jobs.job_failed,
    JobCancelled: jobs.job_cancelled,
    RoundPlanned: decisions.round_planned,
    TargetsSet: decisions.targets_set,
    AllocationChanged: decisions.allocation_changed,
    WaitReasonChanged: decisions.wait_reason_changed,
    PlanRejected: decisions.plan_rejected,
    PolicySetAside: decisions.policy_set_aside,
    GangProposed: decisions.not_emitted_yet,
    GangApproved: decisions.not_emitted_yet,
    GangRejected: decisions.not_emitted_yet,
    ReservationSet: decisions.reservation_set,
    TrialStarted: decisions.not_emitted_yet,
    TrialKept: decisions.not_emitted_yet,
    TrialReverted: decisions.not_emitted_yet,
    LaunchFailed: execution.launch_failed,
    AttemptStarted: execution.attempt_started,
    SuspendAcknowledged: execution.suspend_acknowledged,
    SuspendEscalated: execution.suspend_escalated,
    JobStopped: execution.job_stopped,
    JobContinued: execution.job_continued,
    CheckpointSaved: execution.checkpoint_saved,
    CheckpointDiscarded: execution.checkpoint_discarded,
    JobSuspended: execution.job_suspended,
    AttemptEnded: execution.attempt_ended,
    AttemptLost: execution.attempt_lost,
    GpusReleased: execution.gpus_released,
    SpeedChanged: execution.speed_changed,
    TrainingStarted: execution.training_started,
    MessagesDropped: execution.messages_dropped,
    AttemptSetAside: execution.attempt_set_aside,
    ProfileSampled: profiles.profile_sampled,
    ProfileMeasured: profiles.profile_measured,
}


def apply(state: State, event: Event) -> FoldResult:
    """Fold one fact into the state; return what became of jobs with it.

    Raises:
        IllegalEventError: the fact contradicts the state, or is older than it.
    """
    if event.at_us < state.now_us:
        raise IllegalEventError(
            f"{type(event).__name__} at {event.at_us} us follows an event at {state.now_us} us"
        )
    result = RULES[type(event)](state, event)
    state.now_us = event.at_us
    state.seq += 1
    return result or NO_RESULT


def replay(events: Iterable[Event], state: State | None = None) -> State:
    """Fold facts in order, from nothing or from a state that was true before them."""
    state = State() if state is None else state
    for event in events:
        apply(state, event)
    return state
