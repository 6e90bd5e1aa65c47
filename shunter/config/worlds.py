"""Simulated worlds of other packages: the entry points of the group `shunter.worlds`."""

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from shunter.core.interfaces import AnyPolicy, Backend, SimulatedWorld
from shunter.errors import ConfigError
from shunter.events.values import ConfigurationSet
from shunter.plugins import Plugins

WORLDS = Plugins("world", "shunter.worlds")


class WorldPlugin(Protocol):
    """What an entry point of the group gives: a class or an object with these."""

    name: str

    def record(self) -> dict[str, object]:
        """Return what the log says of it, beside the other keys of `[simulation]`."""

    def around(self, inside: SimulatedWorld, round_us: int) -> Backend:
        """Return the world that is run.

        Args:
            inside: the simulated cluster of Shunter, as configured.
            round_us: the length of a round; 0 where every event is decided about.
        Raises:
            ConfigError: it cannot be put around that.
        """


@runtime_checkable
class PlaysPolicy(Protocol):
    """A world that must know which policy it is the world of, and its servers."""

    def playing(self, policy: AnyPolicy, servers: Iterable[ConfigurationSet]) -> WorldPlugin:
        """Return the world of a policy on these servers.

        Raises:
            ConfigError: it is not the world of that policy, or not with such servers.
        """


def world_around(
    name: str,
    inside: SimulatedWorld,
    round_us: int,
    policy: AnyPolicy,
    servers: Iterable[ConfigurationSet],
) -> Backend:
    """Return the simulated cluster inside the world of that name.

    Args:
        name: of the world.
        inside: the simulated cluster of Shunter, as configured.
        round_us: the length of a round; 0 where every event is decided about.
        policy: the one that is run.
        servers: what is in each.
    Raises:
        ConfigError: there is no such world, or it cannot be put around that.
    """
    world = find_world(name)
    if isinstance(world, PlaysPolicy):
        world = world.playing(policy, servers)
    return world.around(inside, round_us)


def find_world(name: str) -> WorldPlugin:
    """Load the world of that name.

    Raises:
        ConfigError: there is none, or its package cannot be imported.
    """
    point = WORLDS.point(name)
    if point is None:
        raise ConfigError(f"simulation.world: {WORLDS.missing(name)}")
    try:
        found = WORLDS.loaded(point)
    except ConfigError as error:
        raise ConfigError(f"simulation.world: {error}") from error
    world: WorldPlugin = found() if isinstance(found, type) else found
    lacking = [part for part in ("record", "around") if not callable(getattr(world, part, None))]
    if lacking:
        raise ConfigError(
            f"simulation.world: {name!r} of {point.value} is no world: it lacks "
            f"{', '.join(f'{part}()' for part in lacking)}"
        )
    return world
