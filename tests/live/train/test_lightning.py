"""The adapter for Lightning, with Lightning: suspended in mid-epoch, nothing is lost."""

from pathlib import Path

import pytest

from tests.live.train.attempts import attempts, undisturbed

pytestmark = [pytest.mark.live, pytest.mark.xdist_group("lightning")]

SCRIPT = """
import json, os, random, sys
import numpy as np
import torch
options = json.loads(sys.argv[1])
torch.set_num_threads(1)
torch.manual_seed(int(os.environ["SEED"]))
if options.get("package") == "pytorch_lightning":
    import pytorch_lightning as lightning
else:
    import lightning.pytorch as lightning
from torch.utils.data import DataLoader, Dataset

class Noisy(Dataset):
    def __len__(self):
        return 24
    def __getitem__(self, index):
        return torch.full((8,), index / 24) + 0.1 * torch.randn(8)

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.Dropout(0.3), torch.nn.Linear(16, 1))
        self.average = torch.nn.Linear(8, 16)
        self.register_buffer("table", torch.zeros(options.get("megabytes", 0) * 250_000))
    def on_train_start(self):
        torch.randn(3)  # whatever a script draws before its first batch
    def on_train_epoch_start(self):
        torch.randn(int(self.current_epoch) + 1)
    def training_step(self, batch, index):
        loss = (self.layers(batch) - batch.sum(1, keepdim=True)).square().mean()
        self.seen = index
        self.loss = loss
        return loss
    def on_train_batch_end(self, outputs, batch, index):
        with torch.no_grad():  # an average of weights, after the callbacks
            self.average.weight.lerp_(self.layers[0].weight, 0.1)
        said = [self.current_epoch, index, self.loss.item().hex(),
                self.average.weight.sum().item().hex()]
        step = self.current_epoch * len(self.trainer.train_dataloader) + index + 1
        print("step", step, *said, flush=True)
        if step == int(os.environ["STOP_AT"]):
            open(os.environ["SHUNTER_SUSPEND"], "w").close()
    def validation_step(self, batch, index):
        loss = (self.layers(batch) - 1 + torch.randn(1)).square().mean()
        self.log("validated", loss)
    def on_validation_epoch_end(self):
        if not self.trainer.sanity_checking:
            value = self.trainer.callback_metrics["validated"].item().hex()
            print("step validated", self.current_epoch, value, flush=True)
    def on_train_epoch_end(self):
        print("step epoch", self.current_epoch, flush=True)
    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-2)
        return [optimizer], [
            torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: np.cos(step / 9))]

workers = options.get("workers", 0)
def loader(shuffle):
    return DataLoader(Noisy(), batch_size=4, shuffle=shuffle, num_workers=workers)
callbacks, resume_path = [], None
if "SHUNTER_CHANNEL" in os.environ:
    from shunter.train.adapters.lightning import suspension
    callback = suspension()
    callbacks, resume_path = [callback], callback.resume_path
torch.manual_seed(3 if resume_path is None else int(os.environ["SEED"]))
plugins = []
if options.get("megabytes"):
    from lightning.pytorch.plugins.io import AsyncCheckpointIO
    plugins = [AsyncCheckpointIO()]
trainer = lightning.Trainer(plugins=plugins,
    max_epochs=3, accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False, callbacks=callbacks,
    **options.get("trainer", {}))
trainer.fit(Model(), loader(True), loader(False), ckpt_path=resume_path)
"""


@pytest.mark.parametrize(
    ("options", "stops"),
    [
        ("{}", (2, 5, 9)),  # the second at the end of an epoch, before its evaluation
        pytest.param(
            '{"package": "pytorch_lightning", "workers": 2}', (9,), marks=pytest.mark.thorough
        ),
        ('{"megabytes": 120}', (4,)),  # written by a thread of Lightning
        ('{"trainer": {"accumulate_grad_batches": 2, "val_check_interval": 3}}', (3, 8)),
    ],
)
def test_losses_order_and_evaluations_are_those_of_an_undisturbed_run(
    tmp_path: Path, options: str, stops: tuple[int, ...]
) -> None:
    library = "pytorch_lightning" if "pytorch_lightning" in options else "lightning.pytorch"
    expected = undisturbed(tmp_path / "whole", library, SCRIPT, options)
    found = attempts(tmp_path / "cut", library, SCRIPT, options, stops=stops)
    assert len([line for line in expected if line.split()[1].isdigit()]) == 18
    assert found == expected
