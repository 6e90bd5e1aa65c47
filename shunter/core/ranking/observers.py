"""What a ranking hears of: every fact after which a job may stand elsewhere."""

from typing import Any

from shunter.core.interfaces import Observer, Observers
from shunter.core.performance.learnt_tolerance import has_learnt_floor
from shunter.core.planning.making_room import MAKES_ROOM
from shunter.core.ranking.index import Index, Misfit, Relative, Remembering
from shunter.core.ranking.ranking import Ranking
from shunter.core.view import View
from shunter.events.facts import (
    CLUSTER_CHANGES,
    JOB_ENDS,
    AllocationChanged,
    AllocationLearned,
    AttemptEnded,
    AttemptLost,
    AttemptStarted,
    CheckpointDiscarded,
    Event,
    GpusReleased,
    JobCancelRequested,
    JobFinished,
    JobHeld,
    JobPriorityChanged,
    JobReleased,
    JobReshaped,
    JobResized,
    JobSubmitted,
    JobSuspended,
    LaunchFailed,
    NodeAdded,
    NodeRemoved,
    PlanRejected,
    ProfileSampled,
    QuotaChanged,
    ReshapeRefused,
    RoundPlanned,
    SensitivityCorrected,
    SizesSet,
    SpeedChanged,
    TimeLimitReached,
    ToleranceLearnt,
    TrainingStarted,
)
from shunter.events.values import Resources

_TOUCHED = (
    JobHeld,
    JobReleased,
    JobPriorityChanged,
    JobResized,
    JobCancelRequested,
    TimeLimitReached,
    AttemptStarted,
    SpeedChanged,
    TrainingStarted,
    AttemptEnded,
    JobSuspended,
    CheckpointDiscarded,
)
_LEFT = (AttemptLost, LaunchFailed, GpusReleased, AllocationLearned)


def listeners(memory: Ranking, index: Index, ranks: Any) -> Observers:
    """Return who keeps a ranking up to date; `ranks` tells where jobs stand."""
    observers = dict[type[Event], Any](_of_jobs(memory, index, ranks))
    forgets = ranks.ended if isinstance(index, Remembering) else None

    def rank_all(view: View) -> None:
        for job in view.jobs.values():
            memory.sync(job, ranks, view)

    def ended(event: Any, view: View) -> None:
        memory.remove(event.job_id)
        result = view.result
        if forgets is not None and forgets(result.departed, finished=type(event) is JobFinished):
            rank_all(view)
        for job_id in result.unblocked:
            memory.sync(view.jobs[job_id], ranks, view)
        for job in result.launched:
            memory.sync(job, ranks, view)
        memory.replan_needed = True

    def changed(event: Any, view: View) -> None:
        for job in view.resumable:  # one may be placed in any split once no checkpoint is left
            memory.sync(job, ranks, view)
        for job in view.launched:
            memory.sync(job, ranks, view)
        memory.replan_needed = memory.looks_stale = True

    def quota(event: QuotaChanged, view: View) -> None:
        memory.set_quotas(view.queues)
        rank_all(view)
        memory.replan_needed = True

    def planned(event: RoundPlanned, view: View) -> None:
        memory.replan_needed = memory.replan_at_once = False
        if memory.sizes is not None:
            memory.sizes.unsized.clear()
            memory.sizes.answer = None
        if event.waits:
            memory.note_recorded(event.waits)
        for job_id in (*event.consolidated, *event.spread):
            memory.reclassed.pop(job_id, None)

    def learnt(event: ToleranceLearnt, view: View) -> None:
        for job in view.jobs.values():  # floors may bound them otherwise
            if job.spec.model == event.model and has_learnt_floor(job.spec):
                memory.sync(job, ranks, view)
                memory.replan_needed = True

    def resized(event: Any, view: View) -> None:
        rank_all(view)
        memory.replan_needed = memory.looks_stale = True

    observers.update(dict.fromkeys(JOB_ENDS, ended))
    observers.update(dict.fromkeys((*CLUSTER_CHANGES, PlanRejected), changed))
    if isinstance(index, Relative) and index.is_relative:
        observers.update(dict.fromkeys((NodeAdded, NodeRemoved), resized))
    return observers | {QuotaChanged: quota, RoundPlanned: planned, ToleranceLearnt: learnt}


def estimating(memory: Ranking, ranks: Any) -> Observer:
    """Return who ranks a job anew when a sample tells how long it will still run."""

    def sampled(event: ProfileSampled, view: View) -> None:
        job = view.jobs[event.job_id]
        if not view.is_declared(job):
            memory.sync(job, ranks, view)
            memory.replan_needed = True

    return sampled


def _of_jobs(memory: Ranking, index: Index, ranks: Any) -> Observers:
    """Return who hears of what happens to one job before its end."""
    preemptive = index.preemptive
    looks_at_limits = index.misfit is Misfit.reserved

    def touched(event: Any, view: View) -> None:
        memory.sync(view.jobs[event.job_id], ranks, view)
        memory.replan_needed = True

    def submitted(event: JobSubmitted, view: View) -> None:
        memory.sync(view.jobs[event.job_id], ranks, view)
        if not memory.replan_needed:
            is_told = event.job_id not in memory.reclassed and memory.is_behind(event.job_id)
            memory.replan_needed = looks_at_limits or not is_told

    def left(event: Any, view: View) -> None:
        touched(event, view)
        for job in view.launched:
            memory.sync(job, ranks, view)

    def allocated(event: AllocationChanged, view: View) -> None:
        starved = view.is_guarded and memory.is_starved(event.job_id)
        memory.sync(view.jobs[event.job_id], ranks, view)
        # Once it runs it is starved no more; who had to leave one pool, or one place in it, may fit
        # another; who found no place may now make others leave, and find one; and who loses what
        # it had not begun to use has waited all the time, and stands where that puts it.
        moved_on = not event.allocation.shares and (
            view.cluster.has_types or event.because.rule == MAKES_ROOM
        )
        risen = not event.allocation.shares and event.job_id in memory.notes.levels
        if starved or moved_on or risen or (memory.unplaced and preemptive):
            memory.replan_needed = memory.replan_at_once = True

    observers: dict[type[Event], Any] = dict.fromkeys(_TOUCHED, touched)
    observers.update(dict.fromkeys(_LEFT, left))
    observers |= {JobSubmitted: submitted, AllocationChanged: allocated}
    if memory.sizes is not None:
        sizes = memory.sizes

        def reshaped(event: JobReshaped, view: View) -> None:
            sizes.sync(view.jobs[event.job_id])

        def solved(event: SizesSet, view: View) -> None:
            sizes.answer = {
                size.job_id: Resources(0, size.cpus_milli, size.memory_mb) for size in event.sizes
            }

        def corrected(event: SensitivityCorrected, view: View) -> None:
            sizes.correct(event.model, view)
            memory.replan_needed = True

        def refused(event: ReshapeRefused, view: View) -> None:
            touched(event, view)
            sizes.unsized.update(dict.fromkeys([share.node for share in event.kept]))

        observers |= {JobReshaped: reshaped, SizesSet: solved}
        observers |= {SensitivityCorrected: corrected, ReshapeRefused: refused}
    return observers
