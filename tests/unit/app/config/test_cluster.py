from typing import Any

import pytest

from shunter.config import ClusterSection, NodeGroup
from shunter.events import Level, LevelGroups


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
