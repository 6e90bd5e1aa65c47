"""Elastic jobs on a real Slurm cluster: in pilots, and with a Slurm job for each attempt."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from shunter.core import JobPhase
from tests.live.site.sites import NOBODY
from tests.live.slurm.bench import SlurmBench
from tests.live.slurm.pilots import PilotBench
from tests.live.slurm.site import assert_all_well, job_of, served, until, worker

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


@pytest.mark.parametrize("mode", ["pilot", "per-job"])
async def test_resized_job_goes_on_with_as_many_gpus_and_does_its_work_once(
    bench: PilotBench, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    async with served(bench, monkeypatch, "n1", mode=mode) as site:
        elastic = worker(bench, "elastic", 0.1, code=-1, gpus=1, gpus_max=3)
        job_id = await site.submit(elastic, NOBODY)
        await until(site, lambda: job_of(site, job_id).phase is JobPhase.running, "one GPU")
        await until(site, lambda: any(line[4] == "begun" for line in bench.ledger()), "it works")
        await site.tell(site.commands.resize(job_id, 3, NOBODY))
        await until(site, lambda: job_id not in site.state.jobs, "the end with three")
    told = [(line[1], line[4]) for line in bench.ledger()]
    assert told == [
        *(("1", word) for word in ("begun", "saved")),
        *(("2", word) for word in ("begun", "resumed", "done")),
    ]
    await assert_all_well(bench)
