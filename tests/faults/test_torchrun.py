"""torchrun under the real supervisor: a launcher between us and the ranks hides their codes."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from shunter.backends.live import LocalBackend
from shunter.core import AttemptExited, Launch, Resume, SuspendAttempt
from shunter.events import (
    Allocation,
    CheckpointSaved,
    GpusReleased,
    JobSpec,
    JobSuspended,
    NodeName,
    Share,
    SuspendEscalated,
)
from tests.faults.test_local_backend import J0, order, seen_until
from tests.faults.test_local_faults import machine, output, shows

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.live,
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None,
        reason="torch is not installed: make live does it",
    ),
]

ROOT = Path(__file__).resolve().parents[2]
TORCHRUN = """
exec "$0" -m torch.distributed.run --nnodes "$WORLD_SIZE" --node-rank "$RANK" --nproc-per-node 2 \
    --master-addr "$MASTER_ADDR" --master-port "$MASTER_PORT" "$@"
"""
TRAINS = f"""
import os, sys, time
sys.path.insert(0, {str(ROOT)!r})
from shunter import train
import torch
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
torch.manual_seed(3)
model = torch.nn.parallel.DistributedDataParallel(
    torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.1), torch.nn.Linear(16, 1)))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
data = torch.arange(8 * 64, dtype=torch.float32).reshape(64, 8) / 512
torch.manual_seed(100 + rank)
run = train.start(model=model, optimizer=optimizer, replicated=("model", "optimizer"))
for step in range(run.steps_done, 60):
    loss = (model(data[rank::2]) - 1).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    if rank == 0: print(step + 1, loss.item().hex(), flush=True)
    time.sleep(0.02)
    run.step()
run.finish()
torch.distributed.destroy_process_group()
os._exit(0)  # a thread of gloo may abort an interpreter that ends (PyTorch 2.13)
"""
BOTH = Allocation((Share(NodeName("n0"), 0b11),))


def spec(root: Path) -> JobSpec:
    script = root / "train.py"
    script.write_text(TRAINS)
    return JobSpec(2, command=("/bin/sh", "-c", TORCHRUN, sys.executable, str(script)))


async def ended(backend: LocalBackend) -> int | None:
    exited = (await seen_until(backend, AttemptExited))[-1]
    assert isinstance(exited, AttemptExited)
    return exited.exit_code


def losses(root: Path, attempt: int) -> list[str]:
    return output(root, attempt=attempt).read_text().splitlines()


@pytest.mark.long
@pytest.mark.rotating(among="elastic training")
async def test_ranks_below_torchrun_save_together_and_go_on_with_the_same_losses(
    tmp_path: Path,
) -> None:
    """Goal: a suspension that torchrun reports as a failure is none, and loses nothing."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for root in (whole, cut):
        root.mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    async with machine(whole, environment=environment) as backend:
        await order(backend, Launch(J0, 1, BOTH, spec(whole)))
        assert await ended(backend) == 0
    async with machine(cut, environment=environment, cooperative_s=60.0) as backend:
        await order(backend, Launch(J0, 1, BOTH, spec(cut)))
        await shows(output(cut), "\n10 ")
        await order(backend, SuspendAttempt(J0, 1))
        told = await seen_until(backend, GpusReleased)
        assert not [seen for seen in told if isinstance(seen, SuspendEscalated)]
        (suspended,) = [seen for seen in told if isinstance(seen, JobSuspended)]
        assert not suspended.lost_us
        (saved,) = [seen for seen in told if isinstance(seen, CheckpointSaved)]
        assert saved.step is not None
        assert len(losses(cut, 1)) == saved.step < 60
        await order(backend, Resume(J0, 2, BOTH, spec(cut)))
        assert await ended(backend) == 0
    assert losses(cut, 1) + losses(cut, 2) == losses(whole, 1)
