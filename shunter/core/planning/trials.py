"""Which trials of a plan may begin, and which end: the approver's part for what is tried."""

from collections.abc import Iterable, Iterator, Sequence

from shunter.core.effects import Effect, ShareTurns
from shunter.core.planning.approver import no_such_job
from shunter.core.planning.plan import Change, Judge, Move, Plan, Try
from shunter.core.state import Job, State
from shunter.events.facts import (
    PlanRejected,
    TrialFact,
    TrialKept,
    TrialReverted,
    TrialStarted,
)
from shunter.events.values import (
    KEPT,
    MILLION,
    SUM_MOST,
    Batch,
    JobId,
    Reason,
    TrialKind,
    TrialReason,
)

_RULE = "trial"
_OF_MOVES = (TrialReason.no_loss, TrialReason.cost_not_met, TrialReason.no_way_back)


def verdicts(
    plan: Plan, granted: Sequence[Change], state: State, now_us: int
) -> Iterator[TrialFact | PlanRejected]:
    """Yield how trials end by a plan, or why they do not; before its changes.

    Args:
        plan: what a policy wants.
        granted: those of its changes that are carried out.
        state: the jobs.
        now_us: the instant.
    """
    moved = {change.job_id for change in granted if type(change) is Move}
    judged: set[JobId] = set()
    for step in plan.trials:
        if not isinstance(step, Judge):
            continue
        job = state.jobs.get(step.job_id)
        if job is None:
            yield no_such_job(step.job_id, _RULE, now_us)
            continue
        names = {job.job_id, *job.packed_with}
        detail = _not_judged(step, job, state, moved)
        if judged & names:
            detail = "it is judged already by this plan"
        if detail:
            yield PlanRejected(now_us, step.job_id, Reason.refused, _RULE, detail)
            continue
        judged |= names
        trial = state.trials.get(step.job_id)
        kind = TrialKind.pack if trial is None else trial.kind
        fact = TrialKept if step.reason in KEPT else TrialReverted
        measured = step.sum_after / MILLION
        yield fact(now_us, step.job_id, kind, measured, step.reason, step.batches)


def trial_facts(
    plan: Plan, granted: Sequence[Change], state: State, now_us: int
) -> Iterator[TrialFact | PlanRejected]:
    """Yield which trials begin with a plan, or why they do not; after its changes.

    Args:
        plan: what a policy wants.
        granted: those of its changes that are carried out.
        state: the jobs, before the plan.
        now_us: the instant.
    """
    moved = {change.job_id for change in granted if type(change) is Move}
    changed = {change.job_id for change in granted}
    taken: set[JobId] = set()
    for step in plan.trials:
        if not isinstance(step, Try):
            continue
        job_id = step.job_id
        if job_id not in state.jobs:
            yield no_such_job(job_id, _RULE, now_us)
            continue
        detail = _refusal(step, state, moved, changed, taken)
        if detail:
            yield PlanRejected(now_us, job_id, Reason.refused, _RULE, detail)
            continue
        taken.update((job_id, *step.partners))
        before = step.sum_before / MILLION
        yield TrialStarted(now_us, job_id, step.kind, step.partners, before, step.batches, step.key)


def orders_of(fact: TrialFact, state: State) -> Iterable[Effect]:
    """Return what a backend is told of a trial, before the fact is folded."""
    if fact.trial != TrialKind.pack or isinstance(fact, TrialKept):
        return ()
    job = state.jobs[fact.job_id]
    beside = fact.partners if isinstance(fact, TrialStarted) else ()
    return (ShareTurns(job.job_id, job.attempt, beside),)


def _not_judged(step: Judge, job: Job, state: State, moved: set[JobId]) -> str:
    """Return why a trial does not end so; empty: it does."""
    trial, names = state.trials.get(step.job_id), {job.job_id, *job.packed_with}
    if step.reason is TrialReason.room:
        is_kept = bool(job.packed_with) and not names & state.trials.keys()
        return "" if is_kept else "no pack of the job has been kept, for which there could be room"
    if trial is None:
        return "nothing is tried of the job"
    if not 0 <= step.sum_after < SUM_MOST * MILLION or not _are_batches(step.batches, names):
        return "it says not what jobs of the trial measured"
    if trial.kind is TrialKind.pack:
        is_of_moves = step.reason in _OF_MOVES
        return "the reason is one of moves, and a pack is tried" if is_of_moves else ""
    if (step.job_id in moved) is (step.reason in KEPT):
        return "a move is undone by another one in the same plan, and only then"
    return ""


def _are_batches(batches: Sequence[Batch], names: set[JobId]) -> bool:
    """Say whether mini-batches are times of some jobs, each once."""
    told = [batch.job_id for batch in batches]
    return (
        set(told) <= names and len(set(told)) == len(told) and all(b.batch_us > 0 for b in batches)
    )


def _refusal(
    step: Try, state: State, moved: set[JobId], changed: set[JobId], taken: set[JobId]
) -> str:
    """Return why a trial may not begin; empty: it may."""
    names = (step.job_id, *step.partners)
    jobs = [state.jobs[name] for name in names if name in state.jobs]
    if len(jobs) != len(set(names)):
        return "it names a job that does not exist, or one twice"
    if not all(_may_be_tried(job, state) for job in jobs) or taken.intersection(names):
        return "something is tried already of one of its jobs, or has been kept"
    is_measured = _are_batches(step.batches, set(names)) and len(step.batches) == len(names)
    if not is_measured or not 0 < step.sum_before < SUM_MOST * MILLION:
        return "it says not what each of its jobs measured before"
    if step.kind is TrialKind.migrate:
        has_moved = step.job_id in moved and not step.partners
        return "" if has_moved else "the job is not moved by this plan, or has partners"
    if changed.intersection(names):
        return "one of its jobs is changed by this plan"
    if len(jobs) != 2:
        return "a pack is of two jobs"
    return "" if _take_turns_together(jobs) else "its jobs take no turns together"


def _may_be_tried(job: Job, state: State) -> bool:
    return not job.packed_with and job.job_id not in state.trials


def _take_turns_together(jobs: Sequence[Job]) -> bool:
    """Say whether jobs run, and take turns on as many GPUs of one server."""
    return all(
        job.takes_turns
        and job.held == job.allocation
        and job.takes_turns_on_server_of(jobs[0].allocation)
        for job in jobs
    )
