"""Samples: what those of a host and of a gang become, and which of them reach the log."""

from typing import Any

from shunter.backends.live import (
    Downsampler,
    Gang,
    GpuUse,
    Inbox,
    Limits,
    Part,
    SampleCollector,
    Watch,
    profile_of,
)
from shunter.backends.node import GpuReading, Sample
from shunter.events import NodeName, ProfileSampled
from tests.factories import job_id
from tests.unit.backends.node.orders import known_of, started_of

N0, N1 = NodeName("n0"), NodeName("n1")
J0 = job_id(0)
READINGS = [
    GpuReading(
        index=n,
        uuid=f"GPU-{n}",
        utilisation=n / 10,
        memory_mb=100,
        memory_total_mb=900,
        memory_by_pid={1: 60, 2: 40},
        faults={},
    )
    for n in range(4)
]


def begun_on(*gpus: str) -> Part:
    """Return a part that runs on GPUs."""
    return Part(known_of(started=started_of(gpus=gpus)))


def sample(step: int | None, memory_mb: int, attempt: int = 1) -> Sample:
    return Sample(
        job=J0,
        attempt=attempt,
        at_ns=1,
        step=step,
        batch_s=None if step is None else 0.5,
        cpus=1.0,
        memory_mb=memory_mb,
        pids=(1,),
        printed=False,
    )


def gathered(*told: tuple[NodeName, list[Sample], Any]) -> list[ProfileSampled]:
    """Return what goes to the log of a gang of two hosts with GPUs 1 and 2 of each."""
    parts = {node: begun_on("1", "GPU-2") for node in (N0, N1)}
    gang = Gang(Watch(J0, 1), parts)
    samples = SampleCollector(Inbox(), {J0: gang}, Limits())
    for node, found, gpus in told:
        samples.take(node, found, gpus)
    return list(samples._downsampler.flush())


def test_gang_is_as_far_as_its_first_rank_and_uses_what_all_do() -> None:
    (found,) = gathered((N1, [sample(3, 200)], READINGS), (N0, [sample(7, 100)], READINGS))
    assert (found.step, found.batch_s, found.cpus, found.memory_mb) == (7, 0.5, 2.0, 300)
    assert found.gpu_utilisation == 0.15
    assert found.gpu_memory_mb == 240


def test_sample_of_another_rank_alone_tells_nothing_yet() -> None:
    assert gathered((N1, [sample(3, 200)], None)) == []


def test_sample_of_an_earlier_attempt_is_dropped() -> None:
    assert gathered((N0, [sample(3, 200, attempt=2)], None)) == []


def test_jobs_that_share_a_gpu_have_their_own_processes_there() -> None:
    jobs = (job_id(1), job_id(2), job_id(3))
    gangs = {}
    for job, gpu in zip(jobs, ("0", "0", "1"), strict=True):
        gangs[job] = Gang(Watch(job, 1), {N0: begun_on(gpu)})
    samples = SampleCollector(Inbox(), gangs, Limits())
    told = [
        sample(1, 5).replaced(job=job, pids=(pid,))
        for job, pid in zip(jobs, (1, 2, 99), strict=True)
    ]
    samples.take(N0, told, READINGS)
    found = {one.job_id: one.gpu_memory_mb for one in samples._downsampler.flush()}
    # Of the third none is named: it is alone on its GPU, so all that is used there is its own.
    assert found == {"j1": 60, "j2": 40, "j3": 100}


SAMPLE = sample(40, 500, attempt=2).replaced(batch_s=0.3, pids=(10, 11), cpus=1.5)


def profile(*gpus: GpuUse, is_exclusive: bool = True) -> ProfileSampled:
    return profile_of(7, J0, 2, SAMPLE, gpus, is_exclusive=is_exclusive)


def sampled(at_s: float, batch_s: float = 0.1) -> ProfileSampled:
    return ProfileSampled(
        at_us=int(at_s * 1e6),
        job_id=J0,
        attempt=1,
        batch_s=batch_s,
        gpu_utilisation=0.8,
        cpus=1.0,
    )


def test_profile_joins_the_sample_and_the_gpus() -> None:
    gpus = (
        GpuUse(0, utilisation=0.5, memory_mb=900, memory_by_pid={10: 300, 99: 600}),
        GpuUse(1, utilisation=1.0, memory_mb=200, memory_by_pid={11: 200}),
    )
    assert profile(*gpus) == ProfileSampled(
        at_us=7,
        job_id=J0,
        attempt=2,
        step=40,
        batch_s=0.3,
        gpu_utilisation=0.75,
        gpu_memory_mb=500,
        cpus=1.5,
        memory_mb=500,
    )


def test_hidden_processes_count_as_the_jobs_on_its_own_gpus_only() -> None:
    gpu = GpuUse(0, memory_mb=900, memory_by_pid={99: 600})
    own, shared = profile(gpu), profile(gpu, is_exclusive=False)
    assert (own.gpu_memory_mb, shared.gpu_memory_mb) == (900, 0)


def test_machine_without_gpus_still_gives_profiles() -> None:
    found = profile()
    assert (found.gpu_utilisation, found.gpu_memory_mb, found.cpus) == (None, None, 1.5)


def test_steady_job_says_so_once_a_minute() -> None:
    downsampler = Downsampler()
    kept = [second for second in range(181) if downsampler.offer(sampled(second))]
    assert kept == [0, 60, 120, 180]


def test_change_is_kept_but_not_more_often_than_allowed() -> None:
    downsampler = Downsampler()
    kept = [
        second
        for second in range(12)
        if downsampler.offer(sampled(second, batch_s=0.1 * 2**second))
    ]
    assert kept == [0, 5, 10]


def test_noise_of_an_idle_job_is_no_news() -> None:
    downsampler = Downsampler()
    quiet = [
        ProfileSampled(second * 10**6, J0, 1, cpus=0.001 * (second % 7)) for second in range(60)
    ]
    assert [each for each in quiet if downsampler.offer(each)] == quiet[:1]


def test_next_attempt_is_kept_at_once() -> None:
    downsampler = Downsampler()
    downsampler.offer(sampled(0))
    again = ProfileSampled(at_us=1, job_id=J0, attempt=2)
    assert downsampler.offer(again)


def test_batch_waits_for_its_size_or_its_time() -> None:
    downsampler = Downsampler(batch=2)
    downsampler.offer(sampled(0))
    assert downsampler.due(5_000_000) == ()
    assert downsampler.due(10_000_000) == (sampled(0),)
    downsampler.offer(sampled(60))
    downsampler.offer(sampled(120))
    assert len(downsampler.due(120_000_000)) == 2
    assert downsampler.flush() == ()


def test_forgotten_job_still_reaches_the_log() -> None:
    downsampler = Downsampler()
    downsampler.offer(sampled(0))
    downsampler.forget(J0)
    assert downsampler.flush() == (sampled(0),)
    assert downsampler.offer(sampled(1))
