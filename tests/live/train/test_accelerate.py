"""The adapter for Accelerate, with accelerate: suspended in mid-epoch, nothing is lost."""

from pathlib import Path

import pytest

from tests.live.train.attempts import attempts, undisturbed

pytestmark = [pytest.mark.live, pytest.mark.xdist_group("accelerate")]

LIBRARY = "accelerate"
SCRIPT = """
import json, os, sys
import numpy as np
import torch
from accelerate import Accelerator, DataLoaderConfiguration
from torch.utils.data import DataLoader, Dataset
from shunter.train.adapters.accelerate import started
options = json.loads(sys.argv[1])
torch.set_num_threads(1)

class Noisy(Dataset):
    def __len__(self):
        return 24
    def __getitem__(self, index):
        # By chance, and Accelerate fetches one batch ahead.
        return torch.full((8,), index / 24) + 0.1 * torch.randn(8)

torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.3), torch.nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: np.cos(step / 9))
loader = DataLoader(Noisy(), batch_size=4, shuffle=True, num_workers=options["workers"])
accelerator = Accelerator(
    cpu=True, gradient_accumulation_steps=options["accumulate"],
    dataloader_config=DataLoaderConfiguration(use_seedable_sampler=options["seedable"]))
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
if int(os.environ["SEED"]) > 1:
    torch.manual_seed(int(os.environ["SEED"]))
run = started(accelerator)
for epoch in run.epochs(3):
    for batch in run.batches(loader):
        with accelerator.accumulate(model):
            loss = (model(batch) - batch.sum(1, keepdim=True)).square().mean()
            accelerator.backward(loss)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        print("step", run.steps_done + 1, epoch, loss.item().hex(), flush=True)
        if run.steps_done + 1 == int(os.environ["STOP_AT"]):
            open(os.environ["SHUNTER_SUSPEND"], "w").close()
        run.step()
"""


@pytest.mark.rotating("options", "stops")
@pytest.mark.parametrize(
    ("options", "stops"),
    [
        ('{"workers": 0, "accumulate": 1, "seedable": false}', (2, 6, 9)),
        ('{"workers": 2, "accumulate": 2, "seedable": true}', (3, 9)),
    ],
)
def test_losses_and_order_are_those_of_an_undisturbed_run(
    tmp_path: Path, options: str, stops: tuple[int, ...]
) -> None:
    expected = undisturbed(tmp_path / "whole", LIBRARY, SCRIPT, options)
    found = attempts(tmp_path / "cut", LIBRARY, SCRIPT, options, stops=stops)
    assert len(expected) == 18
    assert found == expected
