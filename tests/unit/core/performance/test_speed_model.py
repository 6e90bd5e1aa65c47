"""Speed on a placement, and how work turns into time and back."""

import pytest
from hypothesis import given, strategies as st

from shunter.core import time_for_us, worked_us
from shunter.core.speeds import JobKind, SpeedModel, ThroughputTable, level_of
from shunter.events import GpuType, Level, LevelGroups
from tests.factories import allocation, configuration, job_spec, node_name

V100, K80 = GpuType("v100"), GpuType("k80")
WIRED = (LevelGroups(Level.switch, (0b0011, 0b1100)), LevelGroups(Level.socket, (0b1111,)))
JOINED = LevelGroups(Level.nvlink, (0b0101, 0b1010, 0b110000, 1 << 6, 1 << 7))
NODES = {
    node_name("n0"): configuration(8, rack="r1", domain="d", levels=WIRED),
    node_name("n1"): configuration(8, rack="r1", domain="d"),
    node_name("n2"): configuration(8, rack="r2", domain="d", gpu_type="k80"),
    node_name("n3"): configuration(8),
    node_name("n4"): configuration(8),
    node_name("n5"): configuration(8, levels=(JOINED, *WIRED)),
    node_name("n6"): configuration(8, levels=(JOINED,)),
}


@pytest.mark.parametrize(
    ("masks", "level"),
    [
        ({"n0": 0b0011}, Level.switch),
        ({"n0": 0b1000}, Level.switch),
        ({"n0": 0b0110}, Level.socket),
        ({"n0": 0b1_0001}, Level.server),
        ({"n1": 0b0011}, Level.server),
        ({"n0": 1, "n1": 1}, Level.rack),
        ({"n0": 1, "n2": 1}, Level.domain),
        ({"n0": 1, "n3": 1}, Level.cluster),
        ({"n3": 1, "n4": 1}, Level.cluster),
        ({"n5": 0b0101}, Level.nvlink),
        ({"n5": 0b0011}, Level.switch),
        ({"n5": 0b0110}, Level.socket),
        ({"n5": 0b0001_0001}, Level.server),
        ({"n6": 0b0101}, Level.nvlink),
        ({"n6": 0b0011}, Level.server),
    ],
    ids=str,
)
def test_level_is_the_smallest_that_holds_all_gpus(masks: dict[str, int], level: Level) -> None:
    assert level_of(allocation(**masks), NODES) is level


RESNET = JobKind("resnet", 2)
MODEL = SpeedModel(
    NODES,
    relative={K80: 0.25},
    throughput=ThroughputTable(
        {V100: {RESNET: 10.0}, K80: {RESNET: 4.0, JobKind("bert", 2): 4.0}}, base_type=V100
    ),
)


@pytest.mark.parametrize(
    ("model", "gpus", "masks", "speed"),
    [
        ("resnet", 2, {"n0": 3}, 1.0),
        ("resnet", 2, {"n2": 3}, 0.4),
        ("resnet", 4, {"n2": 15}, 0.25),
        ("bert", 2, {"n2": 3}, 0.25),
        ("other", 2, {"n0": 3}, 1.0),
    ],
)
def test_speed_is_by_throughput_where_known_else_by_gpu_type(
    model: str, gpus: int, masks: dict[str, int], speed: float
) -> None:
    assert MODEL.speed(job_spec(gpus, model=model), allocation(**masks)) == speed


def test_speed_falls_with_the_job_own_tolerance() -> None:
    spec = job_spec(2, tolerance=((Level.rack, 0.5), (Level.cluster, 0.125)))
    speeds = [MODEL.speed(spec, allocation(n0=1, **{other: 1})) for other in ("n1", "n2", "n3")]
    assert speeds == [0.5, 1.0, 0.125]
    assert MODEL.speed(spec, allocation(n2=3)) == 0.25


PAIRED = SpeedModel(
    NODES,
    {K80: 0.25},
    ThroughputTable(
        {V100: {RESNET: 10.0, JobKind("bert", 2): 4.0}},
        {
            V100: {
                (RESNET, JobKind("bert", 2)): (6.0, 3.0),
                (JobKind("bert", 2), RESNET): (3.0, 6.0),
            }
        },
        base_type=V100,
    ),
    packed=0.75,
)


@pytest.mark.parametrize(
    ("model", "partners", "speed"),
    [
        ("resnet", [], 1.0),
        ("resnet", ["bert"], 0.6),
        ("bert", ["resnet"], 0.75),
        ("resnet", ["resnet"], 0.75),
        ("resnet", ["nobody"], 0.75),
        ("resnet", ["bert", "bert"], 0.36),
        ("nobody", ["resnet", "bert"], 0.5625),
    ],
    ids=str,
)
def test_speed_beside_others_is_by_the_pair_where_known(
    model: str, partners: list[str], speed: float
) -> None:
    specs = [job_spec(2, model=name) for name in partners]
    found = PAIRED.speed(job_spec(2, model=model), allocation(n0=3), specs)
    assert found == pytest.approx(speed)


speeds = st.floats(0.01, 100.0) | st.sampled_from([0.5, 1.0, 1 / 3, 1.1])


@given(work_us=st.integers(0, 1 << 44), speed=speeds)
def test_time_for_work_is_the_first_instant_at_which_it_is_done(work_us: int, speed: float) -> None:
    needed_us = time_for_us(work_us, speed)
    assert worked_us(needed_us, speed) >= work_us
    assert needed_us == 0 or worked_us(needed_us - 1, speed) < work_us


@given(elapsed_us=st.integers(0, 1 << 44), speed=speeds)
def test_work_never_needs_more_time_than_it_took(elapsed_us: int, speed: float) -> None:
    assert time_for_us(worked_us(elapsed_us, speed), speed) <= elapsed_us


@given(work_us=st.integers(0, 1 << 50))
def test_at_base_speed_work_is_time(work_us: int) -> None:
    assert worked_us(work_us, 1.0) == time_for_us(work_us, 1.0) == work_us
