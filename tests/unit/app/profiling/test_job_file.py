"""The file of a job to profile: what it means, and what is wrong with it, by key."""

import pytest

from shunter.errors import ConfigError, NotFoundError
from shunter.events import Resources
from shunter.ops import read_job_file
from tests.unit.app.profiling.conftest import JOB, WriteJob


def test_numbers_of_a_job_follow_from_its_file(write_job: WriteJob) -> None:
    job = read_job_file(write_job(JOB)).job
    assert job.steps == 2503  # 1,281,167 over 512, rounded up
    assert job.share == Resources(0, 3000, 62_500)
    assert job.command == ()


def test_bandwidth_of_memory_is_on_straight_lines_between_what_was_given(
    write_job: WriteJob,
) -> None:
    text = JOB.replace("{1 = 1.0, 24 = 10.0}", "{2 = 3.0, 4 = 4.0}")
    cache = read_job_file(write_job(text)).job.cache([1, 2, 3, 4, 9])
    assert cache.memory_gb_s == {1: 1.5, 2: 3.0, 3: 3.5, 4: 4.0, 9: 4.0}


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("batch_size = 512", "batch = 512", "batch_size: missing; expected samples of a mini"),
        ("samples = 1281167", "samples = 0", "job.toml:2: samples: expected 1 or more, not 0"),
        ("disk_mb_s = 500", "disk_mb_s = 0", "disk_mb_s: expected more than 0, not 0"),
        ("disk_mb_s = 500", "disc_mb_s = 500", "did you mean 'disk_mb_s'"),
        ("{1 = 1.0, 24 = 10.0}", "{}", "memory_gb_s"),
        ("{1 = 1.0, 24 = 10.0}", "{all = 1.0}", "memory_gb_s.all"),
        ("cpus = 24", "", "server.cpus: missing; expected CPU cores"),
        ("samples", "gpus = 9\nsamples", "job.toml:2: gpus: expected at most the 8 of one server"),
        ("cpus = 24", "cpus = 0.5", "server.cpus: expected a whole number, not 0.5"),
        (
            "memory_gb = 500",
            "memory_gb = 100",
            "server.memory_gb: expected 140 or more, for epochs",
        ),
    ],
)
def test_what_is_wrong_is_told_with_file_line_and_key(
    write_job: WriteJob, old: str, new: str, says: str
) -> None:
    path = write_job(JOB.replace(old, new, 1))
    with pytest.raises(ConfigError) as caught:
        read_job_file(path)
    assert says in str(caught.value)
    assert str(path) in str(caught.value)


def test_job_needs_a_cpu_for_each_gpu(write_job: WriteJob) -> None:
    text = JOB.replace("samples", "gpus = 4\nsamples", 1).replace("cpus = 24", "cpus = 2")
    with pytest.raises(ConfigError, match=r"server\.cpus: expected a CPU for each of the job's 4"):
        read_job_file(write_job(text))


def test_file_that_is_not_there_is_not_found(write_job: WriteJob) -> None:
    with pytest.raises(NotFoundError):
        read_job_file(write_job(JOB).parent / "none.toml")
