"""Jobs that are packed inside a pilot: tried there, and kept only if they gain."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.site.sites import verified
from tests.live.slurm.bench import SlurmBench
from tests.live.slurm.pilots import PilotBench
from tests.live.slurm.site import served
from tests.live.turns.pairs import POLICY, tries_a_pair

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.live,
    pytest.mark.slurm,
    pytest.mark.xdist_group("slurm"),
]


@pytest.fixture
def bench(slurm: SlurmBench, tmp_path: Path) -> Iterator[PilotBench]:
    """A cluster, and a folder that is empty."""
    found = PilotBench(slurm, tmp_path)
    yield found
    found.clean()


@pytest.mark.rotating(among="trials of pairs")
@pytest.mark.parametrize("gains", [True, False], ids=["gains", "loses"])
async def test_a_pair_is_tried_in_a_pilot_and_kept_only_if_it_gains(
    bench: PilotBench, monkeypatch: pytest.MonkeyPatch, gains: bool
) -> None:
    """Both want all four GPUs of the node."""
    async with served(bench, monkeypatch, "n1", mode="pilot", policy=POLICY) as site:
        await tries_a_pair(site, bench.folder, gains=gains, gpus=4)
    assert (await verified(bench.folder)).divergence is None
