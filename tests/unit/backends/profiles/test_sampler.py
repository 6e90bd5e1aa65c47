from shunter.backends.live import Downsampler, GpuUse, profile_of
from shunter.backends.node import Sample
from shunter.events import JobId, ProfileSampled

JOB = JobId("j1")
SAMPLE = Sample(
    job=JOB,
    attempt=2,
    at_ns=1,
    step=40,
    batch_s=0.3,
    printed=False,
    pids=(10, 11),
    cpus=1.5,
    memory_mb=500,
)


def profile(*gpus: GpuUse, is_exclusive: bool = True) -> ProfileSampled:
    return profile_of(7, JOB, 2, SAMPLE, gpus, is_exclusive=is_exclusive)


def sample(at_s: float, batch_s: float = 0.1) -> ProfileSampled:
    return ProfileSampled(
        at_us=int(at_s * 1e6),
        job_id=JOB,
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
        job_id=JOB,
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
    kept = [second for second in range(181) if downsampler.offer(sample(second))]
    assert kept == [0, 60, 120, 180]


def test_change_is_kept_but_not_more_often_than_allowed() -> None:
    downsampler = Downsampler()
    kept = [
        second for second in range(12) if downsampler.offer(sample(second, batch_s=0.1 * 2**second))
    ]
    assert kept == [0, 5, 10]


def test_noise_of_an_idle_job_is_no_news() -> None:
    downsampler = Downsampler()
    quiet = [
        ProfileSampled(second * 10**6, JOB, 1, cpus=0.001 * (second % 7)) for second in range(60)
    ]
    assert [each for each in quiet if downsampler.offer(each)] == quiet[:1]


def test_next_attempt_is_kept_at_once() -> None:
    downsampler = Downsampler()
    downsampler.offer(sample(0))
    again = ProfileSampled(at_us=1, job_id=JOB, attempt=2)
    assert downsampler.offer(again)


def test_batch_waits_for_its_size_or_its_time() -> None:
    downsampler = Downsampler(batch=2)
    downsampler.offer(sample(0))
    assert downsampler.due(5_000_000) == ()
    assert downsampler.due(10_000_000) == (sample(0),)
    downsampler.offer(sample(60))
    downsampler.offer(sample(120))
    assert len(downsampler.due(120_000_000)) == 2
    assert downsampler.flush() == ()


def test_forgotten_job_still_reaches_the_log() -> None:
    downsampler = Downsampler()
    downsampler.offer(sample(0))
    downsampler.forget(JOB)
    assert downsampler.flush() == (sample(0),)
    assert downsampler.offer(sample(1))
