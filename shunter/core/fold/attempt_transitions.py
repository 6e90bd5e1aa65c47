"""The moments at which a job gets and loses its GPUs, shared by the rules of all groups."""

from shunter.core.fold.checkpoints import out_of_reach
from shunter.core.fold.occupancy import hold, may_launch, release, undecide
from shunter.core.fold.sharing.packs import leave_trial, measure_neighbours
from shunter.core.performance.trials import NO_PACE
from shunter.core.progress import worked_us
from shunter.core.state import LAUNCHING, RUNNING, WAITING, FoldResult, Job, State
from shunter.errors import IllegalEventError
from shunter.events.facts import Outcome
from shunter.events.values import NOTHING, DependsWhen, JobId, Sharing

_EXCLUSIVE, _SLICED = Sharing.exclusive, Sharing.sliced  # members are slow to look up


def job_of(state: State, job_id: JobId, kind: str) -> Job:
    """Return a job that has not ended.

    Raises:
        IllegalEventError: there is none of that id.
    """
    job = state.jobs.get(job_id)
    if job is None:
        raise IllegalEventError(f"{kind} of job {job_id}, which is unknown or has ended already")
    return job


def attempt_of(state: State, job_id: JobId, attempt: int, kind: str) -> Job:
    """Return the job whose current attempt this is.

    Raises:
        IllegalEventError: the job is at another attempt, or unknown.
    """
    job = job_of(state, job_id, kind)
    if job.attempt != attempt or job.since_us is None:
        raise IllegalEventError(
            f"{kind} of attempt {attempt} of job {job_id}, which is at attempt {job.attempt} "
            f"and {job.phase}"
        )
    return job


def launch(state: State, job: Job, at_us: int) -> None:
    """Begin an attempt on the decided GPUs: from here on the job holds them.

    One that shares them in turns holds none until its first turn.
    """
    hold(state, job, at_us)
    what = job.allocation
    begin(state, job, at_us, 0 if what.sharing is _SLICED else what.gpus)


def begin(state: State, job: Job, at_us: int, gpus: int) -> None:
    """Note that an attempt holds its GPUs from now on."""
    job.attempt += 1
    job.held = job.allocation
    job.pace = NO_PACE
    job.gpus = gpus
    job.since_us = at_us
    job.waiting_since_us = job.left_for = None
    job.phase = LAUNCHING
    if job.checkpoints:
        job.out_of_reach = out_of_reach(job, state.cluster)
    if job.first_start_us is None:
        job.first_start_us = at_us


def start_work(job: Job, at_us: int, speed: float) -> None:
    """Begin to make progress."""
    job.phase = RUNNING
    job.working_since_us = at_us
    job.speed = speed


def stop_work(job: Job, at_us: int, lost_us: int = 0) -> None:
    """Stop making progress, and lose what no checkpoint covers."""
    since_us = job.working_since_us
    if since_us is not None:
        done_us = at_us - since_us if job.speed == 1.0 else worked_us(at_us - since_us, job.speed)
        job.work_us = max(0, job.work_us + done_us - lost_us)
        job.working_since_us = None


def let_go(state: State, job: Job, at_us: int) -> tuple[Job, ...]:
    """Leave the held GPUs, and launch whoever was waiting for them; return those."""
    if job.since_us is None:
        return ()
    release(state, job, at_us)
    _settle(state, job, job.since_us, at_us)
    return launch_granted(state, at_us) if state.granted else ()


def vacate(state: State, job: Job, at_us: int) -> None:
    """Take back and let go in one step: what was decided is what the job holds."""
    assert job.since_us is not None, "a job that holds nothing has nothing to vacate"
    if job.held.sharing is not _EXCLUSIVE:
        withdraw(state, job, at_us)
        let_go(state, job, at_us)
        return
    leave_trial(state, job, at_us)
    state.cluster.vacate(job.held.shares)
    state.queues[job.spec.queue].gpus -= job.gpus
    job.allocation = NOTHING
    _settle(state, job, job.since_us, at_us)


def _settle(state: State, job: Job, since_us: int, at_us: int) -> None:
    """Credit the time for which GPUs were held, which is over."""
    if state.has_live_turns:
        measure_neighbours(state, job, at_us)
    _credit(job, at_us - since_us)
    if job.is_spread:
        state.gang_turns.pop(job.job_id, None)
    job.held = NOTHING
    job.gpus = job.turn_mask = 0
    job.since_us = job.attempt_since_us = None
    job.working_since_us = None
    job.counts_from_us = None


def hold_anew(job: Job, gpus: int, at_us: int) -> None:
    """Let an attempt have so many GPUs from now on; credit the time up to now."""
    assert job.since_us is not None, "only an attempt under way has any"
    if job.attempt_since_us is None:
        job.attempt_since_us = job.since_us
    _credit(job, at_us - job.since_us)
    job.gpus, job.since_us = gpus, at_us


def _credit(job: Job, elapsed_us: int) -> None:
    """Credit a hold: its own GPU time as service, that of others' turns apart."""
    job.service_gpu_us += job.gpus * elapsed_us
    job.held_us += elapsed_us
    if job.held.sharing is _SLICED:
        job.off_turn_gpu_us += (job.held.gpus - job.gpus) * elapsed_us


def launch_granted(state: State, at_us: int) -> tuple[Job, ...]:
    """Launch and return the jobs whose granted GPUs are free, oldest grant first."""
    launched = []
    for job_id in list(state.granted):
        job = state.jobs[job_id]
        if may_launch(state, job):
            del state.granted[job_id]
            launch(state, job, at_us)
            launched.append(job)
    return tuple(launched)


def withdraw(state: State, job: Job, at_us: int) -> None:
    """Take back what was decided for a job."""
    leave_trial(state, job, at_us)
    if job.allocation.shares:
        undecide(state, job)
        state.queues[job.spec.queue].gpus -= job.allocation.gpus
        job.allocation = NOTHING
        if state.granted:
            state.granted.pop(job.job_id, None)


def back_to_queue(job: Job, at_us: int) -> None:
    """Let a job that holds nothing wait again."""
    job.phase = WAITING
    job.waiting_since_us = at_us


def fall_back(state: State, job: Job, at_us: int) -> FoldResult:
    """Put a job back into the queue that holds nothing from now on."""
    withdraw(state, job, at_us)
    launched = let_go(state, job, at_us)
    back_to_queue(job, at_us)
    return FoldResult(launched)


def depart(state: State, job: Job, at_us: int, outcome: Outcome) -> FoldResult:
    """End a job: free what it held, keep its outcome, release who waited for it."""
    job_id = job.job_id
    launched: tuple[Job, ...] = ()
    if job.since_us is not None and job.held is job.allocation and not state.granted:
        stop_work(job, at_us)
        vacate(state, job, at_us)
    else:
        stop_work(job, at_us)
        withdraw(state, job, at_us)
        launched = let_go(state, job, at_us)
    del state.jobs[job_id]
    if state.resumable:
        state.resumable.pop(job_id, None)
    job.outcome = outcome
    state.outcomes[outcome] = state.outcomes.get(outcome, 0) + 1
    state.durations_us.pop(job_id, None)
    if state.reservations:
        state.reservations.pop(job_id, None)
    if not state.proposals.is_empty:
        state.proposals.forget(job_id)
    if state.dependants:
        unblocked, stranded = _unblock(state, job, outcome)
        return FoldResult(launched, job, unblocked, stranded)
    return FoldResult(launched, job)


def _unblock(
    state: State, job: Job, outcome: Outcome
) -> tuple[tuple[JobId, ...], tuple[JobId, ...]]:
    """Return who waited for the end of a job, and who waited for another one."""
    unblocked, stranded = [], []
    for waiting_id in state.dependants.pop(job.job_id, ()):
        waiting = state.jobs.get(waiting_id)
        if waiting is None:
            continue
        if is_met(waiting, job.job_id, outcome):
            waiting.blocked_by -= 1
            unblocked.append(waiting_id)
        else:
            stranded.append(waiting_id)
    return tuple(unblocked), tuple(stranded)


def is_met(job: Job, ended_id: JobId, outcome: Outcome) -> bool:
    """Say whether the end of another job is the one this job waits for."""
    return all(
        dependency.when is DependsWhen.any or outcome is Outcome.finished
        for dependency in job.spec.depends_on
        if dependency.job_id == ended_id
    )


def take_back_preemption(job: Job) -> None:
    """Let the last preemption of a job have been none."""
    job.preemptions -= 1
    job.preempted_at_us = job.preempted_at_us[:-1]


def was_not_preempted(job: Job) -> None:
    """Take a preemption back of an attempt that ends before it has left."""
    began_us, told_us = job.attempt_began_us, job.preempted_at_us[-1:]
    if began_us is not None and told_us and told_us[0] >= began_us:
        take_back_preemption(job)
