"""Jobs that are beside others: on the same GPUs at once, or on the same server.

The time of GPUs that several have at once counts once.

A pack ends with the trial that reverts it, or with the attempt, the stop or another placement of
one of its jobs; a trial that ends so has no verdict.
"""

from shunter.core.fold.occupancy import count_overcommit
from shunter.core.performance.trials import KnownVerdict
from shunter.core.state import Job, State


def pack(state: State, jobs: list[Job], at_us: int) -> None:
    """Let jobs have their turns together."""
    names = [job.job_id for job in jobs]
    for job in jobs:
        job.packed_with = tuple([name for name in names if name != job.job_id])
    count_overcommit(state, at_us, state.surplus(jobs))


def unpack(state: State, job: Job, at_us: int) -> None:
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
        unpack(state, job, at_us)
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
