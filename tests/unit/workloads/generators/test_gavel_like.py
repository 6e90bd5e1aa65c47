"""`gavel-like`: the distributions, the public draws, weights, deadlines, rates and tables."""

from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from shunter.core.speeds import JobKind, ThroughputTable
from shunter.errors import ConfigError
from shunter.events import GpuType
from shunter.workloads import (
    GAVEL_MODELS,
    Choices,
    builtin_throughputs,
    describe_trace,
    generate_trace,
    load_throughputs,
    load_trace,
)
from tests.unit.workloads.generators.made import made

V100 = GpuType("v100")


generated = partial(made, "gavel-like", cluster_gpus=108)


def test_trace_is_the_same_on_every_machine() -> None:
    """The first jobs, as they were when version 1 was fixed."""
    assert [
        (job.job_id, job.submit_us, job.duration_us, job.spec.gpus, job.spec.model)
        for job in generated(jobs=3).jobs
    ] == [
        ("0", 0, 3061579652, 1, "Recommendation (batch size 2048)"),
        ("1", 999664000, 42227759336, 1, "ResNet-18 (batch size 64)"),
        ("2", 1660617000, 300780281690, 1, "Recommendation (batch size 8192)"),
    ]


def test_gangs_have_their_shares() -> None:
    counts = Counter(job.spec.gpus for job in generated(jobs=20_000).jobs)
    assert {gpus: round(count / 20_000, 2) for gpus, count in sorted(counts.items())} == {
        1: pytest.approx(0.7, abs=0.01),
        2: pytest.approx(0.1, abs=0.01),
        4: pytest.approx(0.15, abs=0.01),
        8: pytest.approx(0.05, abs=0.01),
    }


def test_a_fifth_of_the_jobs_is_long_and_the_logarithm_is_uniform() -> None:
    minutes = sorted(job.duration_us / 60e6 for job in generated(jobs=20_000).jobs)
    assert minutes[0] > 31
    assert minutes[-1] < 10_001
    assert minutes[8_000] == pytest.approx(10**2.25, rel=0.05)
    assert minutes[16_000] == pytest.approx(1000, rel=0.05)
    assert minutes[18_000] == pytest.approx(10**3.5, rel=0.05)


def test_models_are_even_among_those_that_can_be_distributed() -> None:
    jobs = generated(jobs=20_000).jobs
    alone = Counter(job.spec.model for job in jobs if job.spec.gpus == 1)
    gangs = Counter(job.spec.model for job in jobs if job.spec.gpus > 1)
    assert (len(alone), len(gangs)) == (26, 19)
    assert max(alone.values()) < 1.3 * min(alone.values())
    assert not {"A3C", "CycleGAN", "Recommendation (batch size 512)"}.intersection(gangs)


def test_steps_are_what_the_table_says_of_the_duration() -> None:
    rates = builtin_throughputs().table.alone[V100]
    for job in generated().jobs:
        rate = rates[JobKind(job.spec.model, job.spec.gpus)]
        assert job.spec.total_steps is not None
        assert job.duration_us == round(job.spec.total_steps / rate * 1e6)
        assert job.spec.batch_size == dict(GAVEL_MODELS)[job.spec.model]


def test_first_job_comes_at_time_zero_and_the_rate_is_kept() -> None:
    jobs = generated(jobs=10_000, jobs_per_hour=6.0).jobs
    assert jobs[0].submit_us == 0
    assert jobs[-1].submit_us / 3.6e9 == pytest.approx(10_000 / 6, rel=0.03)


def test_load_is_offered_in_expectation() -> None:
    assert describe_trace(generated(jobs=40_000), 108).load == pytest.approx(0.9, rel=0.03)


def test_wide_gangs_become_as_wide_as_is_allowed_and_gaps_do_not_change() -> None:
    wide = generated(jobs_per_hour=2.0)
    narrow = generated(gpus_max=3, jobs_per_hour=2.0)
    single = generated(gpus_max=1, jobs_per_hour=2.0)
    assert {job.spec.gpus for job in narrow.jobs} == {1, 2}
    assert {job.spec.gpus for job in single.jobs} == {1}
    assert [job.submit_us for job in single.jobs] == [job.submit_us for job in wide.jobs]


def test_weights_and_deadlines_are_there_only_if_asked_for() -> None:
    assert {(job.spec.weight, job.spec.deadline_us) for job in generated().jobs} == {(1.0, None)}


def test_a_fifth_of_the_jobs_weighs_five() -> None:
    weights = Counter(job.spec.weight for job in generated(jobs=10_000, weights=True).jobs)
    assert set(weights) == {1.0, 5.0}
    assert weights[5.0] / 10_000 == pytest.approx(0.2, abs=0.015)


def test_deadlines_are_a_multiple_of_the_duration_and_move_nothing_else() -> None:
    jobs = generated(jobs=9_000, deadlines=True).jobs
    slos = Counter(
        round(((job.spec.deadline_us or 0) - job.submit_us) / job.duration_us, 3) for job in jobs
    )
    assert set(slos) == {1.2, 2.0, 10.0}
    assert min(slos.values()) > 0.3 * 9_000
    plain = [replace(job, spec=replace(job.spec, deadline_us=None)) for job in jobs]
    assert plain == list(generated(jobs=9_000).jobs)


def test_choices_change_the_digest() -> None:
    other = ThroughputTable(
        {V100: {kind: 2 * rate for kind, rate in builtin_throughputs().table.alone[V100].items()}},
        base_type=V100,
    )
    digests = {
        generated(jobs=5).digest,
        generated(jobs=5, weights=True).digest,
        generated(jobs=5, deadlines=True).digest,
        generated(jobs=5, jobs_per_hour=1.0).digest,
        generated(jobs=5, throughputs=other).digest,
    }
    assert len(digests) == 5
    assert generated(jobs=5, throughputs=builtin_throughputs().table).digest in digests


def test_a_table_without_one_of_the_models_is_refused() -> None:
    table = ThroughputTable({V100: {JobKind("A3C", 1): 1.0}}, base_type=V100, name="t.json")
    with pytest.raises(ConfigError, match=r"t\.json: no throughput above 0 on 'v100' for 'ResNet"):
        generated(throughputs=table)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(ConfigError, match=r"jobs_per_hour = .*: expected a number above 0"):
        generated(jobs_per_hour=rate)


def test_other_kinds_have_neither_weights_nor_deadlines() -> None:
    with pytest.raises(ConfigError, match=r"(?s)weights: philly-like has none.*deadlines: philly"):
        generate_trace(
            "philly-like",
            jobs=1,
            load=1.0,
            cluster_gpus=8,
            seed=0,
            choices=Choices(weights=True, deadlines=True),
        )


def test_rhythm_is_refused() -> None:
    with pytest.raises(ConfigError, match="gavel-like has no rhythm; expected 'poisson'"):
        generate_trace("gavel-like", jobs=1, load=1.0, cluster_gpus=8, seed=0, arrivals="diurnal")


def test_public_trace_is_drawn_again(shared_traces: Path) -> None:
    """The trace of the public generator at seed 0, two single-GPU jobs an hour."""
    gavel = shared_traces / "gavel"
    table = load_throughputs(
        str(gavel / "simulation_throughputs.json"), lambda path: Path(path).read_text()
    ).table
    public = load_trace(gavel / "gen120.trace", throughputs=table).jobs
    ours = generate_trace(
        "gavel-like",
        jobs=120,
        load=1.0,
        cluster_gpus=108,
        seed=0,
        gpus_max=1,
        choices=Choices(jobs_per_hour=2.0, throughputs=table),
    ).jobs
    assert [replace(job, submit_us=0) for job in ours] == [
        replace(job, submit_us=0) for job in public
    ]
    assert all(
        abs(one.submit_us - other.submit_us) < 120 * 500
        for one, other in zip(ours, public, strict=True)
    )
