"""A running job is moved for a gang that wants one switch: real processes on the local backend."""

from pathlib import Path

import anyio
import pytest

from shunter.core import MAKE_ROOM, ROOM_MADE
from shunter.daemon import Site
from shunter.events import (
    AllocationChanged,
    AttemptStarted,
    Event,
    JobFinished,
    JobId,
    Level,
    SuspendMode,
)
from tests.live.site.sites import NOBODY, events_until, machine, of, program, verified

pytestmark = [pytest.mark.asyncio, pytest.mark.live]

COST_S = 0.2
POLICY = {
    "name": "fifo",
    "trigger": "event",
    "placement": "topology",
    "topology": {"mode": "spread", "make_room": {"cost": COST_S, "every": 0.5}},
}
SWITCHES = (0b0011, 0b1100)
GANG = "import os, pathlib, sys; pathlib.Path(sys.argv[1]).write_text(os.environ[{name!r}])"


async def running(site: Site) -> JobId:
    """Submit a job of one GPU that runs until it is told to go; return its id once it runs."""
    job = program("import time; time.sleep(600)", gpus=1, suspend_mode=SuspendMode.restart)
    job_id = await site.submit(job, NOBODY)

    def begun(seen: list[Event]) -> bool:
        return any(each.job_id == job_id for each in of(seen, AttemptStarted))

    await events_until(site, begun)
    return job_id


async def test_job_is_moved_for_a_gang_that_wants_one_switch(tmp_path: Path) -> None:
    nodes = {"nodes": [{"name": "n0", "gpus": 4, "switches": 2}]}
    async with machine(tmp_path, cluster=nodes, policy=POLICY) as site:
        small = [await running(site) for _ in range(2)]
        masks = [site.state.jobs[each].allocation.shares[0].gpu_mask for each in small]
        assert [sum(bool(mask & group) for mask in masks) for group in SWITCHES] == [1, 1]
        await anyio.sleep(10 * COST_S)
        asks = program(
            GANG.format(name="CUDA_VISIBLE_DEVICES"),
            str(tmp_path / "devices"),
            gpus=2,
            max_level=Level.switch,
        )
        gang = await site.submit(asks, NOBODY)
        seen = await events_until(
            site, lambda seen: any(each.job_id == gang for each in of(seen, JobFinished))
        )
        left = {each: site.state.jobs[each].held.shares[0].gpu_mask for each in small}
    changes = of(seen, AllocationChanged)
    (move,) = [each for each in changes if each.because.rule == MAKE_ROOM]
    (start,) = [each for each in changes if each.because.rule == ROOM_MADE]
    assert move.job_id in small
    assert move.because.beneficiaries == (start.job_id,) == (gang,)
    assert start.allocation.shares[0].gpu_mask in SWITCHES
    devices = (tmp_path / "devices").read_text().split(",")
    assert sum(1 << int(device) for device in devices) == start.allocation.shares[0].gpu_mask
    # Both run on the other switch, the one that was moved in its second attempt.
    assert left[move.job_id] == move.allocation.shares[0].gpu_mask
    assert not any(mask & start.allocation.shares[0].gpu_mask for mask in left.values())
    attempts = [each.attempt for each in of(seen, AttemptStarted) if each.job_id == move.job_id]
    assert attempts == [1, 2]
    assert (await verified(tmp_path)).divergence is None
