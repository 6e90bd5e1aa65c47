"""Lightning: a module and a plain loader, with dropout, a schedule and accumulated gradients.

Run it by `python examples/trainers/train_lightning.py`; with `noisy` its data set draws at random.
"""

import logging
import sys
import warnings

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from shunter.train import check
from shunter.train.adapters.lightning import suspension

IS_NOISY = "noisy" in sys.argv


class Noisy(Dataset):
    def __len__(self):
        return 88

    def __getitem__(self, index):
        x = torch.linspace(0, index / 88, 6)
        return x + 0.1 * torch.randn(6) if IS_NOISY else x, index % 3


class Shows(lightning.Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        x, loss = module.shown
        check.saw(trainer.current_epoch, batch=x, loss=loss)


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3)
        )

    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.cross_entropy(self.layers(x), y)
        self.shown = (x, loss.detach())
        return loss

    def validation_step(self, batch, index):
        check.evaluating()
        x, y = batch
        self.log("validation", nn.functional.cross_entropy(self.layers(x), y))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


def main():
    torch.set_num_threads(1)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=UserWarning)
    lightning.seed_everything(3, verbose=False)
    callback = suspension()
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=3,
        accumulate_grad_batches=2,
        callbacks=[Shows(), callback],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    workers = 0 if IS_NOISY else check.workers(0)  # which draw other noise
    loader = DataLoader(Noisy(), 8, shuffle=True, num_workers=workers)
    model = Module()
    trainer.fit(model, loader, DataLoader(Noisy(), 44), ckpt_path=callback.resume_path)


if __name__ == "__main__":
    main()
