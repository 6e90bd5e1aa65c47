from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.api.serving import Served


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A daemon of this test alone, on a node of four GPUs."""
    with Served(tmp_path) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A daemon for all tests of a module, none of which may depend on another's jobs."""
    with Served(tmp_path_factory.mktemp("site")) as daemon:
        yield daemon
