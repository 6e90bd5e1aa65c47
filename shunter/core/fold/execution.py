"""Rules for the facts that backends observe."""

from shunter.core.fold.attempts import (
    attempt_of,
    back_to_queue,
    can_begin,
    can_end,
    checkpoints_after_move,
    checkpoints_at_start,
    discount,
    drop_checkpoints,
    enter,
    fall_back,
    grant,
    hold_anew,
    job_of,
    launch,
    leave_trial,
    let_go,
    may_launch,
    measure_neighbours,
    note_turn,
    part_began,
    part_ended,
    saved_step,
    start_work,
    stop_work,
    was_not_preempted,
    withdraw,
)
from shunter.core.fold.servers import move_to, take_back_grants
from shunter.core.state import (
    ENDING,
    LAUNCHING,
    LEAVING,
    RUNNING,
    SUSPENDING,
    FoldResult,
    Job,
    Rule,
    State,
)
from shunter.errors import IllegalEventError
from shunter.events import Allocation, Event, NodeName, Reason, Share, Sharing, Wait, facts

# A server refused a change of CPUs or memory: the attempt keeps what it has, though others may have
# been given it. Jobs that wait to be launched there are displaced, the last first.


def reshape_refused(state: State, event: facts.ReshapeRefused) -> FoldResult | None:
    """Book what an attempt keeps, and ask it for nothing else.

    Where it was to have yet other shares meanwhile, those are asked for, and this is a note.
    """
    job = attempt_of(state, event)
    if len(event.wanted) != len(event.kept) or not all(map(_is_beside, event.wanted, event.kept)):
        raise IllegalEventError(f"job {job.job_id} cannot keep {event.kept} for {event.wanted}")
    held = job.held
    if not all(share in held.shares for share in event.wanted):
        return None
    kept = dict(zip(event.wanted, event.kept, strict=True))
    now = Allocation(tuple([kept.get(share, share) for share in held.shares]), held.sharing)
    stays = job.allocation == held
    job.held = now
    if not stays:  # what it leaves is booked for it no more
        return None
    state.cluster.reshape(held.shares, now.shares)
    job.allocation, job.keeps_shares = now, job.attempt
    return take_back_grants(state, [share.node for share in event.kept], event.at_us)


def _is_beside(wanted: Share, kept: Share) -> bool:
    """Say whether two shares are amounts beside the same GPUs."""
    same = wanted.node == kept.node and wanted.gpu_mask == kept.gpu_mask
    return same and kept.cpus_milli >= 0 and kept.memory_mb >= 0


START_UP_US = 60_000_000
"""How long the first attempt may prepare of a job that has told no mini-batch yet."""

_SLICED = Sharing.sliced  # members are slow to look up

START_UP_MOST_US = 600_000_000
"""How long an attempt may prepare of a job of which a mini-batch was told before."""

UNTOLD_MOST = 4
"""So many attempts without a mini-batch that is told; after them none is waited for."""


def launch_failed(state: State, event: facts.LaunchFailed) -> FoldResult:
    """Put a job back that never started; that it was displaced is no failure."""
    job = attempt_of(state, event)
    if not event.checkpoint_on and job.held.shares:
        job.launches_failed += 1
    if event.waited:
        job.since_us = event.at_us
    if event.checkpoint_stays and len(event.checkpoint_on) == 1:
        (job.stays_on,) = event.checkpoint_on
    return fall_back(state, job, event.at_us)


def attempt_started(state: State, event: facts.AttemptStarted) -> None:
    """Note that a job makes progress, unless it was asked to leave meanwhile.

    It does from when it began on, but at the earliest from its launch, whatever clocks say.
    """
    job = attempt_of(state, event)
    began_us = event.at_us
    if event.started_us is not None:
        if event.started_us > event.at_us:
            raise IllegalEventError(
                f"attempt {event.attempt} of job {event.job_id} was seen to start at "
                f"{event.at_us}, and began at {event.started_us}, expected before"
            )
        began_us = max(event.started_us, job.since_us or 0)
    if job.phase is RUNNING or job.working_since_us is not None:
        raise IllegalEventError(f"attempt {event.attempt} of job {event.job_id} started twice")
    job.launches_failed = job.notes = 0
    job.notes_on = ()
    job.stays_on = None
    if event.waited:
        job.since_us, job.attempt_since_us = began_us, None
    start_work(job, began_us, 0.0 if job.awaits_turn else event.speed)
    if state.has_live_turns:
        measure_neighbours(state, job, event.at_us)
    if job.phase is LAUNCHING:  # else it was asked to leave meanwhile
        enter(job, RUNNING)
    counts_from_us = began_us + (_start_up_us(job) if event.may_tell_training else 0)
    if counts_from_us != job.since_us:
        job.counts_from_us = counts_from_us
    if event.checkpoints_stay or event.keeps_split or job.checkpoints is not None:
        checkpoints_at_start(state, job, event)


def allocation_learned(state: State, event: facts.AllocationLearned) -> FoldResult:
    """Let an attempt hold the GPUs it was found on, whoever had them."""
    job = attempt_of(state, event)
    result = move_to(state, job, event.allocation, event.at_us)
    checkpoints_after_move(state, job)
    return result


def training_started(state: State, event: facts.TrainingStarted) -> None:
    """Count what the attempt runs from its first mini-batch on."""
    job = attempt_of(state, event)
    if job.working_since_us is None and job.phase is LAUNCHING:
        raise IllegalEventError(f"TrainingStarted of job {event.job_id}, which is {job.phase}")
    _count_note(job, event.nodes)
    job.counts_from_us = event.at_us
    job.tells_training = True


def speed_changed(state: State, event: facts.SpeedChanged) -> None:
    """Count a job's work at its old speed up to now, and at the new one from now on."""
    job = attempt_of(state, event)
    if job.working_since_us is None:
        raise IllegalEventError(f"SpeedChanged of job {event.job_id}, which is {job.phase}")
    _change_speed(job, event.speed, event.at_us)


def attempt_noted(
    state: State,
    event: facts.SuspendAcknowledged
    | facts.SuspendEscalated
    | facts.MessagesDropped
    | facts.JobWarned,
) -> None:
    """Only count a note of an attempt's journal.

    The job will leave at its next mini-batch boundary, or is made to leave by a stronger mode, or
    something that it or its host said was not taken, or its owner is warned.
    """
    _count_note(attempt_of(state, event), event.nodes)


def job_stopped(state: State, event: facts.JobStopped) -> None:
    """Stop the progress of a job that keeps all it holds; it has no turns meanwhile."""
    leave_trial(state, job_of(state, event.job_id, "JobStopped"), event.at_us)
    _go_at(state, event, 0.0)


def job_continued(state: State, event: facts.JobContinued) -> None:
    """Let a stopped job make progress again."""
    _go_at(state, event, 1.0)


def turn_started(state: State, event: facts.TurnStarted) -> None:
    """Let an attempt that shares its GPUs in turns have them."""
    is_live = event.began_us is not None  # a simulation sees them begin
    told_by = tuple([share.node for share in event.shares]) if is_live else ()
    job = _turning(state, event, told_by)
    if is_live:
        state.has_live_turns = True
    noted_us = _really(job, event.began_us, event.at_us)
    began_us: int | None = noted_us
    if not can_begin(state, job, event):
        gpus = sum([share.gpus for share in event.shares])
        raise IllegalEventError(
            f"TurnStarted of job {job.job_id} on {gpus} GPUs, it has {job.gpus}"
        )
    if job.is_spread:
        began_us = part_began(state, job, event, noted_us)
    else:
        job.moves = job.attempt if event.can_move else 0
    if began_us is not None:
        _take_turn(state, job, event.shares[0].gpu_mask, event.speed, began_us)


def turn_ended(state: State, event: facts.TurnEnded) -> None:
    """Let an attempt make no progress until its next turn."""
    job = _turning(state, event, event.nodes)
    if not can_end(state, job, event):
        raise IllegalEventError(f"TurnEnded of job {job.job_id}, which waits for its turn")
    is_on = bool(job.gpus)
    if job.is_spread:
        part_ended(state, job, event.nodes, event.at_us)
    if is_on:
        _take_turn(state, job, 0, 0.0, _really(job, event.ended_us, event.at_us))


def checkpoint_saved(state: State, event: facts.CheckpointSaved) -> None:
    """Only a note: where in it the job can go on from is known by its own folder."""
    job = attempt_of(state, event)
    _count_note(job, event.nodes)
    saved_step(job, event)


def checkpoint_discarded(state: State, event: facts.CheckpointDiscarded) -> None:
    """Count no more on what an attempt has saved."""
    job = job_of(state, event.job_id, "CheckpointDiscarded")
    drop_checkpoints(state, job, event)


def attempt_set_aside(state: State, event: facts.AttemptSetAside) -> None:
    """Note that nothing an attempt tells is believed any more."""
    job = attempt_of(state, event)
    if job.set_aside == event.attempt:
        raise IllegalEventError(f"attempt {event.attempt} of job {job.job_id} was set aside twice")
    job.set_aside = event.attempt


def job_suspended(state: State, event: facts.JobSuspended) -> None:
    """Stop the job's progress; its GPUs follow with GpusReleased."""
    job = attempt_of(state, event)
    if job.phase is RUNNING:
        enter(job, SUSPENDING)  # it left by itself, to be resumed later
        withdraw(state, job, event.at_us)
    stop_work(job, event.at_us, event.lost_us)
    _leave_turns(state, job, event.at_us)


def attempt_ended(state: State, event: facts.AttemptEnded) -> None:
    """Stop the job's progress for good; how it ended follows."""
    job = attempt_of(state, event)
    has_failed = bool(event.exit_code) and job.phase is RUNNING and not job.end_cause
    leave_trial(state, job, event.at_us, has_failed=has_failed)
    stop_work(job, event.at_us)
    if event.unused_us:
        if not 0 < event.unused_us <= event.at_us - (job.since_us or 0):
            raise IllegalEventError(
                f"attempt {event.attempt} of job {event.job_id} used nothing for "
                f"{event.unused_us} us, and has its GPUs since {job.since_us}"
            )
        discount(job, event.unused_us)
    _leave_turns(state, job, event.at_us)
    if job.phase is SUSPENDING:
        was_not_preempted(job)
    # What fails while it has to leave may do so because of that.
    if job.spec.retries and event.exit_code != 0 and job.phase is not SUSPENDING:
        job.failures += 1
    _note_early_failure(job, event)
    enter(job, ENDING)
    job.exit_code = event.exit_code


EARLY_US = 30_000_000
"""What fails so soon after its attempt began failed in its first seconds: imports take some."""

EARLY_KEPT = 8
"""On so many shares early failures of a job are remembered, the last ones."""


def _note_early_failure(job: Job, event: facts.AttemptEnded) -> None:
    """Note where a job failed in its first seconds, or that it did not."""
    began_us = job.attempt_began_us
    is_early = began_us is not None and event.at_us - began_us <= EARLY_US
    has_failed = event.exit_code != 0 and job.phase is RUNNING and not job.end_cause
    if job.spec.retries and has_failed and is_early:
        job.failed_on = (*job.failed_on, *job.held.shares)[-EARLY_KEPT:]
    else:
        job.failed_on = ()


def attempt_lost(state: State, event: facts.AttemptLost) -> FoldResult:
    """Put a job back whose processes are gone with their server."""
    job = attempt_of(state, event)
    if job.phase is SUSPENDING:
        was_not_preempted(job)
    stop_work(job, event.at_us, event.lost_us)
    job.left_for = Wait(Reason.node_lost, detail=event.cause)
    return fall_back(state, job, event.at_us)


def gpus_released(state: State, event: facts.GpusReleased) -> FoldResult:
    """Let go of the GPUs; a job that moves is launched once its new ones are free."""
    job = attempt_of(state, event)
    ends = job.phase is ENDING
    if job.phase not in LEAVING:
        raise IllegalEventError(f"GPUs of job {event.job_id} were released while {job.phase}")
    stop_work(job, event.at_us)
    launched = let_go(state, job, event.at_us)
    if ends:
        return FoldResult(launched)
    if job.allocation.shares and may_launch(state, job):
        launch(state, job, event.at_us)
        return FoldResult((*launched, job))
    back_to_queue(state, job, event.at_us)
    if job.allocation.shares:
        grant(state, job)
    return FoldResult(launched)


def _count_note(job: Job, nodes: tuple[NodeName, ...]) -> None:
    """Count a fact that a journal told, of a gang by the first of its servers.

    The next term skips as many of each when it reads the journals again.
    """
    if not nodes or not job.is_spread:
        job.notes += 1
        return
    counts = dict(job.notes_on)
    counts[nodes[0]] = counts.get(nodes[0], 0) + 1
    job.notes_on = tuple(counts.items())


def _turning(
    state: State, event: facts.TurnStarted | facts.TurnEnded, told_by: tuple[NodeName, ...]
) -> Job:
    job = attempt_of(state, event)
    if job.held.sharing is not _SLICED or job.working_since_us is None:
        kind = type(event).__name__
        raise IllegalEventError(
            f"{kind} of job {job.job_id}, which takes no turns or does not work"
        )
    _count_note(job, told_by)
    return job


def _really(job: Job, noted_us: int | None, seen_us: int) -> int:
    """Return when a turn changed that was seen later, in order of time."""
    if noted_us is None:
        return seen_us
    if noted_us > seen_us:
        raise IllegalEventError(
            f"a turn of job {job.job_id} was seen to change at {seen_us}, and did so at "
            f"{noted_us}, expected before"
        )
    return max(noted_us, job.since_us or 0, job.working_since_us or 0)


def _leave_turns(state: State, job: Job, at_us: int) -> None:
    """Let others have the turns of a job that works no more, while it saves or ends."""
    if job.held.sharing is _SLICED:
        state.gang_turns.pop(job.job_id, None)
        note_turn(state, job, 0, at_us)
        hold_anew(job, 0, at_us)


def _take_turn(state: State, job: Job, mask: int, speed: float, at_us: int) -> None:
    """Go on at a speed on some GPUs of its server, a gang on those of all."""
    _change_speed(job, speed, at_us)
    hold_anew(job, job.held.gpus if mask else 0, at_us)
    note_turn(state, job, mask, at_us)


def _change_speed(job: Job, speed: float, at_us: int) -> None:
    """Count work at the old speed up to now, and at another one from now on."""
    stop_work(job, at_us)
    start_work(job, at_us, speed)


def _start_up_us(job: Job) -> int:
    """Return how long an attempt may prepare before what it runs counts in any case.

    A job that has never told its first mini-batch may have none; that is tried a few times.
    """
    if job.tells_training:
        return START_UP_MOST_US
    if job.attempt > UNTOLD_MOST:
        return 0
    return START_UP_US << (job.attempt - 1)


def _go_at(state: State, event: facts.JobStopped | facts.JobContinued, speed: float) -> None:
    job = attempt_of(state, event)
    if job.working_since_us is None:
        kind = type(event).__name__
        raise IllegalEventError(f"{kind} of job {event.job_id}, which is {job.phase}")
    _change_speed(job, 0.0 if job.awaits_turn else speed, event.at_us)
    _count_note(job, event.nodes)
    if state.has_live_turns:
        measure_neighbours(state, job, event.at_us)


EXECUTION_RULES: dict[type[Event], Rule] = {
    facts.LaunchFailed: launch_failed,
    facts.AttemptStarted: attempt_started,
    facts.SuspendAcknowledged: attempt_noted,
    facts.SuspendEscalated: attempt_noted,
    facts.JobStopped: job_stopped,
    facts.JobContinued: job_continued,
    facts.TurnStarted: turn_started,
    facts.TurnEnded: turn_ended,
    facts.CheckpointSaved: checkpoint_saved,
    facts.CheckpointDiscarded: checkpoint_discarded,
    facts.JobSuspended: job_suspended,
    facts.AttemptEnded: attempt_ended,
    facts.AttemptLost: attempt_lost,
    facts.GpusReleased: gpus_released,
    facts.SpeedChanged: speed_changed,
    facts.TrainingStarted: training_started,
    facts.MessagesDropped: attempt_noted,
    facts.JobWarned: attempt_noted,
    facts.AttemptSetAside: attempt_set_aside,
    facts.AllocationLearned: allocation_learned,
    facts.ReshapeRefused: reshape_refused,
}
