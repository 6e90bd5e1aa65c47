"""Which map counts when a daemon starts again: that of the log, or the one that is told now."""

from dataclasses import replace

import pytest

from shunter.config import ClusterSection, NodeGroup
from shunter.core import Health, Server, State
from shunter.daemon import (
    FoundMap,
    Place,
    ServerMap,
    ToldBySlurm,
    discover_maps,
    kept,
    mapped,
    placed,
    rack_notes,
    server_map,
)
from shunter.events import Level, LevelGroups, NodeName
from tests.factories import configuration

FLAT = configuration(4, name="v100x4")
PAIRS = replace(FLAT, name="v100x4@0123ab", levels=(LevelGroups(Level.switch, (0b0011, 0b1100)),))
CROSSED = replace(FLAT, name="v100x4@ba3210", levels=(LevelGroups(Level.switch, (0b0101, 0b1010)),))
BY_CONFIG = replace(PAIRS, name="v100x4")
LARGER = replace(FLAT, memory_mb=7)
TOLD = ServerMap(CROSSED, by="sysfs")
NOTHING = ServerMap(FLAT, notes=("the map is not known: do so",))


def known(what: object, **fields: object) -> Server:
    return Server(NodeName("n0"), what, 0, **fields)  # type: ignore[arg-type]  # any field


def test_new_server_has_the_map_that_it_tells() -> None:
    assert kept(TOLD, None, is_busy=False) == TOLD
    assert kept(TOLD, known(PAIRS, health=Health.removed), is_busy=False) == TOLD


@pytest.mark.parametrize("before", [FLAT, PAIRS], ids=["none", "another"])
def test_map_that_has_changed_counts_once_the_server_is_idle(before: object) -> None:
    assert kept(TOLD, known(before), is_busy=False) == TOLD
    busy = kept(TOLD, known(before), is_busy=True)
    assert busy.configuration == before
    assert busy.notes[-1].startswith("it has another map than before")
    for out in ({"drained": True}, {"quarantined": 1}, {"health": Health.unreachable}):
        assert kept(TOLD, known(before, **out), is_busy=False).configuration == before


def test_server_that_tells_no_map_now_has_the_one_it_told_before() -> None:
    found = kept(NOTHING, known(PAIRS), is_busy=False)
    assert (found.configuration, found.by, found.notes) == (PAIRS, "log", NOTHING.notes)
    assert kept(NOTHING, known(FLAT), is_busy=True) == NOTHING


def test_what_the_config_gives_or_takes_back_counts_as_ever() -> None:
    given, none = ServerMap(BY_CONFIG, by="config"), ServerMap(FLAT, by="config")
    for is_busy in (True, False):
        assert kept(given, known(PAIRS), is_busy=is_busy) == given
        assert kept(none, known(PAIRS), is_busy=is_busy) == none
        assert kept(NOTHING, known(BY_CONFIG), is_busy=is_busy) == NOTHING
        assert kept(TOLD, known(LARGER), is_busy=is_busy) == TOLD


def test_busy_server_keeps_links_that_were_no_level_before_an_upgrade() -> None:
    """In a log of before, NVLink was in no level: a daemon must start although jobs run there."""
    group = NodeGroup.model_validate({"name": "n0", "gpus": 4, "nvlink": ((0, 2), (1, 3))})
    given = ServerMap(group.configuration("v100x4"))
    before = replace(given.configuration, levels=())

    assert kept(given, known(before), is_busy=False) == given
    busy = kept(given, known(before), is_busy=True)
    assert busy.configuration == before
    assert busy.notes[-1].startswith("it has another map than before")
    others = replace(before, links=(0b11,))
    assert kept(given, known(others), is_busy=True) == given


RACK, OTHER = Place("rack1", "west"), Place("rack2", "west")
IN_RACK = ServerMap(placed(FLAT, RACK), place_by="Slurm")
IN_OTHER = ServerMap(placed(FLAT, OTHER), place_by="Slurm")


def test_place_that_has_changed_counts_once_the_server_is_idle() -> None:
    assert kept(IN_RACK, None, is_busy=False) == IN_RACK
    assert kept(IN_OTHER, known(IN_RACK.configuration), is_busy=False) == IN_OTHER
    busy = kept(IN_OTHER, known(IN_RACK.configuration), is_busy=True)
    assert (busy.configuration, busy.place_by) == (IN_RACK.configuration, "log")
    (note,) = busy.notes
    assert note == (
        "it is in rack rack2 in west by Slurm: its place of before counts until the daemon starts "
        "while nothing runs there"
    )
    away = known(IN_RACK.configuration, health=Health.unreachable)
    assert kept(IN_OTHER, away, is_busy=False, is_on_demand=True) == IN_OTHER
    assert kept(IN_OTHER, away, is_busy=True, is_on_demand=True).place_by == "log"
    for out in ({"drained": True}, {"quarantined": 1}, {"health": Health.lost}):
        one = known(IN_RACK.configuration, **out)
        same = kept(IN_OTHER, one, is_busy=False, is_on_demand=True)
        assert same.configuration == IN_RACK.configuration
    first = kept(IN_RACK, known(FLAT), is_busy=True)
    assert (first.configuration, first.place_by, len(first.notes)) == (FLAT, "", 1)


def test_place_that_nobody_tells_now_is_that_of_before() -> None:
    for is_busy in (True, False):
        found = kept(ServerMap(FLAT), known(IN_RACK.configuration), is_busy=is_busy)
        assert (found.configuration, found.place_by) == (IN_RACK.configuration, "log")


def test_place_of_the_config_counts_at_once_and_so_does_that_it_gives_none() -> None:
    given = ServerMap(replace(FLAT, rack="row7"), place_by="config")
    nowhere = ServerMap(FLAT, place_by="config")
    for told in (given, nowhere):
        assert kept(told, known(IN_RACK.configuration), is_busy=True) == told
    assert kept(IN_RACK, known(given.configuration), is_busy=True) == IN_RACK


def test_map_and_place_are_each_as_they_were_told_last() -> None:
    """The map is told no more, and the place is another one; and the other way round."""
    pairs = mapped(FLAT, PAIRS.levels, ())
    both = placed(pairs, RACK)
    found = kept(IN_OTHER, known(both), is_busy=False)
    assert found.configuration == placed(pairs, OTHER)
    assert (found.by, found.place_by) == ("log", "Slurm")
    crossed = mapped(FLAT, CROSSED.levels, ())
    found = kept(ServerMap(crossed, by="sysfs"), known(both), is_busy=False)
    assert found.configuration == placed(crossed, RACK)
    assert (found.by, found.place_by) == ("sysfs", "log")
    assert kept(ServerMap(FLAT), known(both), is_busy=False).configuration == both


@pytest.mark.parametrize(
    ("given", "rack", "by"),
    [
        ({}, "rack1", "Slurm"),
        ({"rack": "row7"}, "row7", "config"),
        ({"rack": ""}, "", "config"),
        ({"domain": "east"}, "", "config"),
    ],
)
def test_config_that_names_rack_or_domain_gives_both(
    given: dict[str, str], rack: str, by: str
) -> None:
    group = NodeGroup.model_validate({"name": "a", "gpus": 4, **given})
    found = server_map(group, group.configuration("gpux4"), FoundMap(), RACK, "Slurm")
    assert (found.configuration.rack, found.place_by) == (rack, by)
    assert found.configuration.name.startswith("gpux4@r") == (by == "Slurm")


def cluster(racks: dict[str, str]) -> ClusterSection:
    nodes = [{"name": name, "gpus": 4, "rack": rack} for name, rack in racks.items()]
    return ClusterSection.model_validate({"nodes": tuple(nodes)})


def test_racks_that_hold_the_same_servers_under_other_names_are_no_contradiction() -> None:
    told = {NodeName("a"): Place("s1"), NodeName("b"): Place("s1"), NodeName("c"): Place("s2")}
    assert rack_notes(cluster({"a": "x", "b": "x", "c": "y"}), told, "Slurm") == {}
    assert rack_notes(cluster({"a": "x", "b": "x", "c": "y", "d": "x"}), told, "Slurm") == {}
    found = rack_notes(cluster({"a": "x", "b": "y", "c": "y"}), told, "Slurm")
    assert list(found) == ["a", "b", "c"]
    assert found[NodeName("a")].startswith(
        "rack x holds a by the config, and Slurm has a, b in one (s1): the config counts; "
    )


@pytest.mark.asyncio
async def test_servers_of_one_kind_in_two_racks_have_two_sets() -> None:
    section = ClusterSection.model_validate({"nodes": ({"name": "n[1-3]", "gpus": 4},)})
    places = {NodeName("n1"): RACK, NodeName("n2"): OTHER}
    maps = await discover_maps(section, {}, State(), ToldBySlurm(places))
    names = [maps[NodeName(name)].configuration.name for name in ("n1", "n2", "n3")]
    assert len({*names}) == 3
    assert names[2] == "gpux4"
