"""Policies that want run times, on a cluster where nobody declares any."""

from pathlib import Path

import pytest

from shunter.events import AllocationChanged, GpusReleased, ProfileSampled
from tests.live.site.sites import NOBODY, events_until, machine, of, outcome, program, verified

pytestmark = [pytest.mark.asyncio, pytest.mark.live]

SECOND_US = 1_000_000
# Trains at a twentieth of a second a step, and says so; leaves when it is asked to.
TRAINS = """
import json, os, time
channel = os.open(os.environ["SHUNTER_CHANNEL"], os.O_WRONLY | os.O_NONBLOCK)
step = 0
while not os.path.exists(os.environ["SHUNTER_SUSPEND"]):
    time.sleep(0.05)
    step += 1
    told = {"what": "progress", "rank": 0, "step": step, "batch_s": 0.05}
    os.write(channel, json.dumps(told).encode() + b"\\n")
os._exit(75)
"""


@pytest.mark.parametrize("policy", ["srtf", "shortest_gpu"])
async def test_job_that_turns_out_to_be_long_makes_room_for_a_shorter_one(
    tmp_path: Path, policy: str
) -> None:
    """Goal: samples count. Method: by its limit it is the shorter one, by its pace the longer."""
    changes = {
        "cluster": {"nodes": [{"name": "n0", "gpus": 1}]},
        "policy": {"name": policy, "trigger": "event"},
        "backend": {"kind": "local", "local": {"root": str(tmp_path / "attempts"), "sample": 0.5}},
    }
    long = program(TRAINS, total_steps=10_000, time_limit_us=100 * SECOND_US)
    short = program("pass", time_limit_us=200 * SECOND_US)
    async with machine(tmp_path, **changes) as site:
        first = await site.submit(long, NOBODY)
        second = await site.submit(short, NOBODY)
        assert site.state.jobs[second].attempt == 0
        assert await outcome(site, second) == "finished"
        seen = await events_until(site, lambda seen: bool(of(seen, GpusReleased)))
        await site.tell(site.commands.cancel(first, NOBODY))
    kinds = [type(event) for event in seen if getattr(event, "job_id", None) == first]
    left = [one for one in of(seen, AllocationChanged) if one.job_id == first][-1]
    assert left.because.rule == "outranked"
    assert left.because.beneficiaries == (second,)
    assert kinds.index(ProfileSampled) < kinds.index(GpusReleased)
    assert (await verified(tmp_path)).divergence is None
