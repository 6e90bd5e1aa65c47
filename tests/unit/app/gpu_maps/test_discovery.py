"""Which map counts when a daemon starts again: that of the log, or the one that is told now."""

from dataclasses import replace

import pytest

from shunter.app.gpu_maps import ServerMap
from shunter.app.gpu_maps.discovery import kept
from shunter.core.cluster import Health, Server
from shunter.events.values.configuration_set import LevelGroups
from shunter.events.values.ids import NodeName
from shunter.events.values.job_spec import Level
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
    given = ServerMap(BY_CONFIG, by="config")
    for is_busy in (True, False):
        assert kept(given, known(PAIRS), is_busy=is_busy) == given
        assert kept(NOTHING, known(BY_CONFIG), is_busy=is_busy) == NOTHING
        assert kept(TOLD, known(LARGER), is_busy=is_busy) == TOLD
