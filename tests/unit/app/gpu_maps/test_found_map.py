"""The map of GPUs as a server tells it, and what counts beside a config."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from shunter.backends.node import GpuWiring, Wiring
from shunter.config import NodeGroup
from shunter.daemon import FoundMap, ServerMap, found_map, found_map_of, server_map
from shunter.events import Level, LevelGroups

FAR = ("PHB", "NODE", "SYS")

LEVELS = tuple(LevelGroups(level, (0b0011, 0b1100)) for level in (Level.switch, Level.socket))


def wired(
    switches: Sequence[int],
    sockets: Sequence[int | None] = (),
    *,
    far: str = "SYS",
    cpus: Sequence[tuple[int, ...]] = (),
    joined: Sequence[Sequence[int]] = (),
) -> Wiring:
    """Return the wiring of GPUs, by the switch and socket of each."""
    count = range(len(switches))
    pci = tuple(
        tuple(
            "X" if one == two else "PIX" if switches[one] == switches[two] else far for two in count
        )
        for one in count
    )
    links = tuple(
        tuple(
            "NV2" if one != two and any({one, two} <= {*group} for group in joined) else ""
            for two in count
        )
        for one in count
    )
    gpus = tuple(
        GpuWiring(
            index=at,
            uuid=f"GPU-{at}",
            socket=sockets[at] if sockets else None,
            cpus=cpus[at] if cpus else (),
        )
        for at in count
    )
    return Wiring(gpus=gpus, pci=pci, links=links if joined else (), by="sysfs", cpus=(0, 1, 2, 3))


def names(count: int) -> list[str]:
    return [str(at) for at in range(count)]


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=8),
    st.sampled_from(FAR),
    st.permutations(range(8)),
)
def test_gpus_are_on_one_switch_in_the_map_exactly_if_the_server_says_so(
    switches: list[int], far: str, order: list[int]
) -> None:
    """The server may name its GPUs in any order, by index or UUID, and leave some out."""
    chosen = [at for at in order if at < len(switches)][: max(1, len(switches) - 1)]
    words = [f"GPU-{at}" if at % 2 else str(at) for at in chosen]
    found = found_map(wired(switches, far=far), words)

    group_of = {gpu: at for at, group in enumerate(found.switches) for gpu in group}
    assert sorted(group_of) == list(range(len(chosen)))
    for one, first in enumerate(chosen):
        for two, second in enumerate(chosen):
            assert (group_of[one] == group_of[two]) == (switches[first] == switches[second])
    tells = 1 < len(found.switches) < len(chosen)
    assert bool(found.levels()) == tells == bool(found.switch_gpus)


def test_sockets_bring_their_cpus() -> None:
    near = [(0, 1), (2, 3)]
    found = found_map(
        wired([0, 0, 1, 1], [0, 0, 1, 1], cpus=[near[0]] * 2 + [near[1]] * 2, joined=[[0, 1]]),
        names(4),
    )

    assert (found.switch_gpus, found.socket_gpus) == (((0, 1), (2, 3)), ((0, 1), (2, 3)))
    assert found.socket_cpus(found.socket_gpus) == ((0, 1), (2, 3))
    assert found.nvlink == ((0, 1),)
    assert found.levels() == LEVELS


@pytest.mark.parametrize(
    ("wiring", "asked", "cause"),
    [
        (wired([0, 0]), ["0", "GPU-7"], "GPU GPU-7 is not among those that it tells of"),
        (wired([0, 0]), ["0", "MIG-1b2"], "GPU MIG-1b2 is not among those"),
        (wired([0, 0]), ["0", "GPU-0"], "two of its GPUs are the same one"),
        (
            wired([0, 0, 1], [0, 1, 1]),
            names(3),
            r"makes no sense: switch \[0, 1\] lies across sockets",
        ),
        (Wiring(cause="no such library"), names(2), "no such library"),
        (Wiring(), names(2), "GPU 0 is not among those"),
    ],
    ids=["another", "MIG", "twice", "no sense", "no driver", "no GPU"],
)
def test_what_makes_no_sense_is_no_map_and_says_why(
    wiring: Wiring, asked: list[str], cause: str
) -> None:
    found = found_map(wiring, asked)
    with pytest.raises(AssertionError, match=cause):
        raise AssertionError(found.cause)
    assert (found.levels(), found.nvlink, found.by) == ((), (), "")


def test_nvlink_that_hides_switches_leaves_these_open() -> None:
    rows = (("X", ""), ("", "X"))
    gpus = wired([0, 0]).gpus
    found = found_map(
        Wiring(gpus=gpus, pci=rows, links=(("", "NV4"), ("NV4", "")), by="nvidia-smi"), names(2)
    )

    assert (found.switches, found.nvlink) == ((), ((0, 1),))
    assert "NVLink hides" in found.cause


# Of eight GPUs in a cube mesh (a DGX-1), those that `nvidia-smi topo -m` says each is linked with.
MESH = ({1, 2, 3, 4}, {0, 2, 3, 5}, {0, 1, 3, 6}, {0, 1, 2, 7}, {0, 5, 6, 7}, {1, 4, 6, 7},
        {2, 4, 5, 7}, {3, 4, 5, 6})  # fmt: skip


def test_joined_are_gpus_of_which_each_is_linked_with_each() -> None:
    """In the mesh each GPU can be reached from each, but by no link of its own."""
    gpus = wired([0] * 8).gpus
    rows = tuple(tuple("NV1" if other in near else "" for other in range(8)) for near in MESH)
    found = found_map(Wiring(gpus=gpus, pci=(), links=rows, by="nvidia-smi"), names(8))

    assert found.nvlink == ((0, 1, 2, 3), (4, 5, 6, 7))


def test_joined_groups_may_lie_across_sockets() -> None:
    """Two pairs of a real server, each with a GPU on either NUMA node."""
    near = [(0, 1), (2, 3)]
    tells = wired(
        [0, 0, 1, 1], [0, 0, 1, 1], cpus=[near[0]] * 2 + [near[1]] * 2, joined=[[0, 2], [1, 3]]
    )
    server = counted(found_map(tells, names(4)))

    assert server.configuration.links == server.configuration.joined == (0b0101, 0b1010)
    assert server.configuration.bus_levels == LEVELS


@pytest.mark.parametrize(
    "told",
    [
        {"wiring": {"gpus": [{"index": 0}]}},
        {"wiring": {"gpus": [{"index": 0, "uuid": "GPU-0"}], "pci": [["X", "SYS"]]}},
        {"wiring": {"gpus": [], "pci": [["no such word"]]}},
        {"wiring": []},
    ],
)
def test_wiring_that_is_none_is_no_map(told: dict[str, Any]) -> None:
    assert "cannot be read" in found_map_of(told).cause


NEAR = ((0, 1), (0, 1), (2, 3), (2, 3))
TOLD = found_map(wired([0, 0, 1, 1], [0, 0, 1, 1], cpus=NEAR, joined=[[2, 3]]), names(4))


def counted(found: FoundMap = TOLD, **given: Any) -> ServerMap:
    group = NodeGroup.model_validate({"name": "a", "gpus": 4, **given})
    return server_map(group, group.configuration("gpux4"), found)


def test_config_that_says_nothing_has_the_map_of_the_server() -> None:
    found = counted()

    assert found.configuration.bus_levels == LEVELS
    assert found.configuration.joined == (0b0001, 0b0010, 0b1100)
    assert found.configuration.links == (0b1100,)
    assert found.configuration.name.startswith("gpux4@")
    assert (found.by, found.notes) == ("sysfs", ())
    assert found.sockets == ((0b0011, (0, 1)), (0b1100, (2, 3)))
    assert counted() == found
    assert counted(FoundMap()).configuration.name == "gpux4"


def test_config_that_says_the_same_is_not_contradicted() -> None:
    found = counted(sockets=2, switches=2, nvlink=((2, 3),), socket_cpus=((1, 0), (3, 2)))

    assert (found.by, found.notes, found.configuration.name) == ("config", (), "gpux4")
    assert found.sockets == ((0b0011, (1, 0)), (0b1100, (3, 2)))


def test_one_socket_by_the_config_is_a_server_without_a_map() -> None:
    found = counted(sockets=1)
    assert (found.configuration.bus_levels, found.by, found.notes) == ((), "config", ())


@pytest.mark.parametrize(
    ("given", "note"),
    [
        (
            {"switch_gpus": ((0, 2), (1, 3))},
            "switches are [[0, 2], [1, 3]] by the config, and [[0, 1], [2, 3]] by the server",
        ),
        ({"sockets": 4}, "sockets are [[0], [1], [2], [3]] by the config, and [[0, 1], [2, 3]]"),
        ({"nvlink": ((0, 1),)}, "nvlink are [[0, 1]] by the config, and [[2, 3]] by the server"),
        (
            {"sockets": 2, "socket_cpus": ((0,), (9,))},
            "socket_cpus names CPU 9, which is not there",
        ),
        (
            {"sockets": 2, "socket_cpus": ((2, 3), (0, 1))},
            "socket_cpus gives GPU 0 CPUs [2, 3], and near to it are [0, 1] by the server",
        ),
    ],
)
def test_contradiction_is_said_and_the_config_counts(given: dict[str, Any], note: str) -> None:
    group = NodeGroup.model_validate({"name": "a", "gpus": 4, **given})
    by_config = group.configuration("gpux4")
    found = server_map(group, by_config, TOLD)

    assert found.notes[0].startswith(note)
    assert found.notes[0].rpartition(": ")[2].startswith("the config counts; correct it")
    if not {"nvlink"} & given.keys():
        assert found.configuration.bus_levels == by_config.levels
    else:
        assert found.configuration.links == by_config.links


def test_server_that_tells_nothing_has_no_map_and_says_why() -> None:
    found = counted(FoundMap(cause="no GPU is seen"))

    assert (found.configuration.levels, found.by) == ((), "")
    (note,) = found.notes
    assert note == (
        "the map of its GPUs is not known (no GPU is seen): give sockets, switches and nvlink in "
        "[[cluster.nodes]] if it has them"
    )
    assert counted(FoundMap(cause="no GPU is seen"), sockets=2).notes == ()
