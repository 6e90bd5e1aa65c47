"""Which tenth of the cases that repeat the same with other seeds a run plays.

A test says that its cases differ by a seed alone: `@pytest.mark.rotating("seed")` names the
arguments that do, and of each combination of its other arguments a tenth of the cases run, at
least one; with `among="a name"` it is one of all tests that say so, such as the same run on each
backend. `@searched(400)` is a search by hypothesis, and `seeds(40)` a loop over seeds. The tenth
follows from the number of commits, so that ten commits play all. SHUNTER_SLICE=3 plays that one
again, SHUNTER_THOROUGH=1 plays all of them. Cases that are named on the command line run.
"""

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

import pytest
from hypothesis import seed, settings

__all__ = ["SLICES", "THOROUGH", "Rotation", "searched", "seeds", "share", "slice_number"]

Case = TypeVar("Case")
Test = TypeVar("Test", bound=Callable[..., Any])

SLICES = 10
SEARCHED_LEAST = 5
NAME = "SHUNTER_SLICE"
THOROUGH = bool(os.environ.get("SHUNTER_THOROUGH"))


def _of_the_commit() -> int:
    """Return the slice of this commit; 0 where there is no git, as in an archive of the sources."""
    try:
        shallow, commit = _git("rev-parse", "--is-shallow-repository", "HEAD")
        if shallow == "true":  # it counts as many commits as were fetched, at every commit
            return int(commit, 16) % SLICES
        (count,) = _git("rev-list", "--count", "HEAD")
    except (OSError, subprocess.SubprocessError):
        return 0
    return int(count) % SLICES


def _git(*words: str) -> list[str]:
    command = ["git", "-C", str(Path(__file__).parent), *words]
    ran = subprocess.run(command, capture_output=True, check=True, text=True, timeout=60)
    return ran.stdout.split()


def slice_number() -> int:
    """Return which slice runs; the first call fixes it for the workers of xdist as well."""
    said = os.environ.get(NAME, "") or str(_of_the_commit())
    if not (said.isdecimal() and int(said) < SLICES):
        raise pytest.UsageError(f"{NAME} is {said!r}: expected a number from 0 to {SLICES - 1}")
    os.environ[NAME] = said
    return int(said)


def share(cases: Sequence[Case], begins: int = 0) -> Sequence[Case]:
    """Return the tenth of some cases that runs, at least one of them; slice 0 has case `begins`."""
    if THOROUGH or len(cases) < 2:
        return cases
    return cases[(slice_number() + begins) % min(len(cases), SLICES) :: SLICES]


def seeds(count: int) -> Sequence[int]:
    """Return those of so many seeds that a loop within a test tries."""
    return share(range(count))


def searched(
    examples: int, *, thorough: int | None = None, **options: Any
) -> Callable[[Test], Test]:
    """Return a decorator: search a tenth of so many examples, at least five, by the slice's seed.

    All slices together search as many as one search did. A thorough run searches all at once, or
    `thorough` of them. Other `options` are those of hypothesis.settings.
    """
    if THOROUGH or os.environ.get("SHUNTER_HYPOTHESIS") == "explore":
        return settings(max_examples=thorough or examples, **options)
    least = min(SEARCHED_LEAST, examples)
    fewer = settings(max_examples=max(-(-examples // SLICES), least), **options)

    def decorated(test: Test) -> Test:
        return seed(slice_number())(fewer(test))

    return decorated


class Rotation:
    """A pytest plugin that leaves out the cases of other slices, and says so."""

    def pytest_report_header(self) -> str:
        """Say which slice this is, and how to run another."""
        if THOROUGH:
            return "seeds: all (SHUNTER_THOROUGH)"
        return (
            f"seeds: slice {slice_number()} of {SLICES}, by the number of commits; another by"
            f" {NAME}=0 to {SLICES - 1}, all by SHUNTER_THOROUGH=1"
        )

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Keep the share of each test, after -k and -m have chosen."""
        if THOROUGH or any("[" in argument for argument in config.args):
            return
        groups: dict[tuple[str, ...], list[pytest.Item]] = {}
        for item in items:
            groups.setdefault(_same_but_for_seeds(item), []).append(item)
        # Of many tests over two backends, half run on the one and half on the other.
        kept = {
            id(item)
            for (name, *_), cases in groups.items()
            for item in share(cases, crc32(name.encode()))
        }
        dropped = [item for item in items if id(item) not in kept]
        if dropped:
            config.hook.pytest_deselected(items=dropped)
            items[:] = [item for item in items if id(item) in kept]


def _same_but_for_seeds(item: pytest.Item) -> tuple[str, ...]:
    """Return what the cases of a test that differ by their seeds alone have in common."""
    marker = item.get_closest_marker("rotating")
    if marker is None or not isinstance(item, pytest.Function):
        return (str(id(item)),)
    callspec = getattr(item, "callspec", None)
    params = callspec.params if callspec is not None else {}
    among = marker.kwargs.get("among", "")
    if not params.keys() >= set(marker.args) or not (marker.args or among):
        raise pytest.UsageError(f"{item.nodeid}: rotating names no arguments of the test")
    others = (f"{name}={given}" for name, given in params.items() if name not in marker.args)
    return among or f"{item.path.name}::{item.originalname}", str(item.cls), *sorted(others)
