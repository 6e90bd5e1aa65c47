"""`tiresias-like`: sizes, GPU times, models, load, and the table behind it."""

from collections import Counter
from pathlib import Path

import pytest

from shunter.errors import ConfigError, TraceError, UsageError
from shunter.policies import builtin_skews
from shunter.workloads import (
    GPU_S_MAX,
    TIRESIAS_MODELS,
    Trace,
    describe_trace,
    generate_trace,
    main,
    tiresias_table_bytes,
)

SAMPLES = Path(__file__).parents[4] / "shunter" / "policies" / "data" / "yarn-gput1000.csv"


def generated(jobs: int = 500, load: float = 0.9, gpus_max: int | None = None) -> Trace:
    return generate_trace(
        "tiresias-like", jobs=jobs, load=load, cluster_gpus=60, seed=7, gpus_max=gpus_max
    )


def test_trace_is_the_same_on_every_machine() -> None:
    """The first jobs, as they were when version 1 was fixed."""
    assert [
        (job.job_id, job.submit_us, job.duration_us, job.spec.gpus, job.spec.model)
        for job in generated(jobs=3).jobs
    ] == [
        ("0", 808086000, 595000000, 8, "inception3"),
        ("1", 1095906000, 210000000, 1, "resnet101"),
        ("2", 1823736000, 24000000, 8, "alexnet"),
    ]


def test_half_the_gangs_have_one_gpu_and_the_rest_is_even() -> None:
    counts = Counter(job.spec.gpus for job in generated(jobs=20_000).jobs)
    assert sorted(counts) == [1, 2, 4, 8]
    assert counts[1] / 20_000 == pytest.approx(1 / 2, rel=0.03)
    assert all(counts[gpus] / 20_000 == pytest.approx(1 / 6, rel=0.05) for gpus in (2, 4, 8))


def test_no_gang_is_wider_than_asked_for() -> None:
    assert {job.spec.gpus for job in generated(gpus_max=3).jobs} == {1, 2}


def test_gpu_times_are_those_of_the_samples() -> None:
    samples = sorted(int(line) for line in SAMPLES.read_text().split()[1:])
    samples = [sample for sample in samples if sample <= GPU_S_MAX]
    work_s = [job.spec.gpus * job.duration_us / 1e6 for job in generated(jobs=40_000).jobs]
    assert sorted(work_s)[20_000] == pytest.approx(samples[len(samples) // 2], rel=0.05)
    assert sum(work_s) / 40_000 == pytest.approx(sum(samples) / len(samples), rel=0.05)


def test_offered_load_is_the_one_asked_for() -> None:
    load = describe_trace(generated(jobs=40_000, load=0.8), 60).load
    assert load == pytest.approx(0.8, rel=0.05)


def test_the_skew_of_every_model_is_known() -> None:
    assert set(TIRESIAS_MODELS) == set(builtin_skews())
    assert {job.spec.model for job in generated().jobs} == set(TIRESIAS_MODELS)


def test_there_is_no_daily_rhythm() -> None:
    with pytest.raises(ConfigError, match="tiresias-like has no rhythm"):
        generate_trace(
            "tiresias-like", jobs=5, load=1.0, cluster_gpus=8, seed=1, arrivals="diurnal"
        )


def test_shipped_table_is_what_the_samples_give(tmp_path: Path) -> None:
    main(["tiresias", str(SAMPLES), str(tmp_path / "tiresias.json")])
    assert (tmp_path / "tiresias.json").read_bytes() == tiresias_table_bytes()


def test_two_paths_are_needed() -> None:
    with pytest.raises(UsageError, match="takes two paths"):
        main(["tiresias"])


def test_samples_must_be_whole_numbers(tmp_path: Path) -> None:
    path = tmp_path / "samples.csv"
    path.write_text("gpu_s\n12\nmany\n")
    with pytest.raises(TraceError, match="expected a header and whole GPU-seconds"):
        main(["tiresias", str(path), str(tmp_path / "out.json")])
