"""Where a job's checkpoints lie, and what they bind it to: servers that have them, and a split.

Where servers share no folder, a checkpoint lies on the servers of the attempt that saved it. A job
whose newest one lies on a server that merely does not answer has to wait for it; one whose servers
are lost or gone is passed over. And a checkpoint of as many processes as an attempt had can be
loaded by as many only, unless the job says otherwise: until nothing is left of its checkpoints it
is placed as it was when it began.
"""

from collections.abc import Iterable
from dataclasses import replace

from shunter.core.cluster import Cluster, Health, Server
from shunter.core.performance.learnt_tolerance import MeasuredPlacement, bounded
from shunter.core.progress import Place
from shunter.core.state import Job, State
from shunter.errors import IllegalEventError
from shunter.events.facts import (
    AttemptStarted,
    CheckpointDiscarded,
    CheckpointSaved,
)
from shunter.events.values import (
    CHECKPOINT,
    IN_SERVER,
    STAYS,
    Allocation,
    Demand,
    JobSpec,
    NodeName,
    Reason,
    Wait,
)

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


def started(state: State, job: Job, event: AttemptStarted) -> None:
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


def moved(state: State, job: Job) -> None:
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


def saved_step(job: Job, event: CheckpointSaved) -> None:
    """Note the step of the checkpoint that an attempt has told of."""
    if event.step is None or not job.checkpoints or job.checkpoints[0].attempt != event.attempt:
        return
    newest, *others = job.checkpoints
    job.checkpoints = (replace(newest, step=event.step), *others)


def discarded(state: State, job: Job, event: CheckpointDiscarded) -> None:
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
