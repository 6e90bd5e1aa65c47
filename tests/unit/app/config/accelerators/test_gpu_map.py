"""The map of the GPUs inside a server, as a number of parts or as the groups themselves."""

from itertools import product
from typing import Any

from hypothesis import given, strategies as st

from shunter.config import NodeGroup
from shunter.events import Level, LevelGroups


def _group(**values: Any) -> NodeGroup:
    return NodeGroup.model_validate({"name": "a", "gpus": 8, **values})


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
