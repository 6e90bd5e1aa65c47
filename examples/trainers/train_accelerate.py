"""Accelerate: a loop of the script's own, with an order that Accelerate seeds, and accumulation.

Run it by `python examples/trainers/train_accelerate.py`; with `noisy` its data set draws at random.
"""

import sys

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from torch import nn
from torch.utils.data import DataLoader, Dataset

from shunter.train import check
from shunter.train.adapters.accelerate import started

IS_NOISY = "noisy" in sys.argv


class Noisy(Dataset):
    def __len__(self):
        return 88

    def __getitem__(self, index):
        x = torch.linspace(0, index / 88, 6)
        return x + 0.1 * torch.randn(6) if IS_NOISY else x, index % 3


def main():
    torch.set_num_threads(1)
    torch.manual_seed(3)
    accelerator = Accelerator(
        cpu=True,
        gradient_accumulation_steps=2,
        dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True, data_seed=7),
    )
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=40)
    workers = 0 if IS_NOISY else check.workers(0)  # which draw other noise
    loader = DataLoader(Noisy(), 8, shuffle=True, num_workers=workers)
    validation = DataLoader(Noisy(), 44)
    model, optimizer, schedule, loader, validation = accelerator.prepare(
        model, optimizer, schedule, loader, validation
    )

    run = started(accelerator)
    for epoch in run.epochs(3):
        for x, y in run.batches(loader):
            with accelerator.accumulate(model):
                model.train()
                loss = nn.functional.cross_entropy(model(x + 0.1 * torch.randn_like(x)), y)
                accelerator.backward(loss)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            check.saw(epoch, batch=x, loss=loss)
            run.step()
        model.eval()
        for x, y in run.evaluate(validation):
            with torch.no_grad():
                accuracy = (model(x).argmax(-1) == y).float().mean()
        print(f"epoch {epoch}: accuracy {accuracy:.3f}", flush=True)


if __name__ == "__main__":
    main()
