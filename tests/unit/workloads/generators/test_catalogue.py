"""Generated traces: load, determinism, prefixes, bad parameters."""

import tracemalloc
from dataclasses import replace

import pytest

from shunter.errors import ConfigError
from shunter.workloads import (
    KINDS,
    Choices,
    EndShares,
    JobEnd,
    Trace,
    describe_trace,
    generate_trace,
)


def generated(jobs: int = 500, load: float = 1.2, cluster_gpus: int = 64, seed: int = 7) -> Trace:
    return generate_trace("philly-like", jobs=jobs, load=load, cluster_gpus=cluster_gpus, seed=seed)


@pytest.mark.parametrize("kind", KINDS)
def test_longer_trace_begins_like_a_shorter_one(kind: str) -> None:
    short, long = (
        generate_trace(kind, jobs=jobs, load=0.9, cluster_gpus=64, seed=7) for jobs in (200, 500)
    )
    assert short.jobs == long.jobs[:200]


def test_equal_arguments_give_equal_traces() -> None:
    assert generated() == generated()
    assert generated() != generated(jobs=499)


def test_generated_jobs_can_be_looked_up_and_gone_through() -> None:
    choices = Choices(ends=EndShares(failed=0.3, cancelled=0.3))
    jobs = generate_trace(
        "philly-like", jobs=40, load=1.0, cluster_gpus=64, seed=7, choices=choices
    ).jobs
    assert [jobs[place] for place in range(40)] == [*jobs] == [*jobs[:15], *jobs[15:]]
    assert (jobs[-1], jobs[-40]) == (jobs[39], jobs[0])
    assert {job.ends for job in jobs} == {*JobEnd}, "ends are kept"
    for place in (40, -41):
        with pytest.raises(IndexError):
            jobs[place]


def test_a_generated_job_takes_little_memory() -> None:
    tracemalloc.start()
    trace = generate_trace("tiresias-like", jobs=20_000, load=0.9, cluster_gpus=64, seed=7)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # 25 bytes, where a record with its id and instants takes 200; and what few jobs share.
    assert taken < 40 * len(trace.jobs)


def test_trace_is_the_same_on_every_machine() -> None:
    """The first jobs and the digest, as they were when version 1 was fixed."""
    trace = generated(jobs=3)
    assert [
        (job.job_id, job.submit_us, job.duration_us, job.spec.gpus, job.spec.user, job.spec.model)
        for job in trace.jobs
    ] == [
        ("0", 1_496_746_000, 37_044_000_000, 2, "vc02-u001", "LM"),
        ("1", 2_029_849_000, 646_000_000, 1, "vc01-u003", "Transformer"),
        ("2", 3_377_943_000, 3_521_000_000, 8, "vc01-u009", "ResNet-50"),
    ]
    assert trace.digest == "829e7dafabe874734ebb363f1f86b2721d73dbf4b28612c21e9727fc6c9affb2"


def test_every_argument_changes_the_digest() -> None:
    def digest(load: float = 1.0, **changes: int) -> str:
        counts = {"jobs": 5, "cluster_gpus": 64, "seed": 1, "gpus_max": 64, **changes}
        return generate_trace(
            "philly-like",
            jobs=counts["jobs"],
            load=load,
            cluster_gpus=counts["cluster_gpus"],
            seed=counts["seed"],
            gpus_max=counts["gpus_max"],
        ).digest

    digests = {
        digest(),
        digest(load=1.1),
        digest(jobs=6),
        digest(cluster_gpus=65),
        digest(seed=2),
        digest(gpus_max=8),
    }
    assert len(digests) == 6


def test_load_moves_arrivals_only() -> None:
    calm, busy = generated(load=0.5), generated(load=1.0)
    assert [replace(job, submit_us=0) for job in calm.jobs] == [
        replace(job, submit_us=0) for job in busy.jobs
    ]
    assert calm.jobs[-1].submit_us == pytest.approx(2 * busy.jobs[-1].submit_us, rel=1e-6)


def test_ends_move_nothing_else() -> None:
    bad = generate_trace(
        "philly-like",
        jobs=500,
        load=1.2,
        cluster_gpus=64,
        seed=7,
        choices=Choices(EndShares(failed=0.2, cancelled=0.1)),
    )
    assert [replace(job, ends=JobEnd.finished) for job in bad.jobs] == list(generated().jobs)
    ends = [job.ends for job in bad.jobs]
    assert 60 < ends.count(JobEnd.failed) < 140
    assert 25 < ends.count(JobEnd.cancelled) < 80


def test_offered_load_is_the_one_asked_for() -> None:
    """A Philly job's GPU time scatters by ten times its mean: 100,000 jobs are within 10 %."""
    trace = generated(jobs=100_000, load=0.8, cluster_gpus=1_000)
    load = describe_trace(trace, 1_000).load
    assert load == pytest.approx(0.8, rel=0.1)


def test_no_gang_is_wider_than_the_cluster() -> None:
    assert max(job.spec.gpus for job in generated(jobs=20_000, cluster_gpus=6).jobs) == 4


def test_diurnal_arrivals_keep_the_load_and_sleep_at_weekends() -> None:
    trace = generate_trace(
        "philly-like", jobs=40_000, load=1.0, cluster_gpus=2_000, seed=3, arrivals="diurnal"
    )
    plain = generated(jobs=40_000, load=1.0, cluster_gpus=2_000, seed=3)
    weeks = trace.jobs[-1].submit_us // (7 * 86_400_000_000)
    whole = [job.submit_us for job in trace.jobs if job.submit_us < weeks * 7 * 86_400_000_000]
    weekend = sum(instant // 86_400_000_000 % 7 >= 5 for instant in whole)
    assert trace.jobs[-1].submit_us == pytest.approx(plain.jobs[-1].submit_us, rel=0.1)
    assert weekend / len(whole) == pytest.approx(2 * 0.488 / (5 + 2 * 0.488), rel=0.1)


def test_limits_are_never_below_durations() -> None:
    assert all(
        job.spec.time_limit_us is not None and job.spec.time_limit_us > job.duration_us
        for job in generated(jobs=20_000, cluster_gpus=128).jobs
    )


def test_report_counts_what_was_made() -> None:
    report = generated().report
    assert report.rows_read == report.rows_kept == report.rows_selected == 500


def test_bad_arguments_are_listed_together() -> None:
    with pytest.raises(ConfigError) as caught:
        generate_trace("alien", jobs=0, load=float("nan"), cluster_gpus=0, seed=1, gpus_max=0)
    lines = str(caught.value).splitlines()
    assert [line.partition(" ")[0] for line in lines] == [
        "kind",
        "jobs",
        "load",
        "cluster_gpus",
        "gpus_max",
    ]
