"""The CPUs and memory of jobs that name none, where each attempt is a job of Slurm."""

from typing import Any

import pytest

from shunter.config import Config, make_config
from shunter.daemon import as_first_asked, asked_of_slurm
from shunter.events import GpuType, JobSpec

NODES = (
    {"name": "n[1-2]", "gpus": 4, "type": "v100", "cpus": 18, "memory_gb": 64.0},
    {"name": "n3", "gpus": 8, "type": "k80", "cpus": 16, "memory_gb": 32.0},
)
CPU_NODE = {"name": "c1", "gpus": 0, "cpus": 64, "memory_gb": 256.0}
SPARSE = {"name": "n4", "gpus": 8, "type": "p100", "cpus": 4, "memory_gb": 8.0}
UNKNOWN = {"name": "n5", "gpus": 4, "type": "a100"}


def config_of(*nodes: dict[str, Any], mode: str = "per-job") -> Config:
    """Return a config of nodes on Slurm."""
    slurm = {"root": "shared", "partition": "main", "mode": mode}
    backend = {"kind": "slurm", "slurm": slurm}
    log = {"url": "log.db"}
    return make_config({"cluster": {"nodes": list(nodes)}, "backend": backend, "log": log}).config


def of(spec: JobSpec, *nodes: dict[str, Any]) -> tuple[float, int]:
    """Return the CPUs and the MB of a job."""
    found = asked_of_slurm(spec, config_of(*(nodes or NODES)))
    return found.cpus_milli / 1000, found.memory_mb


@pytest.mark.parametrize(
    ("spec", "nodes", "expected"),
    [
        (JobSpec(gpus=2, gpu_types=(GpuType("v100"),)), (), (8, 32_000)),
        (JobSpec(gpus=2), (), (4, 8000)),
        (JobSpec(gpus=8, gpu_types=(GpuType("v100"),)), (), (32, 128_000)),
        (JobSpec(gpus=2, cpus_milli=3000), (), (3, 8000)),
        (JobSpec(gpus=2, memory_mb=5), (), (4, 5)),
        (JobSpec(gpus=0, cpus_milli=2000), (*NODES, CPU_NODE), (2, 4000)),
        (JobSpec(gpus=1, gpu_types=(GpuType("v100"),)), (*NODES, CPU_NODE), (4, 16_000)),
        (JobSpec(gpus=1), (SPARSE,), (1, 1000)),
        (JobSpec(gpus=4), (SPARSE,), (2, 4000)),
        (JobSpec(gpus=1), (*NODES, UNKNOWN), (0, 0)),
        (JobSpec(gpus=1, gpu_types=(GpuType("h100"),)), (), (0, 0)),
    ],
)
def test_a_job_that_names_none_asks_for_its_gpus_part_of_the_smallest_node(
    spec: JobSpec, nodes: tuple[dict[str, Any], ...], expected: tuple[float, int]
) -> None:
    assert of(spec, *nodes) == expected


def test_in_pilots_it_asks_for_none_as_elsewhere() -> None:
    spec = JobSpec(gpus=2)
    assert asked_of_slurm(spec, config_of(*NODES, mode="pilot")) is spec


def test_one_that_is_submitted_again_has_what_it_was_given_first() -> None:
    config, first = config_of(*NODES), JobSpec(gpus=2, cpus_milli=6000, memory_mb=7)
    assert as_first_asked(JobSpec(gpus=2), first, config) == first
    assert as_first_asked(JobSpec(gpus=2, cpus_milli=1), first, config) != first
    assert as_first_asked(JobSpec(gpus=2), first, config_of(*NODES, mode="pilot")) != first
