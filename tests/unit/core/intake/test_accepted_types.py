"""Which types a job accepts: instances of MIG are no GPUs for gangs."""

import pytest

from shunter.core import AcceptedTypes, is_mig
from shunter.events import ConfigurationSet, GpuType, JobSpec

A100, MIG = GpuType("a100"), GpuType("1g.10gb")


def types_of(*names: GpuType) -> AcceptedTypes:
    return AcceptedTypes.among([ConfigurationSet("set", gpus=4, gpu_type=name) for name in names])


@pytest.mark.parametrize(
    ("name", "is_instance"),
    [
        ("1g.10gb", True),
        ("a100_2g.20gb", True),
        ("nvidia_h100_80gb_hbm3_1g.10gb", True),
        ("1g.10gb+me", True),
        ("1c.3g.40gb", True),
        ("a100", False),
        ("a100-80gb", False),
        ("rtx_4090_24g", False),
    ],
)
def test_instance_of_mig_is_known_by_its_profile(name: str, is_instance: bool) -> None:
    assert is_mig(name) is is_instance


@pytest.mark.parametrize(
    ("spec", "accepted"),
    [
        (JobSpec(gpus=1), ()),
        (JobSpec(gpus=2), (A100,)),
        (JobSpec(gpus=1, gpus_max=4), (A100,)),
        (JobSpec(gpus=2, gpu_types=(MIG, A100)), (A100,)),
        (JobSpec(gpus=1, gpu_types=(MIG,)), (MIG,)),
    ],
)
def test_job_of_several_gpus_accepts_no_instances_where_there_are_gpus(
    spec: JobSpec, accepted: tuple[GpuType, ...]
) -> None:
    types = types_of(A100, MIG)
    assert types.of(spec).gpu_types == accepted
    assert types.mig_alone(spec) == ()
    assert types_of(A100).of(JobSpec(gpus=2)).gpu_types == ()


def test_job_of_several_gpus_that_could_have_instances_alone_is_told() -> None:
    assert types_of(A100, MIG).mig_alone(JobSpec(gpus=2, gpu_types=(MIG,))) == (MIG,)
    assert types_of(MIG).mig_alone(JobSpec(gpus=2)) == (MIG,)
    assert types_of(MIG).mig_alone(JobSpec(gpus=1)) == ()
