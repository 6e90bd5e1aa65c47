"""fastai: two fits, one cycle each, with dropout, noise and accumulated gradients.

Run it by `python examples/trainers/train_fastai.py`; with `noisy` its data set draws at random.
"""

import sys

import torch
from fastai.callback.core import Callback
from fastai.callback.schedule import Learner  # with fit_one_cycle
from fastai.callback.training import GradientAccumulation
from fastai.data.core import DataLoaders
from fastai.data.load import DataLoader
from fastai.losses import CrossEntropyLossFlat
from fastai.metrics import accuracy
from fastai.torch_core import set_seed
from torch import nn

from shunter.train import check
from shunter.train.adapters.fastai import suspension

IS_NOISY = "noisy" in sys.argv


class Noisy:
    def __len__(self):
        return 80

    def __getitem__(self, index):
        x = torch.linspace(0, index / 80, 6)
        return x + 0.1 * torch.randn(6) if IS_NOISY else x, index % 3


class Shows(Callback):
    def after_batch(self):
        if self.learn.training:
            epoch = self.learn.epoch + (100 if self.learn.n_epoch == 2 else 0)
            smooth = self.learn.recorder.smooth_loss.value
            rate = self.learn.opt.hypers[-1]["lr"]
            shown = {"batch": self.learn.xb[0], "loss": self.learn.loss, "smooth": smooth}
            check.saw(epoch, number=self.learn.iter, rate=rate, **shown)
        else:
            check.evaluating()


def main():
    torch.set_num_threads(1)
    set_seed(3)
    workers = 0 if IS_NOISY else check.workers(0)  # which draw other noise
    loaders = DataLoaders(
        DataLoader(Noisy(), bs=8, shuffle=True, num_workers=workers),
        DataLoader(Noisy(), bs=40, num_workers=0),
    )
    model = nn.Sequential(
        nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3)
    )
    learn = Learner(
        loaders,
        model,
        loss_func=CrossEntropyLossFlat(),
        metrics=accuracy,
        cbs=[Shows(), GradientAccumulation(16), suspension()],
    )
    learn.fit_one_cycle(1, 1e-2)
    learn.fit_one_cycle(2, 5e-3)


if __name__ == "__main__":
    main()
