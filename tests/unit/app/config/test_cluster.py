"""Servers of a config: their names, their devices, and the map of the GPUs inside."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given, strategies as st

from shunter.backends.live import Limits, contract_of
from shunter.config import ClusterSection, NodeGroup
from shunter.core import Launch
from shunter.events import Allocation, JobId, JobSpec, Level, LevelGroups, NodeName, Share


def _group(**values: Any) -> NodeGroup:
    return NodeGroup.model_validate({"name": "a", "gpus": 8, **values})


def test_a_hostlist_names_servers_as_slurm_does() -> None:
    assert _group(name="gpu[08-10],x").names == ("gpu08", "gpu09", "gpu10", "x")


@pytest.mark.parametrize("name", ["n0", "gpu-1.rack2", "007", "1-3", "a_b", "A."])
def test_a_plain_name_is_what_a_hostlist_of_it_says(name: str) -> None:
    assert _group(name=name).names == _group(name=f"{name},{name}").names == (name,)


def test_a_count_numbers_one_name() -> None:
    assert _group(name="gpu", count=3).names == ("gpu1", "gpu2", "gpu3")


def test_a_count_takes_the_first_of_a_hostlist() -> None:
    assert _group(name="gpu[01-10]", count=2).names == ("gpu01", "gpu02")


def test_a_group_with_no_server_is_absent() -> None:
    cluster = ClusterSection(nodes=(_group(), _group(name="b", count=0), _group(name="", gpus=4)))

    assert [name for name, _ in cluster.servers()] == ["a"]
    assert cluster.gpus == 8


def test_a_gigabyte_is_a_thousand_megabytes() -> None:
    assert _group(memory_gb=1.5).configuration("x").memory_mb == 1500


def test_sockets_and_switches_divide_the_gpus_evenly() -> None:
    levels = _group(sockets=2, switches=4).configuration("x").levels

    assert levels == (
        LevelGroups(Level.switch, (0b11, 0b1100, 0b110000, 0b11000000)),
        LevelGroups(Level.socket, (0b1111, 0b11110000)),
    )


def test_levels_that_tell_nothing_are_left_out() -> None:
    assert _group().configuration("x").levels == ()
    one_each = _group(sockets=2, switches=2).configuration("x").levels
    assert [(groups.level, groups.masks) for groups in one_each] == [
        (Level.switch, (0b1111, 0b11110000)),
        (Level.socket, (0b1111, 0b11110000)),
    ]


def test_links_are_masks() -> None:
    made = _group(nvlink=((0, 1), (2, 3, 4))).configuration("x")
    assert made.links == (0b11, 0b11100)
    assert made.joined == (0b11, 0b11100, 1 << 5, 1 << 6, 1 << 7)
    assert made.levels[0].level is Level.nvlink
    assert _group().configuration("x").joined == ()


def test_equal_groups_share_a_configuration_set() -> None:
    nodes = (_group(name="a"), _group(name="b", cpus=4), _group(name="c"))

    sets = [where for _, where in ClusterSection(nodes=nodes).servers()]

    assert sets[0] is sets[2]
    assert [where.name for where in sets] == ["gpux8", "gpux8#2", "gpux8"]


def test_a_server_without_gpus_runs_cpu_jobs() -> None:
    assert _group(gpus=0, cpus=4).configuration("x").cpus_milli == 4000


FPGA = {"fpga": {"visible": "FPGA_DEVICES"}}


def _cluster(*nodes: dict[str, Any], **values: Any) -> ClusterSection:
    rows = tuple({"gpus": 4, **node} for node in nodes)
    return ClusterSection.model_validate({"nodes": rows, **values})


def _environment(cluster: ClusterSection, node: str) -> dict[str, str]:
    effect = Launch(JobId("j0"), 1, Allocation((Share(NodeName(node), 6),)), JobSpec(2))
    limits = Limits(visible=cluster.visible())
    return dict(contract_of(effect, 0, ["1", "2"], limits, ("127.0.0.1", 23_450), "/c"))


@pytest.mark.parametrize(
    ("node", "variable"),
    [
        ("a", "CUDA_VISIBLE_DEVICES"),
        ("b", "TPU_VISIBLE_CHIPS"),
        ("c", "ROCR_VISIBLE_DEVICES"),
        ("d", "FPGA_DEVICES"),
    ],
)
def test_process_is_told_its_devices_in_the_variable_of_their_kind(
    node: str, variable: str
) -> None:
    cluster = _cluster(
        {"name": "a"},
        {"name": "b", "device": "tpu", "type": "v4"},
        {"name": "c", "device": "rocm", "type": "mi300"},
        {"name": "d", "device": "fpga", "type": "u280"},
        devices=FPGA,
    )
    found = _environment(cluster, node)

    assert found[variable] == "1,2"
    assert [name for name in found if "VISIBLE" in name or name == "FPGA_DEVICES"] == [variable]
    assert ("CUDA_DEVICE_ORDER" in found) is (node == "a")
    kinds = {name: where.device for name, where in cluster.servers()}
    assert kinds == {"a": "gpu", "b": "tpu", "c": "rocm", "d": "fpga"}


def _levels(gpus: int, **maps: Any) -> tuple[LevelGroups, ...]:
    return _group(gpus=gpus, **maps).configuration("x").levels


def test_groups_need_be_neither_even_nor_in_order() -> None:
    sockets, switches = ((0, 2, 4), (1, 3, 5)), ((5, 1), (3,), (0, 4), (2,))

    assert _levels(6, socket_gpus=sockets, switch_gpus=switches) == (
        LevelGroups(Level.switch, (0b100, 0b1000, 0b10001, 0b100010)),
        LevelGroups(Level.socket, (0b010101, 0b101010)),
    )


def test_number_of_parts_is_the_groups_in_order() -> None:
    assert _levels(4, switches=2) == _levels(4, switch_gpus=((0, 1), (2, 3)))


@given(owner=st.lists(st.integers(0, 3), min_size=1, max_size=8))
def test_every_gpu_is_in_one_group_of_each_level(owner: list[int]) -> None:
    """A random partition into sockets, each cut into switches of one GPU."""
    sockets = tuple(
        tuple(gpu for gpu, own in enumerate(owner) if own == number) for number in sorted({*owner})
    )
    single = tuple((gpu,) for gpu in range(len(owner)))
    levels = _levels(len(owner), socket_gpus=sockets, switch_gpus=single)

    for groups in levels:
        assert sum(groups.masks) == (1 << len(owner)) - 1
        assert all(
            one is other or not one & other for one, other in product(groups.masks, repeat=2)
        )


def test_cpus_of_sockets_stand_beside_their_gpus_in_the_order_given() -> None:
    given = _group(gpus=3, socket_gpus=((2,), (0, 1)), socket_cpus=((4, 5), (0, 1, 2)), cpus=5)

    assert given.cpu_sockets == ((0b100, (4, 5)), (0b011, (0, 1, 2)))
    assert _group(sockets=2, socket_cpus=((1,), (0,))).cpu_sockets == ((0x0F, (1,)), (0xF0, (0,)))
    assert _group(sockets=2).cpu_sockets == ()
