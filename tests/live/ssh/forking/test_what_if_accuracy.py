"""What-if of the same policy against what happened over SSH (tests/live/what_if.py)."""

import anyio
import pytest

from shunter.events import Event, JobSuspended
from tests.live.site.sites import at_work
from tests.live.ssh.bench import Bench
from tests.live.ssh.site import cluster
from tests.live.what_if import LAS, assert_close, run_jobs

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.ssh]


async def ran(bench: Bench) -> list[Event]:
    gpus = dict.fromkeys(bench.farm.hosts, 2)
    async with at_work(cluster(bench.farm, bench.folder, gpus, policy=LAS)) as site:
        return await run_jobs(site)


@pytest.mark.rotating(among="what-if of the same policy")
def test_same_policy_is_within_five_percent_of_what_happened(bench: Bench) -> None:
    """Some gangs lie on several hosts, cannot agree on where to leave, and go on to their ends."""
    assert_close(bench.folder / "log.db", anyio.run(ran, bench), JobSuspended)
