"""skorch: a classifier that splits its data by chance, with dropout, a schedule and accumulation.

Run it by `python examples/trainers/train_skorch.py`.
"""

import numpy as np
import torch
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback, EarlyStopping, EpochScoring, LRScheduler
from skorch.dataset import ValidSplit
from torch import nn

from shunter.train import check
from shunter.train.adapters.skorch import suspension

ACCUMULATED = 2


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3)
        )

    def forward(self, x):
        return self.layers(x + 0.1 * torch.randn_like(x) if self.training else x).softmax(-1)


class Accumulating(NeuralNetClassifier):
    """Adds up the gradients of some mini-batches."""

    trained = 0

    def train_step_single(self, batch, **options):
        step = super().train_step_single(batch, **options)
        self.trained += 1
        return step

    def train_step(self, batch, **options):
        if self.trained % ACCUMULATED == 0:
            self.optimizer_.zero_grad()
        step = self.train_step_single(batch, **options)
        if self.trained % ACCUMULATED == 0:
            self.optimizer_.step()
        return step


class Shows(Callback):
    def on_batch_end(self, net, batch=None, training=False, loss=None, **more):
        if training:
            check.saw(len(net.history) - 1, batch=batch[0], loss=loss.item())
        else:
            check.evaluating()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(3)
    np.random.seed(3)
    x = np.random.randn(120, 6).astype("float32")
    y = (x.sum(1) > 0).astype("int64") + (x[:, 0] > 1)
    net = Accumulating(
        Module,
        optimizer=torch.optim.AdamW,
        lr=1e-2,
        max_epochs=3,
        batch_size=8,
        iterator_train__shuffle=True,
        iterator_train__num_workers=check.workers(0),
        train_split=ValidSplit(0.2, stratified=False),
        callbacks=[
            ("shows", Shows()),
            ("train_acc", EpochScoring("accuracy", on_train=True, lower_is_better=False)),
            ("rate", LRScheduler("StepLR", step_size=7, gamma=0.8, step_every="batch")),
            ("patience", EarlyStopping(patience=9)),
            ("suspension", suspension(is_whole=lambda: net.trained % ACCUMULATED == 0)),
        ],
    )
    net.fit(x, y)


if __name__ == "__main__":
    main()
