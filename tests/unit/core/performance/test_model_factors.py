"""What distance, neighbours and packing leave of a speed, and how gaps of a table are filled."""

import math
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from shunter.core.speeds import FactorTable, ModelFactors, SpeedModel, filled, nearest_level
from shunter.events import GpuType, Level, LevelGroups
from tests.factories import allocation, configuration, job_spec, node_name

WIRED = (LevelGroups(Level.switch, (0b0011, 0b1100)), LevelGroups(Level.socket, (0b1111,)))
NODES = {node_name(number): configuration(8, levels=WIRED, rack="r") for number in range(4)}
RESNET = ModelFactors(shapes={(2, 2): 0.72, (4, 1): 0.41}, beside={Level.switch: 0.64})
ALEXNET = ModelFactors(levels={Level.server: 0.81, Level.rack: 0.5})
HUNGRY = ModelFactors(gpu_utilisation=0.9, gpu_memory_mb=9_000)
LIGHT = ModelFactors(gpu_utilisation=0.3, gpu_memory_mb=3_000, pairs={"resnet": 0.9})
IDLE = ModelFactors(gpu_utilisation=0.0)
V100 = GpuType("v100")
TABLE = FactorTable(
    {"resnet": RESNET, "alexnet": ALEXNET, "hungry": HUNGRY, "light": LIGHT, "idle": IDLE},
    {V100: 16_000},
)
MODEL = SpeedModel(NODES, factors=TABLE)


@pytest.mark.parametrize(
    ("model", "masks", "speed"),
    [
        ("resnet", {"n0": 0b1111}, 1.0),
        ("resnet", {"n0": 3, "n1": 3}, 0.72),
        ("resnet", {"n0": 7, "n1": 1}, 0.72),
        ("resnet", {"n0": 1, "n1": 1, "n2": 1, "n3": 1}, 0.41),
        ("resnet", {"n0": 3, "n1": 1, "n2": 1}, math.sqrt(0.72 * 0.41)),
        ("resnet", {"n0": 1, "n1": 1}, 0.72),  # of the gang nearest in size
        ("resnet (batch size 64)", {"n0": 3, "n1": 3}, 0.72),
        ("alexnet", {"n0": 0b0011}, 1.0),
        ("alexnet", {"n0": 0b0101}, 0.9),  # between 1 and 0.81
        ("alexnet", {"n0": 0b1_0001}, 0.81),
        ("alexnet", {"n0": 1, "n1": 1}, 0.81 * 0.5),
        ("unknown", {"n0": 1, "n1": 1}, 1.0),
    ],
    ids=str,
)
def test_distance_leaves_what_the_table_says(
    model: str, masks: dict[str, int], speed: float
) -> None:
    where = allocation(**masks)
    assert MODEL.speed(job_spec(where.gpus, model=model), where) == pytest.approx(speed)


def test_gpus_of_a_server_without_groups_are_below_one_switch() -> None:
    flat = SpeedModel({node_name(0): configuration(8)}, factors=TABLE)
    here, spec = allocation(n0=3), job_spec(2, model="alexnet")
    assert flat.speed(spec, here) == 1.0
    assert flat.speed(job_spec(model="resnet"), allocation(n0=1), (), [allocation(n0=2)]) == 0.64


def test_curve_of_a_job_counts_before_the_table() -> None:
    spec = job_spec(4, model="resnet", tolerance=((Level.rack, 0.99),))
    assert MODEL.speed(spec, allocation(n0=3, n1=3)) == 0.99


@pytest.mark.parametrize(
    ("mine", "theirs", "level"),
    [
        ({"n0": 1}, {"n0": 2}, Level.switch),
        ({"n0": 1}, {"n0": 0b1100}, Level.socket),
        ({"n0": 1}, {"n0": 0b1100_0000}, Level.server),
        ({"n0": 1, "n1": 1}, {"n0": 0b100, "n1": 0b10}, Level.switch),
        ({"n0": 1}, {"n1": 1}, None),
        ({"n0": 1}, {"n0": 0}, None),
    ],
    ids=str,
)
def test_neighbour_is_as_near_as_its_nearest_gpu(
    mine: dict[str, int], theirs: dict[str, int], level: Level | None
) -> None:
    assert nearest_level(allocation(**mine), allocation(**theirs), NODES) is level


def test_each_neighbour_takes_its_part() -> None:
    near, far, away = allocation(n0=2), allocation(n0=0b100), allocation(n1=1)
    here, spec = allocation(n0=1), job_spec(model="resnet")
    assert MODEL.speed(spec, here, (), [near]) == 0.64
    assert MODEL.speed(spec, here, (), [far]) == pytest.approx(0.8)  # between 0.64 and 1
    assert MODEL.speed(spec, here, (), [near, far, away]) == pytest.approx(0.64 * 0.8)
    assert MODEL.speed(job_spec(model="alexnet"), here, (), [near]) == 1.0


@pytest.mark.parametrize(
    ("model", "other", "left"),
    [
        ("light", "resnet", 0.9),  # measured
        ("hungry", "light", 1 / 1.2),  # the two want 1.2 of a GPU
        ("light", "light", 1.0),
        ("hungry", "hungry", 0.0),  # 18,000 MB do not fit into 16,000
        ("idle", "hungry", 1.0),
        ("idle", "idle", 1.0),
        ("alexnet", "light", 0.5),  # nobody knows: they take turns
        ("unknown", "light", 0.5),
    ],
)
def test_pairs_go_by_measurement_then_memory_then_utilisation(
    model: str, other: str, left: float
) -> None:
    here = allocation(n0=1)
    speed = MODEL.speed(job_spec(model=model), here, [job_spec(model=other)])
    assert speed == pytest.approx(left)


@given(known=st.dictionaries(st.integers(1, 6), st.floats(0.01, 1.0)))
def test_gaps_lie_between_what_is_known(known: dict[int, float]) -> None:
    places = sorted(known)
    falling = sorted(known.values(), reverse=True)
    curve = filled(range(1, 7), dict(zip(places, falling, strict=True)))
    assert all(curve[place] == left for place, left in zip(places, falling, strict=True))
    values = [1.0, *curve.values()]
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(values))
