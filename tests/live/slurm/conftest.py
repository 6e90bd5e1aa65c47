"""One private Slurm cluster for all tests of a worker."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.slurm.bench import SlurmBench, bench_at, lacking


@pytest.fixture(scope="session")
def cluster() -> Iterator[SlurmBench]:
    """A real cluster, started once."""
    with tempfile.TemporaryDirectory(prefix="slurm") as folder:
        Path(folder).chmod(0o755)  # for clients that run as another user
        if lack := lacking(Path(folder) / "look"):
            pytest.skip(lack)
        with bench_at(Path(folder) / "bench") as bench:
            yield bench


@pytest.fixture
def slurm(cluster: SlurmBench) -> Iterator[SlurmBench]:
    """The cluster with no job and all nodes idle, which is what each test leaves."""
    yield cluster
    cluster.restore()
