"""What an attempt is to the state: its checkpoints, the GPUs it holds, its begin and its end.

The rules of all kinds of facts are made of these steps.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from shunter.core.cluster import Cluster, Gpu, Health, Server, gpus_of
from shunter.core.speeds import NO_PACE, KnownVerdict, MeasuredPlacement, bounded
from shunter.core.state import (
    GRANTED,
    LAUNCHING,
    NEXT,
    UNTIL_ROUND,
    WAITING,
    FoldResult,
    Job,
    JobPhase,
    Place,
    State,
    worked_us,
)
from shunter.errors import IllegalEventError
from shunter.events import (
    CHECKPOINT,
    IN_SERVER,
    NOTHING,
    STAYS,
    Allocation,
    Demand,
    DependsWhen,
    JobId,
    JobSpec,
    NodeName,
    Reason,
    Sharing,
    Wait,
    facts,
)

# Checkpoints. Where servers share no folder, a checkpoint lies on the servers of the attempt that
# saved it: a job waits for a server that does not answer, and passes over one that is lost. Unless
# the job says otherwise, only as many processes as saved a checkpoint can load it.

PLACES_MOST = 8
"""Sets of servers that are remembered for a job; of older ones the last checkpoints are forgotten.

Each next attempt begins with a copy of the newest, so what is forgotten is of no use to anybody.
"""


def out_of_reach(job: Job, cluster: Cluster) -> int:
    """Return how many of the newest checkpoints lie on lost or removed servers."""
    count = 0
    for place in job.checkpoints or ():
        if not any(_is_gone(node, cluster) for node in place.nodes):
            break
        count += 1
    return count


def awaited(job: Job, cluster: Cluster) -> tuple[NodeName, ...]:
    """Return the servers that must answer or be lost before a job can go on."""
    for place in (job.checkpoints or ())[out_of_reach(job, cluster) :][:1]:
        return tuple(
            node for node in place.nodes if cluster.servers[node].health is Health.unreachable
        )
    return ()


def waits_for_checkpoint(job: Job) -> bool:
    """Say whether a job is held because of where its checkpoint is.

    To the policies it is one on hold, which the scheduler puts there and takes from there itself.
    A server with it may not answer: the job goes on once that answers or is lost, or once its owner
    gives the checkpoint up. Or it is too large to be copied: the job goes on once its server has
    room, so that nobody has to make room for a launch that fails.
    """
    return job.is_on_hold and job.held_by in (CHECKPOINT, STAYS)


def checkpoint_wait(job: Job, cluster: Cluster) -> Wait:
    """Return why such a job waits: for which servers."""
    if job.held_by == STAYS:
        return Wait(Reason.checkpoint_stays, detail=job.stays_on or "")
    return Wait(Reason.checkpoint_unreachable, detail=",".join(awaited(job, cluster)))


def hold_wanted(job: Job, cluster: Cluster) -> str:
    """Return who holds a job for where its checkpoint is; nobody: it may go on."""
    if awaited(job, cluster):
        return CHECKPOINT
    home = home_of(job, cluster)
    return STAYS if home is not None and not _has_room(job, home) else ""


def home_of(job: Job, cluster: Cluster) -> Server | None:
    """Return the only server where a job can go on from what it saved, if any."""
    home = None if job.stays_on is None else cluster.servers.get(job.stays_on)
    return None if home is None or _is_gone(home.name, cluster) else home


def given_up(job: Job, cluster: Cluster) -> Place | None:
    """Return the checkpoint that a job waits for and may be given up, if any."""
    if job.since_us is not None or not (awaited(job, cluster) or home_of(job, cluster)):
        return None
    return next(iter((job.checkpoints or ())[out_of_reach(job, cluster) :]), None)


def _has_room(job: Job, home: Server) -> bool:
    """Say whether a server takes jobs, and has free what one needs."""
    needed = job.demand.resources
    is_beside = needed.fit_beside(home.beside_free)
    return home.is_up and is_beside and needed.gpus <= home.offered.bit_count()


def within_reach(job: Job) -> tuple[tuple[NodeName, ...], ...] | None:
    """Return where an attempt that is launched finds checkpoints, the newest first.

    None: nothing is known of where they lie.
    """
    if job.checkpoints is None:
        return None
    return tuple(place.nodes for place in job.checkpoints[job.out_of_reach :])


def checkpoints_at_start(state: State, job: Job, event: facts.AttemptStarted) -> None:
    """Note where an attempt saves from now on, and in which split."""
    if event.checkpoints_stay:
        nodes = tuple(share.node for share in job.held.shares)
        before = job.checkpoints or ()
        step = next((place.step for place in before[job.out_of_reach :]), None)
        others = [place for place in before if place.nodes != nodes]
        job.checkpoints = (Place(event.attempt, nodes, step), *others[: PLACES_MOST - 1])
        job.out_of_reach = 0
    else:
        job.checkpoints, job.out_of_reach = None, 0
    if event.keeps_split:
        job.split = split_of(job.held)
    if event.checkpoints_stay or event.keeps_split:
        state.resumable[job.job_id] = None
        settle_demand(state, job)


def checkpoints_after_move(state: State, job: Job) -> None:
    """Note on which servers an attempt saves that was found elsewhere."""
    if job.working_since_us is None:
        return
    if job.checkpoints and job.checkpoints[0].attempt == job.attempt:
        newest, *others = job.checkpoints
        nodes = tuple(share.node for share in job.held.shares)
        job.checkpoints = (replace(newest, nodes=nodes), *others)
    if job.split:
        job.split = split_of(job.held)
        settle_demand(state, job)


def saved_step(job: Job, event: facts.CheckpointSaved) -> None:
    """Note the step of the checkpoint that an attempt has told of."""
    if event.step is None or not job.checkpoints or job.checkpoints[0].attempt != event.attempt:
        return
    newest, *others = job.checkpoints
    job.checkpoints = (replace(newest, step=event.step), *others)


def drop_checkpoints(state: State, job: Job, event: facts.CheckpointDiscarded) -> None:
    """Count no more on what an attempt has saved.

    Raises:
        IllegalEventError: nothing is known of such a checkpoint.
    """
    before = job.checkpoints or ()
    at = next((at for at, one in enumerate(before) if one.attempt == event.attempt), None)
    if at is None or before[at].nodes != event.nodes:
        raise IllegalEventError(
            f"the checkpoint of attempt {event.attempt} of job {event.job_id} was discarded, "
            "and there was none"
        )
    job.checkpoints = (*before[:at], *before[at + 1 :])
    job.stays_on = None
    job.out_of_reach -= at < job.out_of_reach
    settle_demand(state, job)


def settle_demand(state: State, job: Job) -> None:
    """Set what a job needs, under its floor and by its checkpoints."""
    said, spec = state.demand_as_said(job.spec), job.spec
    is_of_this_size = sum(job.split) == spec.gpus  # else it was resized, and loads any
    is_bound = job.split and is_of_this_size and _has_checkpoints(job, state.cluster)
    known = state.learnt.get(spec.model, ())
    job.demand = state.interned(demand_with(said, spec, known, job.split if is_bound else ()))


def demand_with(
    said: Demand, spec: JobSpec, known: Iterable[MeasuredPlacement], split: tuple[int, ...]
) -> Demand:
    """Return what a job needs by what it asks for.

    Args:
        said: what it asks for.
        spec: the job.
        known: what is known of its model, on which a floor may rest.
        split: that of its checkpoints, which comes before such a floor, or nothing that it saved
            could be loaded; empty: any will do.
    """
    learnt = bounded(said, spec, known)
    if not split:
        return learnt
    can_hold = learnt.accepts_split(split) and (
        len(split) == 1 or learnt.max_level not in IN_SERVER
    )
    return in_split(learnt if can_hold else said, split)


def in_split(demand: Demand, split: tuple[int, ...]) -> Demand:
    """Return a demand that is met by one split over servers only."""
    asked = [sorted(shape) for shape in demand.shapes]
    if asked == [sorted(split)] or demand.max_level in IN_SERVER:
        return demand
    return replace(demand, shapes=(split,), keeps_split=True)


def split_of(allocation: Allocation) -> tuple[int, ...]:
    """Return how many GPUs an allocation has on each server, by rank."""
    return tuple([share.gpu_mask.bit_count() for share in allocation.shares])


def settle_demands(state: State) -> None:
    """Do so for all jobs, after servers were lost or came back."""
    for job_id in state.resumable:
        if state.jobs[job_id].split:
            settle_demand(state, state.jobs[job_id])


def _has_checkpoints(job: Job, cluster: Cluster) -> bool:
    """Say whether anything a job saved can still be had, as far as anybody knows."""
    return job.checkpoints is None or any(
        not any(_is_gone(node, cluster) for node in place.nodes) for place in job.checkpoints
    )


def _is_gone(node: NodeName, cluster: Cluster) -> bool:
    server = cluster.servers.get(node)
    return server is None or server.health is Health.lost or server.health is Health.removed


# A shared GPU counts once in the bitmaps, from its first tenant until its last one leaves.

_EXCLUSIVE = Sharing.exclusive  # members are slow to look up


def decide(state: State, job: Job) -> None:
    """Mark what was decided for a job as given away.

    Raises:
        IllegalEventError: somebody else has one of the GPUs and does not share it.
    """
    cluster = state.cluster
    cluster.decide(cluster.deciding.join(job.ordinal, job.job_id, job.allocation))


def undecide(state: State, job: Job) -> None:
    """Mark what was decided for a job as free, but for GPUs with other tenants."""
    cluster = state.cluster
    cluster.undecide(cluster.deciding.leave(job.ordinal, job.job_id, job.allocation))


def hold(state: State, job: Job, at_us: int) -> None:
    """Mark what was decided for a job as physically in use by it."""
    if job.allocation.sharing is not _EXCLUSIVE:
        count_overcommit(state, at_us)
    cluster = state.cluster
    cluster.hold(cluster.holding.join(job.ordinal, job.job_id, job.allocation))


def release(state: State, job: Job, at_us: int) -> None:
    """Mark what a job held as physically free, but for GPUs with other tenants."""
    if job.held.sharing is not _EXCLUSIVE:
        count_overcommit(state, at_us)
    cluster = state.cluster
    cluster.release(cluster.holding.leave(job.ordinal, job.job_id, job.held))


def hold_instead(state: State, job: Job, what: Allocation, at_us: int) -> None:
    """Mark other GPUs than before as physically in use by an attempt, or none."""
    release(state, job, at_us)
    job.held = what
    state.cluster.hold(state.cluster.holding.join(job.ordinal, job.job_id, what))


def open_up(state: State, job: Job, packed: Allocation, at_us: int) -> None:
    """Let a job that has its GPUs to itself have company from now on."""
    cluster = state.cluster
    count_overcommit(state, at_us)
    cluster.deciding.join(job.ordinal, job.job_id, packed)
    cluster.holding.join(job.ordinal, job.job_id, packed)
    job.allocation = job.held = packed


def rehome(state: State, job: Job, target: Allocation, at_us: int) -> None:
    """Let a job that takes turns have other GPUs of its server for its own."""
    undecide(state, job)
    if job.held == job.allocation:
        hold_instead(state, job, target, at_us)
    job.allocation = target
    decide(state, job)


def may_launch(state: State, job: Job) -> bool:
    """Say whether nobody is left on the GPUs decided for a job but its partners."""
    what, cluster = job.allocation, state.cluster
    is_free = cluster.is_released if what.sharing is _EXCLUSIVE else cluster.is_joinable
    return is_free(what.shares)


def release_wait(state: State, job: Job) -> Wait | None:
    """Return who has yet to leave the GPUs granted to a job; None: none granted.

    `needed` are the GPUs it was granted, `free` those of them that nobody has to leave any more.
    """
    if job.phase is not GRANTED:
        return None
    granted = _gpus_of(job.allocation)
    nodes = {share.node for share in job.allocation.shares}
    leaving = {
        other.job_id: granted & _gpus_of(other.held) - _gpus_of(other.allocation)
        for other in state.jobs.values()
        if other.held is not other.allocation
        if any(share.node in nodes for share in other.held.shares)
    }
    blockers = tuple(job_id for job_id, gpus in leaving.items() if gpus)
    free = granted.difference(*leaving.values())
    return Wait(Reason.waiting_for_release, len(granted), len(free), blockers)


def _gpus_of(what: Allocation) -> set[Gpu]:
    return {gpu for share in what.shares for gpu in gpus_of(share)}


def count_overcommit(state: State, at_us: int, change: int = 0) -> None:
    """Add up the GPU time that more than one job held, before that changes."""
    state.overcommit_gpu_us = state.overcommit_us(at_us)
    state.overcommit_since_us = at_us
    state.cluster.holding.overcommit += change


# A pack ends with the trial that reverts it, or when one of its jobs stops, ends or is moved.


def pack_jobs(state: State, jobs: list[Job], at_us: int) -> None:
    """Let jobs have their turns together."""
    names = [job.job_id for job in jobs]
    for job in jobs:
        job.packed_with = tuple([name for name in names if name != job.job_id])
    count_overcommit(state, at_us, state.surplus(jobs))


def unpack_job(state: State, job: Job, at_us: int) -> None:
    """Let a job and those it is packed with have turns of their own."""
    jobs = state.pack_of(job)
    count_overcommit(state, at_us, -state.surplus(jobs))
    for each in jobs:
        each.packed_with = ()
        each.pace = each.pace.anew()


def leave_trial(state: State, job: Job, at_us: int, *, has_failed: bool = False) -> None:
    """End what is tried or kept of a job that does not go on as it did.

    One that fails while it is tried beside others is a loss: the GPU may not hold both.
    """
    if job.packed_with:
        for name in (job.job_id, *job.packed_with):
            trial = state.trials.pop(name, None)
            if trial is not None and has_failed:
                state.verdicts.pop(trial.key, None)
                state.verdicts[trial.key] = KnownVerdict(
                    is_loss=True, sum_before=trial.sum_before, sum_after=0
                )
        unpack_job(state, job, at_us)
    elif state.trials:
        state.trials.pop(job.job_id, None)


def note_turn(state: State, job: Job, mask: int, at_us: int) -> None:
    """Note which GPUs of its server a job has in its turn since an instant; 0: none."""
    if not job.packed_with:
        job.turn_mask = mask
        return
    pack_of = state.pack_of(job)
    before = state.surplus(pack_of)
    job.turn_mask = mask
    change = state.surplus(pack_of) - before
    if change:
        count_overcommit(state, at_us, change)
    if mask and all(each.turn_mask == mask for each in pack_of):
        _begin(state, pack_of)


def _begin(state: State, jobs: list[Job]) -> None:
    """Measure jobs anew that have the first turn of their trial together."""
    for job in jobs:
        trial = state.trials.get(job.job_id)
        if trial is not None and not trial.is_on:
            state.trials[job.job_id] = trial.begun()
            for each in jobs:
                each.pace = each.pace.anew()


def measure_neighbours(state: State, job: Job, at_us: int) -> None:
    """Measure those anew on whose servers a job comes, goes, stops or goes on.

    A simulation tells each change of a job's speed, and `Pace` goes by that. Of a live one nothing
    is known but who is on its servers.
    """
    nodes = {share.node for share in job.held.shares if share.gpu_mask}
    for other in state.jobs.values():
        if other is job or not other.pace.seen:
            continue
        if not nodes.isdisjoint([share.node for share in other.held.shares]):
            other.pace = other.pace.anew(other.service_us(at_us))


# The moments at which a job gets and loses its GPUs.

_SLICED = Sharing.sliced


def job_of(state: State, job_id: JobId, kind: str) -> Job:
    """Return a job that has not ended.

    Raises:
        IllegalEventError: there is none of that id.
    """
    job = state.jobs.get(job_id)
    if job is None:
        raise IllegalEventError(f"{kind} of job {job_id}, which is unknown or has ended already")
    return job


class OfAttempt(Protocol):
    """A fact about an attempt of a job."""

    @property
    def job_id(self) -> JobId:
        """The job."""

    @property
    def attempt(self) -> int:
        """The number of the attempt, from 1 on."""


def attempt_of(state: State, event: OfAttempt) -> Job:
    """Return the job whose current attempt a fact is about.

    Raises:
        IllegalEventError: the job is at another attempt, or unknown.
    """
    kind = type(event).__name__
    job = job_of(state, event.job_id, kind)
    if job.attempt != event.attempt or job.since_us is None:
        raise IllegalEventError(
            f"{kind} of attempt {event.attempt} of job {job.job_id}, which is at attempt "
            f"{job.attempt} and {job.phase}"
        )
    return job


def enter(job: Job, phase: JobPhase) -> None:
    """Move a job to another phase, or leave it in its own.

    Raises:
        IllegalEventError: there is no such step in the life of a job (`TRANSITIONS`).
    """
    if phase not in NEXT[job.phase]:
        raise IllegalEventError(f"job {job.job_id} cannot be {phase}: it is {job.phase}")
    job.phase = phase


def launch(state: State, job: Job, at_us: int) -> None:
    """Begin an attempt on the decided GPUs: from here on the job holds them.

    One that shares them in turns holds none until its first turn.
    """
    hold(state, job, at_us)
    what = job.allocation
    begin(state, job, at_us, 0 if what.sharing is _SLICED else what.gpus)


def begin(state: State, job: Job, at_us: int, gpus: int) -> None:
    """Note that an attempt holds its GPUs from now on."""
    enter(job, LAUNCHING)
    job.attempt += 1
    job.held = job.allocation
    job.pace = NO_PACE
    job.gpus = gpus
    job.since_us = at_us
    job.waiting_since_us = None
    job.left_for = None if job.wait is None else UNTIL_ROUND
    if job.checkpoints:
        job.out_of_reach = out_of_reach(job, state.cluster)
    if job.first_start_us is None:
        job.first_start_us = at_us


def start_work(job: Job, at_us: int, speed: float) -> None:
    """Begin to make progress."""
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
    if job.packed_with or state.trials:
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


def discount(job: Job, unused_us: int) -> None:
    """Take back what is credited of its present hold while it used nothing."""
    _credit(job, -unused_us)


def _credit(job: Job, elapsed_us: int) -> None:
    """Credit a hold: its own GPU time as service, that of others' turns apart."""
    job.service_gpu_us += job.gpus * elapsed_us
    job.held_us += elapsed_us
    if job.held.sharing is _SLICED:
        job.off_turn_gpu_us += (job.held.gpus - job.gpus) * elapsed_us


def grant(state: State, job: Job) -> None:
    """Let a job wait until others have left the GPUs that were decided for it."""
    enter(job, GRANTED)
    state.grants.add(job)
    state.granted[job.job_id] = None


def ungrant(state: State, job: Job) -> None:
    """Let a job wait for the GPUs of no decision any more, if it did."""
    if state.granted:
        state.granted.pop(job.job_id, None)
        state.grants.drop(job.job_id)


def launch_granted(state: State, at_us: int) -> tuple[Job, ...]:
    """Launch and return the jobs whose granted GPUs are free, oldest grant first."""
    freed, launched = state.cluster.freed, []
    candidates = state.grants.on(freed)
    freed.clear()
    for job_id in candidates:
        job = state.jobs[job_id]
        if may_launch(state, job):
            ungrant(state, job)
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
        ungrant(state, job)


def back_to_queue(state: State, job: Job, at_us: int) -> None:
    """Let a job that holds nothing wait again."""
    enter(job, WAITING)
    job.waiting_since_us = at_us
    if job.is_unseen:
        state.unseen[job.job_id] = None


def look_at_unseen(state: State) -> None:
    """Let reasons of earlier waits hold again, after a round."""
    for job_id in [*state.unseen]:
        job = state.jobs.get(job_id)
        if job is None or not job.is_unseen:
            del state.unseen[job_id]
        elif job.is_eligible:
            del state.unseen[job_id]
            job.left_for = None


def fall_back(state: State, job: Job, at_us: int) -> FoldResult:
    """Put a job back into the queue that holds nothing from now on."""
    withdraw(state, job, at_us)
    launched = let_go(state, job, at_us)
    back_to_queue(state, job, at_us)
    return FoldResult(launched)


def depart(state: State, job: Job, at_us: int, outcome: facts.Outcome) -> FoldResult:
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
    state: State, job: Job, outcome: facts.Outcome
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


def is_met(job: Job, ended_id: JobId, outcome: facts.Outcome) -> bool:
    """Say whether the end of another job is the one this job waits for."""
    return all(
        dependency.when is DependsWhen.any or outcome is facts.Outcome.finished
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


# A gang over several servers has its turn from when the last of them begins it until the first ends
# it (`State.gang_turns`).


def can_begin(state: State, job: Job, event: facts.TurnStarted) -> bool:
    """Say whether a job can get its turn where it is told: it has none there."""
    if not job.is_spread:
        return not job.gpus and sum([share.gpus for share in event.shares]) == job.held.gpus
    on = state.gang_turns.get(job.job_id, {})
    gpus = {share.node: share.gpus for share in job.held.shares}
    told = {share.node: share.gpus for share in event.shares}
    if job.gpus or not told or len(told) != len(event.shares):
        return False
    return all(node not in on and gpus.get(node) == count for node, count in told.items())


def can_end(state: State, job: Job, event: facts.TurnEnded) -> bool:
    """Say whether the turn of a job can end where it is told: it has one there."""
    if not job.is_spread:
        return bool(job.gpus)
    on = _nodes(job) if job.gpus else set(state.gang_turns.get(job.job_id, ()))
    return bool(on) and set(event.nodes) <= on


def part_began(state: State, job: Job, event: facts.TurnStarted, at_us: int) -> int | None:
    """Note that servers have given a gang its turn.

    Returns:
        since when it has that on all of them; None: some are missing.
    """
    on = dict(state.gang_turns.get(job.job_id, {}))
    on |= {share.node: at_us for share in event.shares}
    if len(on) < len(job.held.shares):
        state.gang_turns[job.job_id] = on
        return None
    state.gang_turns.pop(job.job_id, None)
    return max(on.values())


def part_ended(state: State, job: Job, nodes: Iterable[NodeName], at_us: int) -> None:
    """Note that servers have ended the turn of a gang; none named: all of them."""
    gone = set(nodes) or _nodes(job)
    known = dict.fromkeys(sorted(_nodes(job)), at_us) if job.gpus else {}
    on = state.gang_turns.pop(job.job_id, known)
    left = {node: since_us for node, since_us in on.items() if node not in gone}
    if left:
        state.gang_turns[job.job_id] = left


def _nodes(job: Job) -> set[NodeName]:
    return {share.node for share in job.held.shares}


# To policies a job that backs off is on hold. Lost attempts wait too, but never fail a job.

_FIRST_US, _LONGEST_US = 1_000_000, 300_000_000


def backoff_us(failed: int) -> int:
    """Return how long to wait after so many failed launches: a second, doubled."""
    return min(_LONGEST_US, _FIRST_US << max(0, failed - 1))
