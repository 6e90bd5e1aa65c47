"""pytorch-ignite: a trainer and an evaluator, with dropout, noise, a schedule and accumulation.

Run it by `python examples/trainers/train_ignite.py`; with `noisy` its data set draws at random.
"""

import sys

import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import EarlyStopping
from ignite.handlers.param_scheduler import LinearCyclicalScheduler
from ignite.metrics import Accuracy, Average
from torch import nn
from torch.utils.data import DataLoader, Dataset

from shunter.train import check
from shunter.train.adapters.ignite import suspension

EPOCHS, SAMPLES, BATCH, ACCUMULATED = 3, 96, 8, 2
IS_NOISY = "noisy" in sys.argv


class Noisy(Dataset):
    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        x = torch.linspace(0, index / SAMPLES, 6)
        return x + 0.1 * torch.randn(6) if IS_NOISY else x, index % 3


def main():
    torch.set_num_threads(1)
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    workers = 0 if IS_NOISY else check.workers(0)  # which draw other noise
    loader = DataLoader(Noisy(), BATCH, shuffle=True, num_workers=workers)
    validation = DataLoader(Noisy(), 24)

    trainer = create_supervised_trainer(
        model,
        optimizer,
        nn.CrossEntropyLoss(),
        gradient_accumulation_steps=ACCUMULATED,
        output_transform=lambda x, y, y_pred, loss: (x, loss.item()),
    )
    evaluator = create_supervised_evaluator(model, metrics={"accuracy": Accuracy()})
    scheduler = LinearCyclicalScheduler(optimizer, "lr", 1e-3, 1e-2, cycle_size=20)
    trainer.add_event_handler(Events.ITERATION_STARTED, scheduler)
    mean = Average(output_transform=lambda output: output[1])
    mean.attach(trainer, "loss")
    patience = EarlyStopping(9, lambda engine: engine.state.metrics["accuracy"], trainer)
    evaluator.add_event_handler(Events.COMPLETED, patience)
    evaluator.add_event_handler(Events.ITERATION_COMPLETED, check.evaluating)

    @trainer.on(Events.EPOCH_COMPLETED)
    def evaluate():
        evaluator.run(validation)
        accuracy = evaluator.state.metrics["accuracy"]
        loss = trainer.state.metrics["loss"]
        print(f"epoch {trainer.state.epoch}: loss {loss:.6f}, accuracy {accuracy:.3f}", flush=True)

    @trainer.on(Events.ITERATION_COMPLETED)
    def show():
        x, loss = trainer.state.output
        check.saw(trainer.state.epoch - 1, batch=x, loss=loss, mean=mean.compute())

    suspension(
        trainer,
        gradient_accumulation_steps=ACCUMULATED,
        model=model,
        optimizer=optimizer,
        scheduler=scheduler,
        mean=mean,
        patience=patience,
    )
    trainer.run(loader, max_epochs=EPOCHS)


if __name__ == "__main__":
    main()
