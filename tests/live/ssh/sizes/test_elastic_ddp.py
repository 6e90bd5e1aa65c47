"""An elastic DDP job over SSH: from one rank to four and to two, with PyTorch (gloo)."""

import pytest

from tests.live.site.sites import at_work, verified
from tests.live.ssh.bench import Bench
from tests.live.ssh.site import cluster
from tests.live.train.elastic import assert_trains_in_sizes
from tests.live.training import LACKS_TORCH

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.live,
    pytest.mark.ssh,
    pytest.mark.skipif(bool(LACKS_TORCH), reason=LACKS_TORCH or "it is there"),
    pytest.mark.xdist_group("training"),
]


@pytest.mark.rotating(among="elastic training")
async def test_gang_grows_to_four_ranks_and_shrinks_to_two_over_ssh(bench: Bench) -> None:
    loaded = cluster(bench.farm, bench.folder, {"n0": 4}, nodes=("n0",))
    async with at_work(loaded) as site:
        await assert_trains_in_sizes(site, bench.folder, "ddp", (1, 4, 2))
    assert (await verified(bench.folder)).divergence is None
