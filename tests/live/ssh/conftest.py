"""Benches of three hosts: on loopback, and in namespaces where this machine lets us."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.ssh.bench import Bench
from tests.live.ssh.farm import LACKING, farm_at
from tests.live.ssh.namespaces import Namespaces, lacking, namespaces_at

HOSTS = ("n0", "n1", "n2")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name: those of pytest are too long for some shells."""
    with tempfile.TemporaryDirectory(prefix="ssh") as name:
        yield Path(name)


@pytest.fixture
def bench(folder: Path) -> Iterator[Bench]:
    """Three hosts on loopback."""
    if LACKING:
        pytest.skip(LACKING)
    with farm_at(folder / "farm", *HOSTS) as farm:
        found = Bench(farm, folder)
        yield found
        found.clean()


@pytest.fixture
def network(folder: Path) -> Iterator[tuple[Bench, Namespaces]]:
    """Three hosts that can be cut off and powered off."""
    if lacking():
        pytest.skip(lacking())
    with namespaces_at(folder / "farm", *HOSTS) as farm:
        yield Bench(farm, folder), farm
