"""Simulated worlds of other packages: the entry points of the group `shunter.worlds`."""

from typing import Protocol

from shunter.app.plugins import Plugins
from shunter.core.interfaces import Backend, SimulatedWorld
from shunter.errors import ConfigError

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
