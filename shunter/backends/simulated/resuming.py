"""A simulated world that goes on from a state: what of each job is under way, and what is left.

The state says what a scheduler knows, and a world knows more: how an order under way stands, when
an attempt was last saved, whose turn ends when. What the state leaves open is begun at its instant:

- a launch or a suspension that is under way takes its whole cost, from when it was ordered where
  the state says that, and ends now at the earliest;
- an attempt whose speed changed counts what it did since its last checkpoint at its speed of now;
- jobs that take turns begin a new quantum, first those whose turn it was;
- a resumed job is taken to come back to the GPUs that it had.

Where nothing takes time (`instant`), nothing is open: the world is exactly the one that was there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from shunter.backends.simulated.lease import StepRate
from shunter.backends.simulated.turns import BEFORE_ALL
from shunter.backends.simulated.work import EXIT_CODES, Costs, Run, Task
from shunter.backends.simulated.world import World
from shunter.core import (
    ENDING,
    LAUNCHING,
    NEVER_US,
    SUSPENDING,
    Job,
    Migrate,
    ShareTurns,
    State,
    SuspendAttempt,
    Terminate,
    worked_us,
)
from shunter.events import JobId, Sharing, fact, facts

_SLICED = Sharing.sliced


@fact
class TotalWork:
    """All the work of a job in microseconds at base speed, and how it ends then."""

    total_us: int
    exit_code: int = 0

    @property
    def ends(self) -> str:
        """How that is in the words of a trace."""
        return next(word for word, code in EXIT_CODES.items() if code == self.exit_code)


@dataclass(frozen=True)
class Resumed:
    """What a world goes on from.

    `state` is one between two steps, all orders given, and only looked at. `work` is that of all
    its jobs; less than a job has done already counts as that. `instant` says that nothing took any
    time so far. `now_us` is the instant it is, the state's or a later one: what was under way at
    the state's still is.
    """

    state: State
    work: Mapping[JobId, TotalWork]
    instant: bool
    now_us: int


def resume_jobs(world: World, costs: Costs, resumed: Resumed, *, in_steps: bool) -> None:
    """Put the jobs of a state into an empty world, at the instant it is.

    Args:
        world: with no jobs in it.
        costs: what launches and suspensions take there.
        resumed: the state, and the work of its jobs.
        in_steps: whether a job with steps works in whole ones.
    """
    state, now_us = resumed.state, resumed.now_us
    for job in state.jobs.values():
        known = resumed.work[job.job_id]
        world.work.tasks[job.job_id] = _task(job, known, now_us, in_steps=in_steps)
    holding = [job for job in state.jobs.values() if job.since_us is not None]
    for job in sorted(holding, key=lambda job: (job.since_us, job.ordinal)):
        _resume_attempt(world, costs, job, now_us)
    if world.work.gpu_tenants is not None:
        works = [job_id for job_id, run in world.work.runs.items() if not run.is_stopped]
        world.update_step_rates(works, now_us)
    for job in holding:
        _settle(world, job, now_us)
    _resume_turns(world, state, now_us)


def _task(job: Job, known: TotalWork, now_us: int, *, in_steps: bool) -> Task:
    spec, done_us = job.submitted_spec, job.done_us(now_us)
    total_us = max(known.total_us, done_us)
    since_us = job.working_since_us
    counted_us = job.work_us if since_us is not None else done_us
    units, left = total_us, total_us - counted_us
    if in_steps and spec.total_steps and total_us:
        units = spec.total_steps
        left = -(-left * units // total_us)
    moves = job.phase is SUSPENDING and bool(job.allocation.shares)
    return Task(
        job.ordinal,
        spec,
        job.spec,
        StepRate(1.0, units, total_us),
        left,
        known.exit_code,
        attempt=job.attempt,
        moves_from=tuple(share.node for share in job.held.shares) if moves else (),
        last=job.held if job.held.shares else None,
        failures=job.failures,
        weight=job.turn_weight,
    )


def _resume_attempt(world: World, costs: Costs, job: Job, now_us: int) -> None:
    """Let an attempt be as far as the state says, or let go of what it held."""
    job_id, task = job.job_id, world.work.tasks[job.job_id]
    has_left = job.phase is SUSPENDING and job.working_since_us is None
    if job.phase is ENDING or has_left or not job.held.shares:
        free_us = now_us + (_suspension_us(costs, job) if has_left else 0)
        world.enter(free_us, job_id, facts.GpusReleased(free_us, job_id, job.attempt))
        world.leaving += 1
        return
    began_us = _began_us(costs, job, now_us)
    works_us = began_us if job.working_since_us is None else job.working_since_us
    is_still = job.working_since_us is not None and job.speed == 0
    base = task.step_rate
    speed = 1.0 if job.working_since_us is None else job.speed
    run = Run(
        task,
        job.attempt,
        job.held,
        StepRate(speed, base.units, base.duration_us),
        began_us,
        NEVER_US if is_still else works_us,
        task.left,
        task.left + _since_checkpoint_us(job, began_us, works_us),
        None,
        works_us,
        told=job.working_since_us is not None,
        is_stopped=is_still,
        stops=int(is_still),
    )
    world.work.runs[job_id] = run
    tenants = world.work.gpu_tenants
    if tenants is not None and not is_still:
        tenants.enter(job_id, job.held)
    if job.phase is LAUNCHING:
        started = facts.AttemptStarted(began_us, job_id, job.attempt, speed=run.step_rate.speed)
        world.enter(began_us, job_id, started)


def _settle(world: World, job: Job, now_us: int) -> None:
    """Foresee the end of an attempt, or repeat what it was told to do."""
    job_id, attempt = job.job_id, job.attempt
    run = world.work.runs.get(job_id)
    if run is None:
        return
    if job.end_cause:
        world.terminate(Terminate(job_id, attempt), now_us)
    elif job.phase is SUSPENDING and job_id not in world.staying:
        target = job.allocation
        order = (
            Migrate(job_id, attempt, target) if target.shares else SuspendAttempt(job_id, attempt)
        )
        world.leave(order, now_us)
    elif not run.is_stopped:
        end_us = world.end_us(run)
        # Work counts rounded down, so what is all done may have been so a moment ago. A new run
        # makes void what was foreseen of it before.
        run = replace(run, end_us=None if end_us is None else max(now_us, end_us))
        world.work.runs[job_id] = run
        world.works_again(job_id, run, max(now_us, run.began_us))


def _resume_turns(world: World, state: State, now_us: int) -> None:
    """Let jobs that take turns begin a new quantum, those whose turn it was first."""
    turns = world.turns
    if turns is None:
        return
    sliced = [job for job in state.jobs.values() if job.held.sharing is _SLICED]
    there = [job for job in sliced if job.job_id in world.work.runs]
    works = [job for job in there if job.working_since_us is not None]
    for job in works:
        if job.gpus:
            world.work.stop(job.job_id, now_us)
        if job.gpus or job.job_id in state.gang_turns:
            world.enter(
                now_us, job.job_id, facts.TurnEnded(now_us, job.job_id, job.attempt), BEFORE_ALL
            )
    for job in sorted(works, key=lambda job: (not job.gpus, job.ordinal)):
        if not (job.is_on_hold and job.spec.suspend_mode.value == "stop"):
            turns.ready(job.job_id, now_us)
    for job in there:
        if job.working_since_us is None:
            turns.launched(job.job_id, world.work.runs[job.job_id])
    for job in works:
        if job.packed_with and job.job_id < min(job.packed_with):
            world.share_turns(ShareTurns(job.job_id, job.attempt, job.packed_with), now_us)


def _began_us(costs: Costs, job: Job, now_us: int) -> int:
    """Return since when an attempt makes progress, or will."""
    assert job.since_us is not None, "an attempt under way began to hold something"
    if job.working_since_us is not None:
        began_us = job.since_us if job.counts_from_us is None else job.counts_from_us
        return min(began_us, job.working_since_us)
    if job.attempt == 1:
        cost_us = costs.start_us
    else:
        cost_us = costs.back_us(elsewhere=False) + _checkpoint_us(costs, job)
    return max(now_us, job.since_us + cost_us)


def _since_checkpoint_us(job: Job, began_us: int, works_us: int) -> int:
    """Return the work done before an instant that no checkpoint of the attempt holds."""
    done_us = worked_us(max(0, works_us - began_us), job.speed)
    every_us = job.spec.checkpoint_interval_us
    return min(job.work_us, done_us % every_us if every_us else done_us)


def _suspension_us(costs: Costs, job: Job) -> int:
    return costs.suspend_us + _checkpoint_us(costs, job)


def _checkpoint_us(costs: Costs, job: Job) -> int:
    return dict(costs.by_model).get(job.spec.model, costs.checkpoint_us)
