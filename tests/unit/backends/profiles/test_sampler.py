from pathlib import Path

from shunter.backends.profiles.gpus import GpuFault, GpuUse, NoGpus
from shunter.backends.profiles.processes import Processes, ProcessUse
from shunter.backends.profiles.sampler import Sampler
from shunter.backends.profiles.thinning import Thinning
from shunter.events.facts.profiles import ProfileSampled
from shunter.events.values.ids import JobId
from shunter.train import channel

JOB = JobId("j1")


class Quiet(Processes):
    def read(self, now_s: float) -> ProcessUse | None:
        return ProcessUse(pids=(10, 11), memory_mb=500, cpus=1.5) if now_s >= 0 else None


class Gpus:
    def __init__(self, found: tuple[GpuUse, ...] | NoGpus) -> None:
        self.found = found

    def read(self, indices: object = None) -> tuple[GpuUse, ...] | NoGpus:
        return self.found


def sampler(
    found: tuple[GpuUse, ...] | NoGpus, folder: Path | None = None, *, is_exclusive: bool = True
) -> Sampler:
    return Sampler(
        JOB,
        2,
        processes=Quiet(10),
        folder=folder,
        gpus=(0, 1),
        is_exclusive=is_exclusive,
        reader=Gpus(found),  # type: ignore[arg-type]  # a stand-in with its one method
    )


def sample(at_s: float, batch_s: float = 0.1) -> ProfileSampled:
    return ProfileSampled(
        at_us=int(at_s * 1e6),
        job_id=JOB,
        attempt=1,
        batch_s=batch_s,
        gpu_utilisation=0.8,
        cpus=1.0,
    )


def test_sample_gathers_sdk_processes_and_gpus(tmp_path: Path) -> None:
    for rank, (step, batch_s) in enumerate([(40, 0.2), (41, 0.3)]):
        said = {"step": step, "batch_s": batch_s}
        channel.put(channel.progress_path(tmp_path, rank), said)
    gpus = (
        GpuUse(0, utilisation=0.5, memory_mb=900, memory_by_pid={10: 300, 99: 600}),
        GpuUse(1, utilisation=1.0, memory_mb=200, memory_by_pid={11: 200}),
    )
    assert sampler(gpus, tmp_path).sample(7, 0.0) == ProfileSampled(
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
    gpus = (GpuUse(0, memory_mb=900, memory_by_pid={99: 600}),)
    own = sampler(gpus).sample(7, 0.0)
    shared = sampler(gpus, is_exclusive=False).sample(7, 0.0)
    assert own is not None
    assert shared is not None
    assert (own.gpu_memory_mb, shared.gpu_memory_mb) == (900, 0)


def test_machine_without_gpus_still_gives_samples() -> None:
    watched = sampler(NoGpus(GpuFault.no_driver))
    found = watched.sample(7, 0.0)
    assert found is not None
    assert (found.gpu_utilisation, found.gpu_memory_mb, found.cpus) == (None, None, 1.5)
    assert watched.gpu_state == NoGpus(GpuFault.no_driver)


def test_job_without_the_sdk_is_timed_by_what_it_prints(tmp_path: Path) -> None:
    (tmp_path / "stderr.0").write_text("3/9 [00:01<00:08, 4.00it/s]")
    printed = Sampler(JOB, 1, processes=Quiet(10), printed=tmp_path / "stderr.0").sample(7, 0.0)
    assert printed is not None
    assert (printed.step, printed.batch_s) == (3, 0.25)


def test_job_that_is_gone_gives_no_sample() -> None:
    assert sampler(()).sample(7, -1.0) is None


def test_steady_job_says_so_once_a_minute() -> None:
    thinning = Thinning()
    kept = [second for second in range(181) if thinning.offer(sample(second))]
    assert kept == [0, 60, 120, 180]


def test_change_is_kept_but_not_more_often_than_allowed() -> None:
    thinning = Thinning()
    kept = [
        second for second in range(12) if thinning.offer(sample(second, batch_s=0.1 * 2**second))
    ]
    assert kept == [0, 5, 10]


def test_next_attempt_is_kept_at_once() -> None:
    thinning = Thinning()
    thinning.offer(sample(0))
    again = ProfileSampled(at_us=1, job_id=JOB, attempt=2)
    assert thinning.offer(again)


def test_batch_waits_for_its_size_or_its_time() -> None:
    thinning = Thinning(batch=2)
    thinning.offer(sample(0))
    assert thinning.due(5_000_000) == ()
    assert thinning.due(10_000_000) == (sample(0),)
    thinning.offer(sample(60))
    thinning.offer(sample(120))
    assert len(thinning.due(120_000_000)) == 2
    assert thinning.flush() == ()


def test_forgotten_job_still_reaches_the_log() -> None:
    thinning = Thinning()
    thinning.offer(sample(0))
    thinning.forget(JOB)
    assert thinning.flush() == (sample(0),)
    assert thinning.offer(sample(1))
