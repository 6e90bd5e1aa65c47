"""Trials end by what was measured, and say by how much."""

import pytest

from shunter.core import RUNNING, Job
from shunter.core.planning import TrialRules, Verdict, model_of
from shunter.core.speeds import Pace, Trial
from shunter.events import (
    MILLION,
    Batch,
    ChangeKey,
    GpuType,
    JobId,
    ProfileSampled,
    TrialKind,
    TrialReason,
)
from tests.factories import job_spec

A, B = JobId("a"), JobId("b")
KEY = ChangeKey("pack", ("x", "y"), GpuType("p100"))
AWAITED = Trial(TrialKind.pack, KEY, (B,), 5, MILLION, (Batch(A, 100), Batch(B, 200)), (0, 0))
TRIAL = AWAITED.begun()
MOVE = Trial(TrialKind.migrate, KEY, (), 0, MILLION, (Batch(A, 1000),), (0,))
RULES = TrialRules(60)


def job(job_id: JobId, batch_us: int | None, *, gpus: int = 1, service_us: int = 0) -> Job:
    """Return a job on its turn that has measured so much in five samples, or nothing."""
    spec = job_spec(1)
    pace = Pace() if batch_us is None else Pace(5, 3 * batch_us)
    return Job(
        job_id, 0, spec, spec.demand(), 0, RUNNING, gpus=gpus, service_gpu_us=service_us, pace=pace
    )


def of_model(model: str, job_id: JobId = A) -> str:
    """Return what verdicts know a job by that is of a model, or of none."""
    spec = job_spec(1, model=model)
    return model_of(Job(job_id, 0, spec, spec.demand(), 0))


def pair(one_us: int | None, other_us: int | None, **fields: int) -> tuple[Job, Job]:
    return job(A, one_us, **fields), job(B, other_us, **fields)


def test_a_pair_that_gains_is_kept_at_the_end_of_its_probe() -> None:
    jobs = pair(160, 320)
    assert RULES.verdict(TRIAL, jobs, 64) is None
    batches = (Batch(A, 160), Batch(B, 320))
    assert RULES.verdict(TRIAL, jobs, 65) == Verdict(TrialReason.gained, 1_250_000, batches)


@pytest.mark.parametrize(("epsilon", "taken_us"), [(0, (200, 400)), (250_000, (160, 320))])
def test_what_is_only_as_good_is_reverted(epsilon: int, taken_us: tuple[int, int]) -> None:
    verdict = TrialRules(60, epsilon).verdict(TRIAL, pair(*taken_us), 65)
    assert verdict is not None
    assert verdict.reason is TrialReason.lost


def test_a_job_without_speed_on_its_turn_ends_the_trial_at_once() -> None:
    one, other = pair(160, None)
    other.speed = 0.0
    verdict = RULES.verdict(TRIAL, (one, other), 6)
    assert verdict == Verdict(TrialReason.no_progress, 625_000, (Batch(A, 160),))
    other.pace = Pace(5, 3 * 320)  # of before it stopped
    verdict = RULES.verdict(TRIAL, (one, other), 6)
    assert verdict is not None
    assert verdict.batches == (Batch(A, 160),), "who stopped measures nothing now"
    other.pace = Pace()
    other.gpus = 0  # it only waits for its turn
    assert RULES.verdict(TRIAL, (one, other), 6) is None


def test_a_job_that_tells_nothing_in_two_probes_on_its_turn_makes_no_progress() -> None:
    assert RULES.verdict(TRIAL, pair(160, None, gpus=0, service_us=119), 200) is None
    verdict = RULES.verdict(TRIAL, pair(160, None, gpus=0, service_us=120), 200)
    assert verdict is not None
    assert verdict.reason is TrialReason.no_progress


def test_a_trial_in_which_jobs_had_no_turn_measures_nothing() -> None:
    jobs = pair(160, None, gpus=0)
    late_us = 5 + 9 * 60
    assert RULES.verdict(TRIAL, jobs, late_us - 1) is None
    verdict = RULES.verdict(TRIAL, jobs, late_us)
    assert verdict is not None
    assert verdict.reason is TrialReason.not_measured


@pytest.mark.parametrize(
    ("after_us", "reason"),
    [
        (800, TrialReason.gained),
        (909, TrialReason.gained),
        (910, TrialReason.cost_not_met),
        (1000, TrialReason.cost_not_met),
        (1099, TrialReason.cost_not_met),
        (1101, TrialReason.lost),
        (2000, TrialReason.lost),
    ],
)
def test_a_move_is_kept_for_more_than_its_cost_and_undone_for_a_loss_of_more(
    after_us: int, reason: TrialReason
) -> None:
    verdict = RULES.verdict(MOVE, (job(A, after_us),), 60, margin=100_000)
    assert verdict is not None
    assert verdict.reason is reason


@pytest.mark.parametrize(
    ("now_us", "next_us"), [(5, 65), (64, 65), (65, 125), (124, 125), (125, 185)]
)
def test_a_trial_is_looked_at_after_each_probe(now_us: int, next_us: int) -> None:
    assert RULES.next_us(TRIAL, now_us) == next_us


def test_two_samples_may_tell_of_what_was_before_and_count_for_nothing() -> None:
    pace = Pace()
    for batch_us in (900, 500, 100, 200):
        sample = ProfileSampled(0, A, 1, batch_s=batch_us / 1e6, gpu_utilisation=0.5)
        assert pace.batch_us is None
        pace = pace.sampled(batch_us, sample)
    assert (pace.batch_us, pace.gpu_utilisation) == (150, 0.5)


def test_verdicts_know_jobs_without_a_model_apart_from_all_models() -> None:
    assert (of_model("resnet"), of_model("")) == ("resnet", "job a")
    models = ("job a", "model job a", "model x", "x", "job", "")
    assert len({of_model(model) for model in models}) == len(models)
    assert of_model("", A) != of_model("", B)


def test_a_sample_that_comes_once_more_after_a_change_is_none_of_the_two() -> None:
    pace = Pace().sampled(900, ProfileSampled(0, A, 1, step=7)).anew()
    assert pace.sampled(900, ProfileSampled(1, A, 1, step=7)) == Pace(step=7)
    assert pace.sampled(900, ProfileSampled(1, A, 1, step=8)).seen == 1


def test_a_pair_that_had_no_turn_together_is_not_judged() -> None:
    assert RULES.verdict(AWAITED, pair(100, 200, service_us=600), 500) is None
    verdict = RULES.verdict(AWAITED, pair(100, 200, service_us=600), 5 + 9 * 60)
    assert verdict == Verdict(TrialReason.not_measured, 0, ())
