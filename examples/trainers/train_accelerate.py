"""Accelerate: a loop of the script's own, with an order that Accelerate seeds, and accumulation.

python examples/trainers/train_accelerate.py
"""

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from shunter.train import check
from shunter.train.adapters.accelerate import started


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
    data = TensorDataset(torch.randn(88, 6), torch.arange(88) % 3)
    loader = DataLoader(data, 8, shuffle=True, num_workers=check.workers(0))
    validation = DataLoader(data, 44)
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
        print(f"epoch {epoch}: loss {loss:.6f}, accuracy {accuracy:.3f}", flush=True)


if __name__ == "__main__":
    main()
