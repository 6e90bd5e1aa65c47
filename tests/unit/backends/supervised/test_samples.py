"""Samples of gangs: the first rank says how far it is, all hosts what it uses."""

from typing import Any

from shunter.backends.live import Gang, Inbox, Limits, Part, SampleCollector, Watch
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


def test_gpus_that_nobody_could_read_are_left_open() -> None:
    (found,) = gathered((N0, [sample(7, 100)], None))
    assert (found.gpu_utilisation, found.gpu_memory_mb) == (None, None)


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
