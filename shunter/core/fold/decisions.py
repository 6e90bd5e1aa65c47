"""Rules for the facts about decisions: of rounds, of trials, and of the scheduler's own terms."""

from dataclasses import replace

from shunter.core.fold.attempts import (
    back_to_queue,
    begin,
    decide,
    enter,
    grant,
    hold,
    job_of,
    launch,
    leave_trial,
    look_at_unseen,
    may_launch,
    open_up,
    pack_jobs,
    rehome,
    stop_work,
    take_back_preemption,
    undecide,
    ungrant,
    unpack_job,
    vacate,
)
from shunter.core.speeds import KnownVerdict, Trial
from shunter.core.state import (
    AT_WORK,
    RUNNING,
    SUSPENDING,
    WAITING,
    FoldResult,
    Job,
    Rejection,
    Rule,
    State,
)
from shunter.errors import IllegalEventError
from shunter.events import (
    DISPLACED,
    HELD,
    LOSSES,
    MILLION,
    NO_SUCH_JOB,
    NOTHING,
    RESIZED,
    SUM_MOST,
    Allocation,
    Because,
    Event,
    Reason,
    Sharing,
    TrialKind,
    TrialReason,
    Wait,
    facts,
    is_preemption,
)

_EXCLUSIVE, _PACKED, _SLICED = Sharing  # members are slow to look up
SET_ASIDE = "set aside: "
"""How a policy's fault begins that lasts until the scheduler is started anew."""

_RECENT_PREEMPTIONS = 16  # remembered a job; more than any sensible guard counts in an hour


def round_planned(state: State, event: facts.RoundPlanned) -> None:
    """Count the round, and note what holds back each class of waiting jobs."""
    if event.seen > state.seq:
        raise IllegalEventError(f"round {event.number} saw event {event.seen} before it happened")
    state.round_number = event.number
    state.rounds_planned += 1
    state.policy_fault = event.fault
    for entry in event.waits:
        if entry.wait is None:
            state.class_waits.pop(entry.demand, None)
        else:
            state.class_waits[entry.demand] = entry.wait
    if state.unseen and not event.fault:
        look_at_unseen(state)
    for job_id in event.consolidated:
        job_of(state, job_id, "RoundPlanned").must_consolidate = True
    for job_id in event.spread:
        job_of(state, job_id, "RoundPlanned").must_consolidate = False
    for job_id in event.admitted:
        state.proposals.admitted[job_of(state, job_id, "RoundPlanned").job_id] = None
    for job_id in event.dismissed:
        state.proposals.forget(job_id)


def policy_set_aside(state: State, event: facts.PolicySetAside) -> None:
    """Note why nothing is decided until the end of the term."""
    if event.told > state.seq:
        raise IllegalEventError(f"a policy was set aside that knew event {event.told} before all")
    state.policy_fault = f"{SET_ASIDE}{event.cause}"


def targets_set(state: State, event: facts.TargetsSet) -> None:
    """Remember the shares the policy aims at."""
    state.targets = event.targets
    state.targets_status = "" if event.status == "ok" else event.status


def sizes_set(state: State, event: facts.SizesSet) -> None:
    """Only a note: what jobs have changes with the facts of the round that follows."""
    for size in event.sizes:
        job_of(state, size.job_id, "SizesSet")


def allocation_changed(state: State, event: facts.AllocationChanged) -> FoldResult | None:
    """Give a job other GPUs, or none; where that takes no time, it has happened."""
    job = state.jobs.get(event.job_id) or job_of(state, event.job_id, "AllocationChanged")
    target = event.allocation
    if target.sharing is not _EXCLUSIVE:
        if target.sharing is _SLICED and event.instant:
            raise IllegalEventError(f"job {job.job_id} is to take turns where nothing takes time")
        if job.stays_for(target):
            open_up(state, job, target, event.at_us)
            return None
    if target.shares and job.preempted_at_us[-1:] == (event.at_us,):
        _was_moved(job, target)
    elif job.since_us is not None:
        _count_leaving(job, event)
    if not target.shares:
        _note_why_it_leaves(job, event.because)
    if event.instant and not state.granted:
        return _change_at_once(state, job, event)
    _decide(state, job, target, event.at_us)
    if job.since_us is not None:
        enter(job, SUSPENDING)
    elif target.shares:
        return _enter(state, job, event)
    else:
        ungrant(state, job)
        enter(job, WAITING)
        if job.is_unseen:
            state.unseen[job.job_id] = None
    return None


def job_reshaped(state: State, event: facts.JobReshaped) -> None:
    """Give a job other CPUs or memory beside the GPUs that it has or is about to get.

    One that takes turns may get other GPUs of its server as well: it goes on there with its turns.
    """
    job, target = job_of(state, event.job_id, "JobReshaped"), event.allocation
    before = job.allocation
    if not before.shares:
        raise IllegalEventError(f"JobReshaped of job {job.job_id}, which is {job.phase}")
    if target.sharing is _SLICED and job.takes_turns_on_server_of(target):
        rehome(state, job, target, event.at_us)
        return
    if target.sharing is not before.sharing or not target.is_on_gpus_of(before):
        raise IllegalEventError(f"JobReshaped of job {job.job_id} to other GPUs than it has")
    state.cluster.reshape(before.shares, target.shares)
    if job.held == before:
        job.held = target
    job.allocation = target


def wait_reason_changed(state: State, event: facts.WaitReasonChanged) -> None:
    """Note what holds back one job."""
    job = job_of(state, event.job_id, "WaitReasonChanged")
    job.wait, job.left_for = event.wait, None


def plan_rejected(state: State, event: facts.PlanRejected) -> None:
    """Only a note: the change that was refused did not happen."""
    if event.detail != NO_SUCH_JOB:
        job_of(state, event.job_id, "PlanRejected")


def reservation_set(state: State, event: facts.ReservationSet) -> None:
    """Remember from when on which GPUs are kept for a job, if any.

    Who did not take what was kept for it begins anew to be rejected.
    """
    job_of(state, event.job_id, "ReservationSet")
    book = state.proposals
    if event.start_us is None:
        state.reservations.pop(event.job_id, None)
        if book.reserved.pop(event.job_id, None) is not None:
            book.rejections.pop(event.job_id, None)
        return
    state.reservations[event.job_id] = event.start_us
    if event.shares:
        book.reserved[event.job_id] = event.shares


def gang_proposed(state: State, event: facts.GangProposed) -> None:
    """Only a note: what the approver says of it comes next."""
    job_of(state, event.job_id, "GangProposed")
    _seen(state, event.job_id, event.version)
    if not event.candidates:
        raise IllegalEventError(f"GangProposed of job {event.job_id} names no candidate")


def gang_approved(state: State, event: facts.GangApproved) -> None:
    """Count it; the job is given its GPUs by the next fact."""
    job_of(state, event.job_id, "GangApproved")
    _seen(state, event.job_id, event.version)
    state.proposals.approved += 1
    state.proposals.forget(event.job_id)
    state.reservations.pop(event.job_id, None)


def gang_rejected(state: State, event: facts.GangRejected) -> None:
    """Count it, and remember by which GPUs and until when the job waits since."""
    job_of(state, event.job_id, "GangRejected")
    _seen(state, event.job_id, event.version)
    if event.count < 1:
        raise IllegalEventError(f"GangRejected of job {event.job_id} counts {event.count}")
    book = state.proposals
    book.rejected += event.count
    if event.conflicts:
        book.conflicts += event.count
    book.rejections[event.job_id] = Rejection(
        event.at_us,
        book.rejected_in_a_row(event.job_id) + event.count,
        event.reason,
        event.conflicts,
        event.detail,
        event.retry_us,
    )


def _count_leaving(job: Job, event: facts.AllocationChanged) -> None:
    """Count a preemption or migration of a job that was not told to leave before.

    With other CPUs or memory on the GPUs it has, it is neither, nor with more GPUs or fewer. A
    preemption counts until the job ends before it has left.
    """
    target = event.allocation
    if job.phase in AT_WORK:
        if target.shares:
            is_as_large = target.gpus == job.allocation.gpus
            job.migrations += is_as_large and not target.is_on_gpus_of(job.allocation)
        elif is_preemption(event):
            job.preemptions += 1
            job.preempted_at_us = (*job.preempted_at_us[1 - _RECENT_PREEMPTIONS :], event.at_us)
    elif job.phase is not SUSPENDING:
        raise IllegalEventError(f"AllocationChanged of job {job.job_id}, which is {job.phase}")


def _note_why_it_leaves(job: Job, because: Because) -> None:
    """Keep why a job waits until a round says: for those who get its GPUs."""
    rule = because.rule
    if rule == DISPLACED.rule:
        job.left_for = Wait(Reason.displaced, blockers=because.beneficiaries, detail=because.detail)
    elif job.since_us is not None and rule not in (HELD.rule, RESIZED.rule):
        reason = Reason(rule) if rule in Reason.__members__ else Reason.outranked
        job.left_for = Wait(reason, blockers=because.beneficiaries)


def _was_moved(job: Job, target: Allocation) -> None:
    """Count as a migration that a job gets GPUs when it has just lost others.

    So a plan says it whose gangs change places in a circle.
    """
    take_back_preemption(job)
    job.migrations += job.held.gpus in (0, target.gpus) and not target.is_on_gpus_of(job.held)


def _change_at_once(state: State, job: Job, event: facts.AllocationChanged) -> FoldResult | None:
    """Leave the old GPUs and launch on the new ones at this very instant."""
    if job.since_us is not None:
        stop_work(job, event.at_us)
        vacate(state, job, event.at_us)
        back_to_queue(state, job, event.at_us)
    target = event.allocation
    if not target.shares:
        return None
    gpus = target.gpus
    job.allocation = target
    if target.sharing is not _EXCLUSIVE:
        _join_at_once(state, job, event.at_us)
    else:
        state.cluster.occupy(target.shares)
    state.queues[job.spec.queue].gpus += gpus
    begin(state, job, event.at_us, gpus)
    enter(job, RUNNING)
    job.working_since_us, job.speed = event.at_us, 1.0
    return FoldResult((job,))


def _join_at_once(state: State, job: Job, at_us: int) -> None:
    """Decide and hold GPUs beside others in one step."""
    decide(state, job)
    if not may_launch(state, job):
        raise IllegalEventError(f"job {job.job_id} was launched where others have yet to leave")
    hold(state, job, at_us)


def _decide(state: State, job: Job, target: Allocation, at_us: int) -> None:
    leave_trial(state, job, at_us)
    queue = state.queues[job.spec.queue]
    if job.allocation.shares:
        undecide(state, job)
        queue.gpus -= job.allocation.gpus
    job.allocation = target
    if target.shares:
        decide(state, job)
        queue.gpus += target.gpus


def _enter(state: State, job: Job, event: facts.AllocationChanged) -> FoldResult | None:
    """Launch a job on its GPUs, or note that others must leave them first."""
    if may_launch(state, job):
        ungrant(state, job)
        launch(state, job, event.at_us)
        return FoldResult((job,))
    grant(state, job)
    return None


def _seen(state: State, job_id: str, version: int) -> None:
    if version > state.seq:
        raise IllegalEventError(
            f"a gang of job {job_id} goes by event {version} before it happened"
        )


# Trials.


def trial_started(state: State, event: facts.TrialStarted) -> None:
    """Note what is tried; pack jobs that are to have their turns together."""
    names = (event.job_id, *event.partners)
    jobs = [job_of(state, name, "TrialStarted") for name in names]
    if event.key is None or any(job.packed_with or job.job_id in state.trials for job in jobs):
        raise IllegalEventError(
            f"TrialStarted of job {event.job_id}: nothing says what is tried, or it is already"
        )
    if event.trial not in set(TrialKind) or not 0 < event.baseline < SUM_MOST:
        raise IllegalEventError(
            f"TrialStarted of job {event.job_id}: {event.trial!r} from {event.baseline}, expected "
            f"one of {', '.join(TrialKind)} from a sum above 0"
        )
    for job in jobs:
        job.pace = job.pace.anew()
    kind = TrialKind(event.trial)
    if kind is TrialKind.pack:
        pack_jobs(state, jobs, event.at_us)
    state.trials[event.job_id] = Trial(
        kind,
        event.key,
        event.partners,
        event.at_us,
        round(event.baseline * MILLION),
        event.batches,
        tuple([job.service_us(event.at_us) for job in jobs]),
        jobs[0].held if kind is TrialKind.migrate else NOTHING,  # it has yet to leave
    )


def trial_reverted(state: State, event: facts.TrialReverted) -> None:
    """Remember a verdict; jobs that were packed have turns of their own again."""
    job = job_of(state, event.job_id, "TrialReverted")
    if event.job_id in state.trials:
        trial_judged(state, event)
    elif not job.packed_with:
        raise IllegalEventError(f"TrialReverted of job {event.job_id}, of which nothing is tried")
    if job.packed_with:
        unpack_job(state, job, event.at_us)
    job.pace = job.pace.anew()


def trial_judged(state: State, event: facts.TrialKept | facts.TrialReverted) -> None:
    """Remember a verdict; what was tried goes on."""
    trial, kind = state.trials.pop(event.job_id, None), type(event).__name__
    if trial is None:
        raise IllegalEventError(f"{kind} of job {event.job_id}, of which nothing is tried")
    if event.reason not in set(TrialReason) or not 0 <= event.measured < SUM_MOST:
        raise IllegalEventError(
            f"{kind} of job {event.job_id} for {event.reason!r} with {event.measured}: expected a "
            "reason of trials and a sum of 0 or more"
        )
    reason = TrialReason(event.reason)
    if reason not in (TrialReason.not_measured, TrialReason.room):  # those say nothing of it
        state.verdicts.pop(trial.key, None)  # the newest is the last
        state.verdicts[trial.key] = KnownVerdict(
            reason in LOSSES, trial.sum_before, round(event.measured * MILLION)
        )


def probe_anew(state: State, at_us: int) -> None:
    """Begin all probes again, for nobody has read meanwhile what jobs told."""
    for job_id, trial in state.trials.items():
        jobs = [state.jobs[name] for name in (job_id, *trial.partners)]
        state.trials[job_id] = replace(
            trial, started_us=at_us, service_us=tuple([job.service_us(at_us) for job in jobs])
        )


# The scheduler itself.


def scheduler_started(state: State, event: facts.SchedulerStarted) -> None:
    """Begin a term, which must be later than all before."""
    if event.term <= state.term:
        raise IllegalEventError(f"term {event.term} was started after term {state.term}")
    state.term = event.term
    state.policy = event.policy
    probe_anew(state, event.at_us)
    _take_up(state)


def config_changed(state: State, event: facts.ConfigChanged) -> None:
    """Go on under another configuration."""
    state.policy = event.policy
    _take_up(state)


def _take_up(state: State) -> None:
    """Forget that the policy was set aside: it is asked again from now on."""
    if state.policy_fault.startswith(SET_ASIDE):
        state.policy_fault = ""


def clock_stepped(state: State, event: facts.ClockStepped) -> None:
    """Only a note: the log's own clock never follows the wall clock."""


def segment_sealed(state: State, event: facts.SegmentSealed) -> None:
    """Only a note: where old frames are kept changes nothing about the cluster."""
    if event.last_seq > state.seq:
        raise IllegalEventError(f"a segment up to {event.last_seq} was sealed at {state.seq}")


def scheduler_stopped(state: State, event: facts.SchedulerStopped) -> None:
    """Only a note: the next term follows."""


def events_lost(state: State, event: facts.EventsLost) -> None:
    """Only a note: what was lost changed nothing that is known."""
    if not 0 < event.first_seq <= event.last_seq + 1 or event.first_seq > state.seq:
        raise IllegalEventError(
            f"events {event.first_seq} to {event.last_seq} were noted as lost at {state.seq}"
        )


DECISION_RULES: dict[type[Event], Rule] = {
    facts.RoundPlanned: round_planned,
    facts.TargetsSet: targets_set,
    facts.SizesSet: sizes_set,
    facts.AllocationChanged: allocation_changed,
    facts.JobReshaped: job_reshaped,
    facts.WaitReasonChanged: wait_reason_changed,
    facts.PlanRejected: plan_rejected,
    facts.PolicySetAside: policy_set_aside,
    facts.ReservationSet: reservation_set,
    facts.GangProposed: gang_proposed,
    facts.GangApproved: gang_approved,
    facts.GangRejected: gang_rejected,
    facts.TrialStarted: trial_started,
    facts.TrialKept: trial_judged,
    facts.TrialReverted: trial_reverted,
    facts.SchedulerStarted: scheduler_started,
    facts.ConfigChanged: config_changed,
    facts.ClockStepped: clock_stepped,
    facts.SegmentSealed: segment_sealed,
    facts.SchedulerStopped: scheduler_stopped,
    facts.EventsLost: events_lost,
}
