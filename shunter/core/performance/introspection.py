"""Trials of a change: propose it, try it for a while, measure it, keep or revert it (Gandiva).

Whether a change helps is not predicted but measured, by the mini-batches of the jobs it touches
(Xiao et al., OSDI 2018: introspection). A policy proposes changes in its own order; what was
measured is remembered by models and type of GPU, so that a change that lost is not tried again
until one of these is another.

A job's normalised rate is its rate in the trial over its rate before. Rates of several jobs add up.
The sum is compared with the sum as things were: 1 for each GPU that jobs have in turns, what a GPU
does that is given to one at a time; the number of jobs where each has GPUs of its own. All are
whole millionths, rounded down, so that nothing is kept because of a rounding.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from shunter.core.performance.trials import KnownVerdict, Trial
from shunter.core.planning.plan import Judge, Try
from shunter.core.state import RUNNING, Job
from shunter.core.view import View
from shunter.events.values import (
    MILLION,
    Batch,
    ChangeKey,
    JobId,
    TrialKind,
    TrialReason,
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
