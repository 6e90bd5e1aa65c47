"""CPU servers as accelerators with real processes: a job that accepts both runs on either.

Goal: on a unit a job sees no GPU, is bound to the CPUs of its units, and trains on "cpu" by the
SDK; on a GPU it trains on "cuda". Where nobody names a type, the table of throughputs decides.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from shunter.daemon import Submission
from shunter.errors import RefusedError
from shunter.events import AllocationChanged, GpuType, JobFinished, JobSpec
from tests.live.site.sites import NOBODY, events_until, machine, of, verified

pytestmark = [pytest.mark.asyncio, pytest.mark.live]

PROJECT = Path(__file__).parents[3]
TELLS = f"""
import json, os, sys, time
sys.path.insert(0, {str(PROJECT)!r})
from shunter import train
said = [train.device(), os.environ["CUDA_VISIBLE_DEVICES"], sorted(os.sched_getaffinity(0))]
open(sys.argv[1], "w").write(json.dumps(said))
while not all(map(os.path.exists, sys.argv[1:])):
    time.sleep(0.01)
"""
RATES = {
    "v100": {"('calm', 1)": {"null": 2.0}, "('keen', 1)": {"null": 9.0}},
    "cpu": {"('calm', 1)": {"null": 1.9}},
}
CPUS = sorted(os.sched_getaffinity(0))
NODES = [
    {"name": "g", "gpus": 1, "type": "v100"},
    {"name": "c", "gpus": 0, "units": 2, "type": "cpu", "cpus": 2},
]
POLICY = {"name": "max_sum_throughput", "trigger": "round", "round": "200ms"}


def telling(file: Path, model: str, *others: Path, **fields: Any) -> Submission:
    """Return a job that writes what it was given, and ends once others have too."""
    command = (sys.executable, "-I", "-S", "-c", TELLS, *map(str, (file, *others)))
    return Submission(JobSpec(command=command, model=model, **fields))


def told_in(file: Path) -> tuple[str, str, set[int]]:
    device, visible, cpus = json.loads(file.read_text())
    return device, visible, set(cpus)


@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs, one for each unit")
async def test_jobs_that_accept_both_run_on_either(tmp_path: Path) -> None:
    """Together they are fastest with the one that needs it on the GPU."""
    (tmp_path / "rates.json").write_text(json.dumps(RATES))
    workload = {"throughputs": str(tmp_path / "rates.json")}
    files = [tmp_path / name for name in ("keen", "calm", "calm too", "later")]
    cluster = {"nodes": NODES}
    async with machine(tmp_path, cluster=cluster, workload=workload, policy=POLICY) as site:
        jobs = [telling(file, file.name.split()[0], *files[:3]) for file in files[:3]]
        ids = await site.submit_together(jobs, NOBODY)
        events = await events_until(site, lambda seen: len(of(seen, JobFinished)) == 3)
        either = (GpuType("cpu"), GpuType("v100"))
        later = await site.submit(telling(files[3], "calm", gpu_types=either), NOBODY)
        events += await events_until(site, lambda seen: bool(of(seen, JobFinished)), site.committed)
        with pytest.raises(RefusedError, match="no node has GPUs of type arm"):
            await site.submit(telling(files[3], "calm", gpu_types=(GpuType("arm"),)), NOBODY)

    starts = {each.job_id: each.allocation for each in of(events, AllocationChanged)}
    assert [starts[job].shares[0].node for job in ids] == ["g", "c", "c"]
    assert [starts[job].shares[0].cpus_milli for job in (*ids, later)] == [0, 1000, 1000, 0]
    told = [told_in(file) for file in files]
    assert [each[:2] for each in told] == [("cuda", "0"), ("cpu", ""), ("cpu", ""), ("cuda", "0")]
    assert told[0][2] == set(CPUS)
    assert len(told[1][2]) == len(told[2][2]) == 1
    assert told[1][2] != told[2][2]
    assert (await verified(tmp_path)).divergence is None
