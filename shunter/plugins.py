"""Things by name that packages add by entry points.

They are policies, worlds of a simulation, formats of traces, and `shunter reproduce`.
"""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from importlib import metadata
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any, Final, TypeVar

from shunter.core.planning import told_of
from shunter.errors import ConfigError

T = TypeVar("T")

PEERS: Final = "peers"
PAPERS: Final = "papers"

BROUGHT: Final = {
    "shunter.policies": dict.fromkeys(
        ("blox_peer", "gavel_peer", "synergy_peer", "tiresias_peer"), PEERS
    ),
    "shunter.worlds": dict.fromkeys(("remembered_ends", "synergy_rounds"), PEERS),
    "shunter.trace_formats": dict.fromkeys(
        ("blox-csv", "gavel-trace", "synergy", "tiresias-csv"), PEERS
    ),
    "shunter.commands": {"reproduce": PAPERS},
}
"""What our other distributions bring, by group and name: the folder of the one that does."""


def brings(folder: str) -> str:
    """Return how to install one of our other distributions.

    Args:
        folder: its folder in a checkout.
    """
    return f"pip install shunter-{folder} brings it (./{folder} in a checkout)"


@dataclass(frozen=True)
class Plugins:
    """All of one kind."""

    kind: str
    group: str

    def names(self) -> tuple[str, ...]:
        """Return the names of all that are installed, in order."""
        return tuple(sorted(self._points()))

    def point(self, name: str) -> EntryPoint | None:
        """Return the entry point of that name; of several, the one of our own package."""
        own = _own_points(tuple(sys.path)).select(group=self.group, name=name)
        return next(iter(own), None) if own else self._points().get(name)

    def missing(self, name: str) -> str:
        """Return what to say of a name that is not installed: who brings it, or what is."""
        if folder := BROUGHT.get(self.group, {}).get(name):
            return f"no {self.kind} {name!r}; {brings(folder)}"
        return f"no {self.kind} {name!r}{did_you_mean(name, self.names())}"

    def loaded(self, point: EntryPoint) -> Any:
        """Return what an entry point gives.

        Raises:
            ConfigError: its package cannot be imported, or fails.
        """
        return self.tried(point, point.load)

    def tried(self, point: EntryPoint, call: Callable[[], T]) -> T:
        """Return what some code of an entry point's package returns.

        Raises:
            ConfigError: it fails.
        """
        try:
            return call()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise ConfigError(
                f"{self.kind} {point.name!r} cannot be loaded from {point.value}: "
                f"{told_of(type(error).__name__, error).partition(': ')[2]}"
            ) from error

    def _points(self) -> dict[str, EntryPoint]:
        points = sorted(entry_points(self.group), key=lambda point: point.value)
        ours = [point for point in points if point.value.startswith("shunter.")]
        return {point.name: point for point in [*points, *ours]}


def entry_points(group: str) -> Iterable[EntryPoint]:
    """Return the entry points of a group."""
    return _entry_points(group, tuple(sys.path))


@lru_cache
def _entry_points(group: str, _path: tuple[str, ...]) -> EntryPoints:
    """Return the same, looked up once: a look reads a file of each package."""
    return metadata.entry_points(group=group)


@lru_cache
def _own_points(_path: tuple[str, ...]) -> EntryPoints:
    """Return the entry points of our own package, which are read in no time."""
    try:
        return metadata.distribution("shunter").entry_points
    except metadata.PackageNotFoundError:
        return EntryPoints()


def did_you_mean(name: str, known: tuple[str, ...]) -> str:
    """Return the end of a message about an unknown name."""
    near = get_close_matches(name, known, n=1)
    guess = f"; did you mean {near[0]!r}?" if near else ""
    return f"{guess}; known: {', '.join(known)}"
