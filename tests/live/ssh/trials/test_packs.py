"""Jobs that are packed on a host over SSH: tried there, and kept only if they gain."""

import pytest

from tests.live.site.sites import at_work, verified
from tests.live.ssh.bench import Bench
from tests.live.ssh.site import cluster
from tests.live.turns.pairs import POLICY, tries_a_pair

pytestmark = [pytest.mark.asyncio, pytest.mark.live, pytest.mark.ssh]


@pytest.mark.rotating(among="trials of pairs")
@pytest.mark.parametrize("gains", [True, False], ids=["gains", "loses"])
async def test_a_pair_is_tried_over_ssh_and_kept_only_if_it_gains(
    bench: Bench, gains: bool
) -> None:
    loaded = cluster(bench.farm, bench.folder, nodes=("n0",), policy=POLICY)
    async with at_work(loaded) as site:
        await tries_a_pair(site, bench.folder, gains=gains)
    assert (await verified(bench.folder)).divergence is None
