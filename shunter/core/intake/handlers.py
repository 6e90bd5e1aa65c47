"""What each input becomes: one function a kind, from command or observation to facts."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shunter.core.cluster import Health
from shunter.core.effects import Continue, SetAside, Stop
from shunter.core.fold.attempt_transitions import job_of
from shunter.core.fold.jobs import key_of
from shunter.core.intake import reactions
from shunter.core.intake.arrays import ARRAY
from shunter.core.intake.checkpoints import attempt_started, discard_checkpoint
from shunter.core.intake.inputs import (
    AttemptExited,
    CancelJob,
    ChangePriority,
    DiscardCheckpoint,
    DrainNode,
    HoldJob,
    Input,
    NothingComes,
    ReleaseJob,
    RestoreNode,
    RoundEnded,
    SetAttemptAside,
    SubmitJob,
    SuspendJob,
    WorldEnded,
)
from shunter.core.retries import BACKING_OFF, LAUNCHES_MOST, backoff_us
from shunter.core.state import ENDING, LAUNCHING, RUNNING, Job
from shunter.events.facts.cluster import (
    NodeDrained,
    NodeLost,
    NodeReachable,
    NodeRestored,
    NodeUnreachable,
)
from shunter.events.facts.decisions import AllocationChanged
from shunter.events.facts.execution import (
    AttemptEnded,
    AttemptLost,
    AttemptSetAside,
    AttemptStarted,
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
    JobHeld,
    JobPriorityChanged,
    JobReleased,
    JobRetried,
    JobSubmitted,
)
from shunter.events.facts.profiles import ProfileSampled
from shunter.events.facts.run import ClockStepped, SegmentSealed
from shunter.events.values.allocation import NOTHING
from shunter.events.values.causes import TIMEOUT
from shunter.events.values.job_spec import SuspendMode

if TYPE_CHECKING:
    from shunter.core.scheduler import Scheduler


def submit_job(core: "Scheduler", order: SubmitJob) -> None:
    """Accept a job, and end it at once if it can never run."""
    if order.key and key_of(order.spec.user, order.key) in core.state.keys:
        return
    core.emit(
        JobSubmitted(
            order.at_us,
            order.job_id,
            order.spec,
            order.duration_us,
            order.key,
            order.environment,
        )
    )
    job = core.state.jobs[order.job_id]
    answer = reactions.to_submission(core.state, core.admission, order.at_us, job)
    if answer is not None:
        core.emit(answer)
        core.terminate(job)
        _cancel_stranded(core, order.at_us)
        return
    core.arrays.add(job)
    _await_turn(core, job, order.at_us)


def cancel_job(core: "Scheduler", order: CancelJob) -> None:
    """Ask a job to end; one that holds nothing has ended with that."""
    job = core.state.jobs.get(order.job_id)
    if job is None or job.phase is ENDING:
        return
    core.emit(JobCancelRequested(order.at_us, order.job_id, order.by))
    core.terminate(job)
    if job.since_us is None:
        _end(core, job, order.at_us, None)


def hold_job(core: "Scheduler", order: HoldJob) -> None:
    """Keep a job from starting; one that has ended meanwhile needs no order any more."""
    if order.job_id in core.state.jobs:
        core.emit(JobHeld(order.at_us, order.job_id, order.by))


def suspend_job(core: "Scheduler", order: SuspendJob) -> None:
    """Keep a job from starting, and take back what it was given if it can leave that.

    One of mode `stop` that runs keeps its GPUs, and stands still on them.
    """
    job = core.state.jobs.get(order.job_id)
    if job is None or job.phase is ENDING:
        return
    core.emit(JobHeld(order.at_us, order.job_id, order.by))
    if core.rules.is_live and stays_in_place(job):
        core.order(Stop(job.job_id, job.attempt))
        return
    stays = job.since_us is not None and job.spec.suspend_mode is SuspendMode.never
    if job.allocation.shares and not stays:
        core.carry_out(
            AllocationChanged(
                order.at_us, order.job_id, NOTHING, reactions.HELD, instant=core.rules.instant
            )
        )


def stays_in_place(job: Job) -> bool:
    """Say whether a job that somebody suspends is to stand still on its GPUs."""
    works = job.phase is RUNNING or job.phase is LAUNCHING
    return works and job.spec.suspend_mode is SuspendMode.stop


def release_job(core: "Scheduler", order: ReleaseJob) -> None:
    """Let a held job start."""
    job = core.state.jobs.get(order.job_id)
    if job is not None and job.is_on_hold:
        core.emit(JobReleased(order.at_us, order.job_id, order.by))
        if job.since_us is None:
            _await_turn(core, job, order.at_us)
        elif core.rules.is_live and stays_in_place(job):
            core.order(Continue(job.job_id, job.attempt))


def change_priority(core: "Scheduler", order: ChangePriority) -> None:
    """Give a job another priority."""
    if order.job_id in core.state.jobs:
        core.emit(JobPriorityChanged(order.at_us, order.job_id, order.priority, order.by))


def set_attempt_aside(core: "Scheduler", order: SetAttemptAside) -> None:
    """Believe nothing more of a job's attempt, and hold the job until it is released."""
    job = core.state.jobs.get(order.job_id)
    if job is None or job.since_us is None or job.set_aside == job.attempt:
        return
    if job.phase is not ENDING:
        core.emit(JobHeld(order.at_us, order.job_id, order.by))
    core.emit(AttemptSetAside(order.at_us, order.job_id, job.attempt, order.by))
    core.order(SetAside(job.job_id, job.attempt))


def drain_node(core: "Scheduler", order: DrainNode) -> None:
    """Offer nothing of a server any more."""
    core.emit(NodeDrained(order.at_us, order.node, order.by))


def restore_node(core: "Scheduler", order: RestoreNode) -> None:
    """Offer a server again."""
    if core.state.cluster.server(order.node).drained:
        core.emit(NodeRestored(order.at_us, order.node, order.by))


def attempt_exited(core: "Scheduler", seen: AttemptExited) -> None:
    """End a job whose processes are gone; if its GPUs are free too, that is one fact."""
    job = core.state.jobs.get(seen.job_id) or job_of(core.state, seen.job_id, "AttemptExited")
    if not core.rules.instant or not seen.released or _may_retry(core, job):
        gone_us = seen.ended_us if core.rules.is_live else None
        core.emit(AttemptEnded(seen.at_us, seen.job_id, seen.attempt, seen.exit_code, gone_us))
        if not seen.released:
            return
        core.emit(GpusReleased(seen.at_us, seen.job_id, seen.attempt))
    _end(core, job, seen.at_us, seen.exit_code, seen.ended_us)


def gpus_released(core: "Scheduler", seen: GpusReleased) -> None:
    """Note that GPUs are free, and end the job if that was all it waited for."""
    job = job_of(core.state, seen.job_id, type(seen).__name__)
    core.emit(seen)
    if job.phase is ENDING:
        _end(core, job, seen.at_us, job.exit_code)


def job_suspended(core: "Scheduler", seen: JobSuspended) -> None:
    """Note that a job leaves; one that was not asked to waits before it is resumed.

    So a job that always leaves at once is not launched again as fast as the machine can.
    """
    job = job_of(core.state, seen.job_id, type(seen).__name__)
    left_by_itself = job.phase is RUNNING
    core.emit(seen)
    if left_by_itself and not job.is_on_hold:
        core.emit(JobHeld(seen.at_us, job.job_id, BACKING_OFF))
        core.returns.add(job)


def attempt_failed(core: "Scheduler", seen: AttemptLost | LaunchFailed) -> None:
    """Note that an attempt is over; a job that was about to end gets no other one."""
    job = job_of(core.state, seen.job_id, type(seen).__name__)
    ends, was_launching = job.phase is ENDING, job.phase is LAUNCHING
    lived_us = 0 if job.since_us is None else seen.at_us - job.since_us
    core.emit(seen)
    if ends:
        _end(core, job, seen.at_us, job.exit_code)
    elif isinstance(seen, AttemptLost):
        _back_off(core, job, seen.at_us, lived_us)
    elif was_launching:
        if seen.retryable and seen.checkpoint_on:
            _try_again(core, job, seen.at_us, lived_us)
        elif seen.retryable and job.launches_failed < LAUNCHES_MOST:
            core.emit(JobHeld(seen.at_us, job.job_id, BACKING_OFF))
            core.returns.add(job)
        else:
            core.emit(JobFailed(seen.at_us, job.job_id, f"launch: {seen.cause}"))
            _cancel_stranded(core, seen.at_us)


def node_unreachable(core: "Scheduler", seen: NodeUnreachable) -> None:
    """Note that a server does not answer; of a lost one that is nothing new."""
    if core.state.cluster.server(seen.node).health is not Health.lost:
        core.emit(seen)


def node_lost(core: "Scheduler", seen: NodeLost) -> None:
    """Note a dead server; take back what was promised there to jobs not launched yet."""
    core.emit(seen)
    for withdrawal in reactions.to_lost_node(core.state, seen):
        core.emit(withdrawal)


def world_ended(core: "Scheduler", seen: WorldEnded) -> None:
    """Note that nothing more will come; whoever waits gets a last round."""
    core.world_ended = True
    if core.rules.backend_rounds and core.state.jobs:
        core.round_ended = True


def nothing_comes(core: "Scheduler", seen: NothingComes) -> None:
    """Note that only the policy and its timers can still do something."""
    core.nothing_comes = True


def round_ended(core: "Scheduler", seen: RoundEnded) -> None:
    """Note that it is time to plan."""
    core.round_ended = True


def as_is(core: "Scheduler", seen: Any) -> None:
    """Record an observation that is a fact already."""
    core.emit(seen)


def profile_sampled(core: "Scheduler", seen: ProfileSampled) -> None:
    """Record a sample, unless its attempt is gone: samples come late."""
    job = core.state.jobs.get(seen.job_id)
    if job is not None and job.attempt == seen.attempt and job.since_us is not None:
        core.emit(seen)


def _end(
    core: "Scheduler", job: Job, at_us: int, exit_code: int | None, ended_us: int | None = None
) -> None:
    """Say how a job ended that holds nothing now (or lets go with this very fact).

    One that failed by itself and has retries left waits for its next attempt instead.
    """
    # Logs of simulations say it of jobs that finished, and of no others.
    gone_us = ended_us if core.rules.is_live else None
    if job.end_cause == TIMEOUT:
        core.emit(JobFailed(at_us, job.job_id, TIMEOUT, exit_code, gone_us))
    elif job.end_cause:
        core.emit(JobCancelled(at_us, job.job_id, job.end_cause, gone_us))
    elif exit_code == 0:
        core.emit(JobFinished(at_us, job.job_id, ended_us))
    elif _may_retry(core, job) and job.failures <= job.spec.retries:
        _retry(core, job, at_us)
        return
    else:
        core.emit(JobFailed(at_us, job.job_id, "exit", exit_code, gone_us))
    if core.state.stranded:
        _cancel_stranded(core, at_us)


def _may_retry(core: "Scheduler", job: Job) -> bool:
    """Say whether an attempt may follow a failure; in a trace it is the end."""
    return core.rules.is_live and job.spec.retries > 0


def _retry(core: "Scheduler", job: Job, at_us: int) -> None:
    """Let a job that failed by itself wait for its next attempt."""
    core.emit(JobRetried(at_us, job.job_id, job.attempt))
    if not job.is_on_hold:
        until_us = at_us + backoff_us(job.failures)
        core.emit(JobHeld(at_us, job.job_id, BACKING_OFF, until_us))
        core.returns.add(job)


def _back_off(core: "Scheduler", job: Job, at_us: int, lived_us: int) -> None:
    """Let a job wait that is lost again and again; a first loss is not its own fault."""
    waits_us = (
        core.losses.wait_us(job.job_id, lived_us, core.state.jobs) if core.rules.is_live else 0
    )
    if waits_us and not job.is_on_hold:
        core.emit(JobHeld(at_us, job.job_id, BACKING_OFF, at_us + waits_us))
        core.returns.add(job)


def _try_again(core: "Scheduler", job: Job, at_us: int, lived_us: int) -> None:
    """Let a job wait whose checkpoint could not be brought, however often."""
    waits_us = core.losses.wait_us(job.job_id, lived_us, core.state.jobs)
    core.emit(JobHeld(at_us, job.job_id, BACKING_OFF, at_us + max(backoff_us(1), waits_us)))
    core.returns.add(job)


def _await_turn(core: "Scheduler", job: Job, at_us: int) -> None:
    """Hold a task of an array of which enough are under way."""
    if core.arrays.is_full(job, core.state.jobs):
        core.emit(JobHeld(at_us, job.job_id, ARRAY))


def _cancel_stranded(core: "Scheduler", at_us: int) -> None:
    """Cancel the jobs whose dependency ended otherwise, and those behind them."""
    for cancelled in reactions.to_end(core.state, at_us):
        # One that needs several of those that end is gone with the first of them.
        job = core.state.jobs.get(cancelled.job_id)
        if job is not None:
            core.terminate(job)
            core.emit(cancelled)
            _cancel_stranded(core, at_us)


HANDLERS: dict[type[Input], Callable[["Scheduler", Any], None]] = {
    SubmitJob: submit_job,
    CancelJob: cancel_job,
    HoldJob: hold_job,
    SuspendJob: suspend_job,
    DiscardCheckpoint: discard_checkpoint,
    ReleaseJob: release_job,
    ChangePriority: change_priority,
    SetAttemptAside: set_attempt_aside,
    DrainNode: drain_node,
    RestoreNode: restore_node,
    AttemptExited: attempt_exited,
    GpusReleased: gpus_released,
    NodeLost: node_lost,
    NothingComes: nothing_comes,
    WorldEnded: world_ended,
    RoundEnded: round_ended,
    LaunchFailed: attempt_failed,
    AttemptStarted: attempt_started,
    SpeedChanged: as_is,
    SuspendAcknowledged: as_is,
    SuspendEscalated: as_is,
    TrainingStarted: as_is,
    JobStopped: as_is,
    JobContinued: as_is,
    CheckpointSaved: as_is,
    MessagesDropped: as_is,
    JobSuspended: job_suspended,
    AttemptLost: attempt_failed,
    NodeUnreachable: node_unreachable,
    NodeReachable: as_is,
    ProfileSampled: profile_sampled,
    ClockStepped: as_is,
    SegmentSealed: as_is,
}
