"""Real PyTorch on the CPU, which `make live` installs; skipped where it is absent."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: make live does it")

from shunter.train import channel
from tests.unit.train.toy import Supervisor

pytestmark = pytest.mark.live

MODEL = """
import json, os, sys
from shunter import train
import torch
torch.manual_seed(int(sys.argv[2])); torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Dropout(0.2), torch.nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 7)
order = torch.Generator().manual_seed(5)
data = torch.arange(16 * 60, dtype=torch.float32).reshape(60, 16) / 960
loader = torch.utils.data.DataLoader(
    data, batch_size=6, shuffle=True, generator=None if sys.argv[3] == "global" else order)
"""
SCRIPT = (
    MODEL
    + """
run = train.start(model=model, optimizer=optimizer, schedule=schedule)
stop_at = int(sys.argv[1])
for epoch in run.epochs(3):
    for batch in run.batches(loader):
        loss = (model(batch) - batch.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step(); schedule.step()
        print(json.dumps([run.steps_done + 1, loss.item().hex()]), flush=True)
        if run.steps_done + 1 == stop_at:
            open(os.environ["SHUNTER_SUSPEND"], "w").close()
        run.step()
"""
)
DISTRIBUTED = (
    MODEL
    + """
rank = int(os.environ["RANK"])
torch.distributed.init_process_group(
    "gloo", init_method="file://" + os.environ["MEETING"], rank=rank, world_size=2)
model = torch.nn.parallel.DistributedDataParallel(model)
run = train.start(model=model, optimizer=optimizer, replicated=("model", "optimizer"))
for step in range(10**6):
    loss = model(data[rank::2]).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    if rank == 1 and step == 20:
        open(os.environ["SHUNTER_SUSPEND"], "w").close()
    run.step()
"""
)


def environment(supervisor: Supervisor, folder: Path, attempt: int) -> dict[str, str]:
    named = supervisor.environment(folder / "checkpoints")
    return {**os.environ, **named, channel.ATTEMPT: str(attempt)}


def run_to(folder: Path, attempt: int, stop_at: int, kind: str, code: int) -> list[str]:
    # Another seed for each attempt: nothing but the checkpoint may carry chance over.
    folder.mkdir(exist_ok=True)
    with Supervisor(folder / str(attempt)) as supervisor:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(stop_at), str(attempt), kind],
            env=environment(supervisor, folder, attempt),
            check=False,
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[3],
        )
    assert done.returncode == code, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("kind", ["global", "own"])
def test_resumed_losses_of_torch_are_bit_identical(tmp_path: Path, kind: str) -> None:
    expected = run_to(tmp_path / "whole", 1, -1, kind, 0)
    found = []
    for attempt, stop_at in enumerate([4, 10, 17, 28], start=1):
        found += run_to(tmp_path / "cut", attempt, stop_at, kind, channel.EXIT_SUSPENDED)
    found += run_to(tmp_path / "cut", 5, -1, kind, 0)
    assert [json.loads(line)[0] for line in found] == list(range(1, 31))
    assert found == expected


def test_ranks_of_torch_distributed_stop_at_one_step(tmp_path: Path) -> None:
    meeting = {"MEETING": str(tmp_path / "meeting"), "WORLD_SIZE": "2"}
    with Supervisor(tmp_path / "attempt") as supervisor:
        shared = environment(supervisor, tmp_path, 1)
        ranks = [
            subprocess.Popen(
                [sys.executable, "-c", DISTRIBUTED, "0", "1", "own"],
                env={**shared, **meeting, "RANK": str(rank)},
                cwd=Path(__file__).parents[3],
            )
            for rank in range(2)
        ]
        assert [rank.wait(120) for rank in ranks] == [channel.EXIT_SUSPENDED] * 2
        (saved,) = supervisor.told("saved")
    assert saved["step"] == 22
    first, second = (Path(saved["checkpoint"]) / f"rank-{rank}.state" for rank in (0, 1))
    assert second.stat().st_size < first.stat().st_size  # rank 0 alone saved model and optimizer
