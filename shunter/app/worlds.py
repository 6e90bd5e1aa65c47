"""Simulated worlds of other packages: the entry points of the group `shunter.worlds`."""

from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, Protocol

from shunter.app.config.policies import BRINGS, did_you_mean
from shunter.core.ports import Backend, SimulatedWorld
from shunter.errors import ConfigError

__all__ = ["GROUP", "WorldPlugin", "find_world", "no_world", "world_names"]

GROUP = "shunter.worlds"
PEERS: Final = frozenset({"remembered_ends"})
"""The worlds of the distribution shunter-peers, which is beside this one in a checkout."""


class WorldPlugin(Protocol):
    """What an entry point of the group gives: a class or an object with these."""

    name: str

    def record(self) -> dict[str, Any]:
        """Return what the log says of it, beside the other keys of `[simulation]`."""

    def around(self, inside: SimulatedWorld, round_us: int) -> Backend:
        """Return the world that is run.

        Args:
            inside: the simulated cluster of Shunter, as configured.
            round_us: the length of a round; 0 where every event is decided about.
        Raises:
            ConfigError: it cannot be put around that.
        """


def world_names() -> tuple[str, ...]:
    """Return the names of all installed worlds, in order."""
    return tuple(sorted(_entry_points()))


def no_world(name: str) -> str:
    """Return what to say of a world that is not installed."""
    if name in PEERS:
        return f"no world {name!r}; {BRINGS}"
    return f"no world {name!r}{did_you_mean(name, world_names())}"


def find_world(name: str) -> WorldPlugin:
    """Load the world of that name.

    Raises:
        ConfigError: there is none, or its package cannot be imported.
    """
    point = _entry_points().get(name)
    if point is None:
        raise ConfigError(f"simulation.world: {no_world(name)}")
    try:
        found = point.load()
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"simulation.world: {name!r} cannot be loaded from {point.value}: {error}"
        ) from error
    world: WorldPlugin = found() if isinstance(found, type) else found
    lacking = [part for part in ("record", "around") if not callable(getattr(world, part, None))]
    if lacking:
        raise ConfigError(
            f"simulation.world: {name!r} of {point.value} is no world: it lacks "
            f"{', '.join(f'{part}()' for part in lacking)}"
        )
    return world


def _entry_points() -> dict[str, EntryPoint]:
    points = sorted(entry_points(group=GROUP), key=lambda point: point.value)
    return {point.name: point for point in points}
