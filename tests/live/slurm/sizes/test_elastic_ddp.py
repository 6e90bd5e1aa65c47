"""An elastic DDP job in a pilot of Slurm: from one rank to two and back, with PyTorch (gloo)."""

from pathlib import Path

import pytest

from tests.live.site.sites import verified
from tests.live.slurm.bench import SlurmBench
from tests.live.slurm.pilots import PilotBench
from tests.live.slurm.site import served
from tests.live.train.elastic import assert_trains_in_sizes
from tests.live.training import LACKS_TORCH

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.live,
    pytest.mark.slurm,
    pytest.mark.skipif(bool(LACKS_TORCH), reason=LACKS_TORCH or "it is there"),
    pytest.mark.xdist_group("slurm"),
]


@pytest.mark.rotating(among="elastic training")
async def test_gang_grows_and_shrinks_in_a_pilot(
    slurm: SlurmBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = PilotBench(slurm, tmp_path)
    try:
        async with served(bench, monkeypatch, "n1", mode="pilot") as site:
            sizes = (1, 2, 1)
            # No resolver knows the names of these nodes.
            await assert_trains_in_sizes(site, bench.folder, "ddp", sizes, MASTER="127.0.0.1")
        assert (await verified(bench.folder)).divergence is None
    finally:
        bench.clean()
