"""Trials of a change: propose it, try it for a while, measure it, keep or revert it (Gandiva).

First the approver's part: which trials of a plan may begin, and which end. Then the policy's: when
a trial is to be judged, and how.

Whether a change helps is measured by the mini-batches of the jobs it touches (Xiao et al., OSDI
2018: introspection). Results are remembered by models and type of GPU, so that a change that lost
is not tried again until one of these is another.

A job's normalised rate is its rate in the trial over its rate before. The sum over the jobs is
compared with the sum as things were: 1 for each GPU that jobs have in turns; the number of jobs
where each has its own GPUs. All are whole millionths, rounded down, so that nothing is kept because
of a rounding.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from shunter.core.interfaces import Effect, ShareTurns
from shunter.core.plan import Change, Judge, Move, Plan, Try
from shunter.core.planning.approver import no_such_job
from shunter.core.speeds import KnownVerdict, Trial
from shunter.core.state import RUNNING, Job, State
from shunter.core.view import View
from shunter.events import (
    KEPT,
    MILLION,
    SUM_MOST,
    Batch,
    ChangeKey,
    JobId,
    Reason,
    TrialFact,
    TrialKind,
    TrialReason,
    facts,
)

_RULE = "trial"
_OF_MOVES = (TrialReason.no_loss, TrialReason.cost_not_met, TrialReason.no_way_back)


def verdicts(
    plan: Plan, granted: Sequence[Change], state: State, now_us: int
) -> Iterator[TrialFact | facts.PlanRejected]:
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
            yield facts.PlanRejected(now_us, step.job_id, Reason.refused, _RULE, detail)
            continue
        judged |= names
        trial = state.trials.get(step.job_id)
        kind = TrialKind.pack if trial is None else trial.kind
        fact = facts.TrialKept if step.reason in KEPT else facts.TrialReverted
        measured = step.sum_after / MILLION
        yield fact(now_us, step.job_id, kind, measured, step.reason, step.batches)


def trial_facts(
    plan: Plan, granted: Sequence[Change], state: State, now_us: int
) -> Iterator[TrialFact | facts.PlanRejected]:
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
            yield facts.PlanRejected(now_us, job_id, Reason.refused, _RULE, detail)
            continue
        taken.update((job_id, *step.partners))
        before = step.sum_before / MILLION
        yield facts.TrialStarted(
            now_us, job_id, step.kind, step.partners, before, step.batches, step.key
        )


def orders_of(fact: TrialFact, state: State) -> Iterable[Effect]:
    """Return what a backend is told of a trial, before the fact is folded."""
    if fact.trial != TrialKind.pack or isinstance(fact, facts.TrialKept):
        return ()
    job = state.jobs[fact.job_id]
    beside = fact.partners if isinstance(fact, facts.TrialStarted) else ()
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
    are_free = all(not job.packed_with and job.job_id not in state.trials for job in jobs)
    if not are_free or taken.intersection(names):
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


def _take_turns_together(jobs: Sequence[Job]) -> bool:
    """Say whether jobs run, and take turns on as many GPUs of one server."""
    return all(
        job.takes_turns
        and job.held == job.allocation
        and job.takes_turns_on_server_of(jobs[0].allocation)
        for job in jobs
    )


_WORDS = ("job ", "model ")
WAITS_MOST = 8
"""So many probes after its begin a trial ends in which a job had too few samples."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a trial ended.

    `sum_after` are the normalised rates in it, in millionths, by the mini-batches of `batches`.
    """

    reason: TrialReason
    sum_after: int
    batches: tuple[Batch, ...]

    def judges(self, job_id: JobId) -> Judge:
        """Return the part of a plan that says so."""
        return Judge(job_id, self.reason, self.sum_after, self.batches)


@dataclass(frozen=True, slots=True)
class TrialRules:
    """How long a change is tried, and by which part it has to be better.

    `probe_us` is in microseconds, `epsilon` in millionths of the sum before.
    """

    probe_us: int
    epsilon: int = 0

    def next_us(self, trial: Trial, now_us: int) -> int:
        """Return when a trial can be judged next: after a probe, and each later one."""
        probes = (now_us - trial.started_us) // self.probe_us + 1
        return trial.started_us + probes * self.probe_us

    def verdict(
        self,
        trial: Trial,
        jobs: tuple[Job, ...],
        now_us: int,
        margin: int = 0,
        *,
        must_gain: bool = True,
    ) -> Verdict | None:
        """Return how a trial ends now; None while it goes on.

        A job that makes no progress on its turn ends it at once: the GPU cannot hold both. So does
        one, later, that has told nothing in two probes on its turn.

        Args:
            trial: what is tried.
            jobs: its job and partners, in its order.
            now_us: the instant.
            margin: by which part it has to be better than what it cost, in millionths, beside
                `epsilon`; by as much it has to be worse to be undone at the same cost.
            must_gain: whether it is to be faster; otherwise it is enough that it is not slower.
        """
        is_pack = trial.kind is TrialKind.pack
        is_awaited = is_pack and not trial.is_on  # what jobs tell so far is of turns of their own
        paces = {} if is_awaited else {job.job_id: job.pace.batch_us_at(job.speed) for job in jobs}
        batches = tuple(Batch(job_id, us) for job_id, us in paces.items() if us is not None)
        after = sum(
            before.batch_us * MILLION // taken_us
            for before in trial.batches
            if (taken_us := paces.get(before.job_id)) is not None
        )
        stuck = [job.job_id for job in jobs if job.phase is RUNNING and job.gpus and not job.speed]
        if stuck:
            going = tuple([each for each in batches if each.job_id not in stuck])
            return Verdict(TrialReason.no_progress, after, going)
        waited_us = now_us - trial.started_us - self.probe_us
        if waited_us < 0:
            return None
        if len(batches) < len(jobs):
            if not is_awaited and self._least_turn(trial, jobs, now_us) >= 2 * self.probe_us:
                return Verdict(TrialReason.no_progress, after, batches)
            is_late = is_pack and waited_us >= WAITS_MOST * self.probe_us
            return Verdict(TrialReason.not_measured, after, batches) if is_late else None
        # Both sides times a million: margins are parts of the sums.
        before, part = trial.sum_before, MILLION + self.epsilon + margin
        if after * MILLION > before * part:
            return Verdict(TrialReason.gained, after, batches)
        reason = TrialReason.lost
        if before * MILLION <= after * part and (margin or not must_gain):
            reason = TrialReason.cost_not_met if must_gain else TrialReason.no_loss
        return Verdict(reason, after, batches)

    def _least_turn(self, trial: Trial, jobs: tuple[Job, ...], now_us: int) -> int:
        """Return how long those had GPUs, since a change, that measured too little."""
        return min(
            (
                (job.service_us(now_us) - max(before_us, job.pace.service_us))
                // max(1, job.spec.gpus)
                for job, before_us in zip(jobs, trial.service_us, strict=True)
                if job.pace.batch_us is None
            ),
            default=0,
        )


def _measured(jobs: tuple[Job, ...]) -> tuple[Batch, ...] | None:
    """Return what jobs measure of their mini-batches as things are; None: too little."""
    batches = [(job.job_id, job.pace.batch_us_at(job.speed)) for job in jobs]
    known = [Batch(job_id, us) for job_id, us in batches if us is not None]
    return tuple(known) if len(known) == len(jobs) else None


def model_of(job: Job) -> str:
    """Return what verdicts know a job by: its model, or where it has none, itself.

    A model whose name could be taken for that of a job has another word before it.
    """
    model = job.spec.model
    return f"model {model}" if model.startswith(_WORDS) else model or f"job {job.job_id}"


def is_known_to_pay(
    key: ChangeKey,
    known: Mapping[ChangeKey, KnownVerdict],
    sum_now: int,
    margin: int,
    *,
    must_gain: bool,
) -> bool | None:
    """Say whether a change that costs so much gained more before; None: nobody knows.

    Args:
        key: the change.
        known: how the last trials ended.
        sum_now: the sum of normalised rates as things are, in millionths. What the change makes of
            it was measured, whatever the sum was then.
        margin: what it costs, in millionths of the rates before.
        must_gain: whether it has to be faster; otherwise it must not be slower by as much.
    """
    verdict = known.get(key)
    if verdict is None:
        return None
    before, after, part = sum_now, verdict.sum_after, MILLION + margin
    if must_gain:
        return after * MILLION > before * part
    return before * MILLION <= after * part


def is_known_loss(key: ChangeKey, known: Mapping[ChangeKey, KnownVerdict]) -> bool:
    """Say whether a change was tried before, and did not help."""
    verdict = known.get(key)
    return verdict is not None and verdict.is_loss


def proposed(
    job: Job, partners: tuple[Job, ...], key: ChangeKey, kind: TrialKind, sum_before: int
) -> Try | None:
    """Return the trial of a change; None while its jobs have told too little."""
    batches = _measured((job, *partners))
    if batches is None:
        return None
    others = tuple(other.job_id for other in partners)
    return Try(job.job_id, kind, others, key, sum_before, batches)


def running(view: View) -> Iterator[tuple[Trial, tuple[Job, ...]]]:
    """Yield the trials that go on, each with its job and partners."""
    for job_id, trial in view.trials.items():
        yield trial, tuple(view.jobs[name] for name in (job_id, *trial.partners))
