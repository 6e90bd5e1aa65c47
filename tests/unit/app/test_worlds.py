"""Worlds of other packages by name: found, put around ours, or refused in words."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import pytest

from shunter.config import WORLDS, make_config
from shunter.core import AnyPolicy, Backend, Effect, Input, SimulatedWorld
from shunter.errors import ConfigError
from shunter.events import ConfigurationSet, SchedulerStarted
from shunter.run import Setup, load_jobs, set_up, simulate
from tests.unit.app.conftest import Install


class Counted:
    """A world that counts how often it is asked what happens."""

    name = "counted"
    asked = 0

    def __init__(self) -> None:
        self.inside: SimulatedWorld | None = None

    def record(self) -> dict[str, Any]:
        return {"world": "counted"}

    def around(self, inside: SimulatedWorld, round_us: int) -> Backend:
        self.inside = inside
        return self

    @property
    def instant(self) -> bool:
        return True

    async def perform(self, effects: Sequence[Effect], now_us: int) -> None:
        assert self.inside is not None
        await self.inside.perform(effects, now_us)

    async def observe(
        self, until_us: int | None, gather_us: int = 0
    ) -> tuple[int, Sequence[Input]]:
        assert self.inside is not None
        Counted.asked += 1
        return await self.inside.observe(until_us, gather_us)


class OfItsPolicy(Counted):
    """A world that must be told which policy it is the world of."""

    told: ClassVar[list[tuple[str, int]]] = []

    def playing(self, policy: AnyPolicy, servers: Iterable[ConfigurationSet]) -> "OfItsPolicy":
        self.told.append((policy.name, sum(each.gpus for each in servers)))
        return self


NO_WORLD = object()


def recorded(setup: Setup) -> str:
    """Return the config as the log says it."""
    started = setup.opening(1)[0]
    assert isinstance(started, SchedulerStarted)
    return started.config


def tree(world: str) -> Mapping[str, Any]:
    return {
        "cluster": {"nodes": [{"name": "n1", "gpus": 4}]},
        "workload": {"generate": {"jobs": 3, "gpus_max": 2}},
        "simulation": {"world": world} if world else {},
    }


def test_world_of_another_package_is_run_and_recorded(install: Install) -> None:
    install(WORLDS, counted="tests.unit.app.test_worlds:Counted")
    before, loaded = Counted.asked, make_config(tree("counted"))

    document = simulate(loaded).document

    assert document["jobs"]["finished"] == 3
    setup = set_up(loaded, load_jobs(loaded))
    assert setup.backend.instant
    assert '"world":"counted"' in recorded(setup)
    assert Counted.asked > before


def test_world_is_told_the_policy_and_servers_before_it_is_put_around_if_it_asks(
    install: Install,
) -> None:
    install(WORLDS, mine="tests.unit.app.test_worlds:OfItsPolicy")
    loaded = make_config(tree("mine"))

    set_up(loaded, load_jobs(loaded))

    assert OfItsPolicy.told == [("fifo", 4)]


def test_log_without_a_world_says_nothing_of_it() -> None:
    loaded = make_config(tree(""))

    assert "world" not in recorded(set_up(loaded, load_jobs(loaded)))


def test_unknown_world_is_an_error_of_the_config(install: Install) -> None:
    install(WORLDS, counted="tests.unit.app.test_worlds:Counted")

    with pytest.raises(ConfigError, match="no world 'count'; did you mean 'counted'"):
        make_config(tree("count"))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("no_such_package:World", "cannot be loaded from no_such_package:World"),
        ("tests.unit.app.test_worlds:NO_WORLD", "is no world: it lacks record(), around()"),
    ],
)
def test_plugin_that_is_no_world_says_what_it_lacks(
    install: Install, value: str, words: str
) -> None:
    install(WORLDS, mine=value)
    loaded = make_config(tree("mine"))

    with pytest.raises(ConfigError) as refused:
        set_up(loaded, load_jobs(loaded))

    assert words in str(refused.value)
