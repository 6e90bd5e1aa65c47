"""What Slurm cuts off of a gang that is a job of its own is no part that ended well."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from shunter.events import AttemptLost, AttemptStarted
from tests.live.slurm.bench import SlurmBench
from tests.live.slurm.jobs import JobBench
from tests.live.slurm.pilots import ends_in, leaves
from tests.live.ssh.bench import WORKER, order, seen_until

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.live,
    pytest.mark.slurm,
    pytest.mark.xdist_group("slurm-jobs"),
]
FIRST_ENDS = 'import os, sys\nif os.environ["RANK"] == "0": sys.exit(0)\n' + WORKER


@pytest.fixture
def bench(slurm: SlurmBench, tmp_path: Path) -> Iterator[JobBench]:
    """A cluster, and a folder that is empty."""
    found = JobBench(slurm, tmp_path)
    yield found
    found.clean()


@pytest.mark.parametrize("source", [FIRST_ENDS, WORKER], ids=["first-has-ended", "first-saves"])
async def test_gang_that_loses_a_node_is_lost_and_neither_finished_nor_saved(
    bench: JobBench, source: str
) -> None:
    """Slurm ends the srun of a rank on a lost node with 0, as if its program had ended well."""
    whole = bench.launching("n1", "n2", work_s=600.0)
    command = (sys.executable, "-I", "-S", "-c", source, str(bench.folder), "600", "0")
    async with bench.jobs_opened() as backend:
        await order(backend, replace(whole, spec=replace(whole.spec, command=command)))
        await seen_until(backend, AttemptStarted)
        bench.slurm.wait_for(lambda: "j0.1.1" in bench.runs(), "the rank on the other node")
        bench.slurm.kill_slurmd("n2")
        bench.slurm.command("scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=power")
        (ended,) = ends_in(await leaves(backend))
        print(ended)
        bench.slurm.start_slurmd("n2")
    assert isinstance(ended, AttemptLost), ended
    assert ended.cause == "Slurm ended it: NODE_FAIL"
