"""A job to profile on simulated servers."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from shunter.core.speeds import SensitivityTable
from shunter.events import Resources
from shunter.workloads import MinioModel, Profile, table_document

JOB = """\
model = "res18"
samples = 1281167
batch_size = 512
dataset_gb = 140
disk_mb_s = 500
memory_gb_s = {1 = 1.0, 24 = 10.0}
[server]
gpus = 8
cpus = 24
memory_gb = 500
"""
LOADER = """\
model = "loader"
gpus = 2
samples = 1000
batch_size = 10
dataset_gb = 100
own_memory_gb = 5
disk_mb_s = 512
memory_gb_s = {1 = 1.0, 24 = 24.0}
[server]
gpus = 8
cpus = 24
memory_gb = 500
[simulated]
table = "true.json"
epoch_s = 200
"""

WriteJob = Callable[[str], Path]


@pytest.fixture
def write_job(tmp_path: Path) -> WriteJob:
    """Write the file of a job."""

    def write(text: str = JOB) -> Path:
        path = tmp_path / "job.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def loader(write_job: WriteJob, tmp_path: Path) -> Path:
    """Write a job that loads as MinIO does, and the table of how fast it really is.

    It needs 1,200 CPU seconds an epoch, and 12 CPUs are all that it can use.
    """
    full_s = {cpus: 1200 / min(cpus, 12) for cpus in (2, 4, 6, 8, 10, 12, 24)}
    cache = MinioModel(100, {cpus: float(cpus) for cpus in full_s}, 512)
    true = Profile(2, full_s, cache, own_memory_mb=5000)
    share = Resources(0, 3000, 62_500)
    matrix = true.relative_to(share).matrix
    table = SensitivityTable({"loader": {2: matrix}}, share)
    (tmp_path / "true.json").write_text(json.dumps(table_document(table)), encoding="utf-8")
    return write_job(LOADER)
