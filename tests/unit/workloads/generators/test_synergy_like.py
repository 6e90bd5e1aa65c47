"""`synergy-like`: the mix of models, durations, and what another split leaves as it was."""

from collections import Counter
from functools import partial

import pytest

from shunter.errors import ConfigError
from shunter.workloads import (
    CPUS_PER_GPU,
    Choices,
    describe_trace,
    generate_trace,
    published_models,
)
from tests.unit.workloads.generators.made import made

MODELS = published_models()


generated = partial(made, "synergy-like", cluster_gpus=128, gpus_max=8)


def test_trace_is_the_same_on_every_machine() -> None:
    """The first jobs, as they were when version 1 was fixed."""
    assert [
        (job.job_id, job.submit_us, job.duration_us, job.spec.gpus, job.spec.model)
        for job in generated(jobs=3).jobs
    ] == [
        ("0", 0, 154_896_500_000, 4, "lstm"),
        ("1", 2_681_483_000, 9_207_140_000, 1, "transformer"),
        ("2", 3_636_560_000, 16_279_680_000, 8, "res18"),
    ]


@pytest.mark.parametrize("split", [None, (50.0, 0.0, 50.0), (1.0, 2.0, 1.0)])
def test_classes_have_their_shares_and_models_of_a_class_the_same(
    split: tuple[float, float, float] | None,
) -> None:
    weights = split or (20.0, 70.0, 10.0)
    of = {name: model["class"] for name, model in MODELS.items()}
    models = Counter(job.spec.model for job in generated(jobs=8_000, split=split).jobs)
    for kind, weight in zip(("image", "language", "speech"), weights, strict=True):
        counts = [models[name] for name in MODELS if of[name] == kind]
        assert sum(counts) / 8_000 == pytest.approx(weight / sum(weights), abs=0.02)
        assert max(counts) <= 1.3 * min(counts)


def test_another_split_changes_models_and_not_how_long_jobs_take() -> None:
    """Method: durations are whole iterations, of which the longest takes less than a second."""
    one, other = generated(split=(0.0, 1.0, 0.0)).jobs, generated(split=(1.0, 0.0, 0.0)).jobs
    assert not {job.spec.model for job in one} & {job.spec.model for job in other}
    for job, twin in zip(one, other, strict=True):
        assert (job.submit_us, job.spec.gpus) == (twin.submit_us, twin.spec.gpus)
        assert abs(job.duration_us - twin.duration_us) < 1_000_000


def test_duration_is_whole_iterations_at_the_proportional_share() -> None:
    for job in generated(jobs=50).jobs:
        iter_s = MODELS[job.spec.model]["on_servers"][CPUS_PER_GPU]["iter_time_s"]
        assert job.spec.total_steps is not None
        assert job.duration_us == round(job.spec.total_steps * iter_s * 1e6)


def test_short_jobs_take_half_an_hour_to_eight_hours() -> None:
    minutes = sorted(job.duration_us / 60e6 for job in generated(jobs=2_000, short=True).jobs)
    assert minutes[0] >= 10**1.5 - 0.1
    assert minutes[-1] <= 10**2.7
    assert minutes[1_600] == pytest.approx(10**2.5, rel=0.05)


@pytest.mark.parametrize(("gpus_max", "short"), [(1, False), (8, False), (1, True)])
def test_load_is_that_of_the_mean_job(gpus_max: int, short: bool) -> None:
    trace = generated(jobs=8_000, load=0.9, gpus_max=gpus_max, short=short)
    assert describe_trace(trace, 128).load == pytest.approx(0.9, rel=0.1)


@pytest.mark.parametrize(
    ("kind", "choices", "what"),
    [
        ("gavel-like", Choices(split=(1.0, 1.0, 1.0)), "split: gavel-like has no classes"),
        ("gavel-like", Choices(short=True), "short: gavel-like has no such"),
        ("synergy-like", Choices(split=(0.0, 0.0, 0.0)), "expected three weights"),
        ("synergy-like", Choices(split=(-1.0, 1.0, 1.0)), "expected three weights"),
        ("synergy-like", Choices(weights=True), "weights: synergy-like has none"),
    ],
)
def test_choice_that_cannot_be_is_refused(kind: str, choices: Choices, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        generate_trace(kind, jobs=1, load=1.0, cluster_gpus=8, seed=0, choices=choices)
