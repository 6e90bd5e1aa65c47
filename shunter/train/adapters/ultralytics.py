"""Ultralytics: `suspension(model)` before `model.train(...)`; a run leaves at the end of an epoch.

Its own checkpoint has the weights of the moving average in half precision, and no random state: a
run that `resume=True` takes up trains with other numbers. Here all that decides what comes next is
saved as it is: parameters and their moving average, the optimizer, gradients that wait for others,
the order of the data, what mosaics draw from, and chance. In mid-epoch nothing is saved: what the
loop counts there lies in its local variables.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shunter.train import serialization, state
from shunter.train.adapters.attributes import data_of
from shunter.train.adapters.between_batches import Boundary
from shunter.train.run import start

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FILE = "ultralytics.state"
WEIGHTS, RESULTS = ("last.pt", "best.pt"), "results.csv"
UNCHECKED = (
    "the adapter for Ultralytics is not checked to be exact: a resumed run may have other bits"
)
WORKERS = (
    "workers of an Ultralytics loader outlive an epoch: after a resume what they draw (mosaics, "
    "flips, colours) is not what an undisturbed run draws; `workers=0` is exact"
)


def suspension(model: Any, **options: Any) -> None:
    """Have what a model trains resumed, and left at the end of an epoch when Shunter asks.

    Args:
        model: of Ultralytics, before its `train` is called.
        options: as of `shunter.train.start`, but for `save`, `prove` and `load`.
    """
    training = _Training(options)
    callbacks: dict[str, Callable[[Any], None]] = {
        "on_pretrain_routine_end": training.begin,
        "on_train_epoch_start": training.begin_epoch,
        "on_train_batch_end": training.pass_batch,
        "on_fit_epoch_end": training.end_epoch,
    }
    for event, callback in callbacks.items():
        model.add_callback(event, callback)


class _Training:
    """What a trainer trains."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._trainer: Any = None
        self._rest: dict[str, Any] = {}
        self._batch = 0  # of the epoch
        self._stepped_at = -1  # the batch of the run at which the optimizer stepped last
        self._step: Callable[[], None] | None = None

    def begin(self, trainer: Any) -> None:
        """Begin or resume a run: the trainer has built all, and trained nothing.

        Raises:
            RuntimeError: it trains with several processes.
        """
        import ultralytics

        if getattr(trainer, "world_size", 0) > 1:
            raise RuntimeError("shunter: Ultralytics over several GPUs cannot be suspended yet")
        self._trainer = trainer
        self.run = start(
            save=self._save,
            prove=self._read,
            load=self._load,
            is_whole=self._is_last,
            made_with={"ultralytics": ultralytics.__version__},
            **self._options,
        )
        self.run.observed = self._observed
        self.run.warn(UNCHECKED)
        if trainer.train_loader.num_workers:
            self.run.warn(WORKERS)
        self.boundary = Boundary(self.run)
        # The trainer steps by a count of its own, which begins anew; ours goes on.
        self._step, trainer.optimizer_step = trainer.optimizer_step, _does_nothing
        if self._rest:
            trainer.start_epoch = self._rest["epoch"] + 1
            trainer.scheduler.last_epoch = trainer.start_epoch - 1

    def begin_epoch(self, trainer: Any) -> None:
        """Put back what would change until here, where a resumed run has its first epoch."""
        self._batch = 0
        self.run.epoch = trainer.epoch
        loader = trainer.train_loader
        rest, self._rest = self._rest, {}
        _begin_pass(loader, rest.get("order"))
        if not rest:
            return
        named = dict(trainer.model.named_parameters())
        for name, gradient in rest["gradients"].items():
            named[name].grad = gradient.to(named[name].device)
        closes_at = trainer.epochs - trainer.args.close_mosaic if trainer.args.close_mosaic else -1
        if 0 <= closes_at < trainer.epoch:  # here it makes its iterator anew; long ago, there
            loader.reset = lambda: _begin_pass(loader, rest["order"])
        dataset = loader.dataset
        if rest["buffer"] is not None:
            for index in rest["buffer"]:
                dataset.load_image(index)
            dataset.buffer[:] = rest["buffer"]
        state.set_chance(rest["chance"])

    def pass_batch(self, trainer: Any) -> None:
        """Step if enough gradients are there, and count the batch."""
        number = self._batch + len(trainer.train_loader) * trainer.epoch
        self._batch += 1
        if number - self._stepped_at >= trainer.accumulate and self._step is not None:
            self._step()
            self._stepped_at = number
        self.boundary.passed()

    def end_epoch(self, trainer: Any) -> None:
        """Leave if that is asked; after the last epoch there is nothing to go on with."""
        if not trainer.stop:
            self.boundary.act()

    def _is_last(self) -> bool:
        """Say whether an epoch is over, after which there are others."""
        trainer = self._trainer
        return self._batch == len(trainer.train_loader) and trainer.epoch + 1 < trainer.epochs

    def _observed(self) -> dict[str, object]:
        trainer = self._trainer
        return {
            "parameters": trainer.model.state_dict(),
            "average": trainer.ema.ema.state_dict(),
            "optimizer": trainer.optimizer.state_dict(),
        }

    def _captured(self) -> dict[str, Any]:
        trainer = self._trainer
        loader, criterion = trainer.train_loader, getattr(trainer.model, "criterion", None)
        named = trainer.model.named_parameters()
        return {
            "epoch": trainer.epoch,
            "stepped_at": self._stepped_at,
            "model": trainer.model.state_dict(),
            "average": trainer.ema.ema.state_dict(),
            "updates": trainer.ema.updates,
            "optimizer": trainer.optimizer.state_dict(),
            "scaler": trainer.scaler.state_dict(),
            "gradients": {name: each.grad for name, each in named if each.grad is not None},
            "fitness": [trainer.best_fitness, trainer.fitness],
            "metrics": {name: float(value) for name, value in trainer.metrics.items()},
            "stopper": data_of(trainer.stopper),
            "criterion": {} if criterion is None else _numbers_of(criterion),
            "order": loader.generator.get_state(),
            "buffer": list(loader.dataset.buffer) if hasattr(loader.dataset, "buffer") else None,
            "chance": state.chance(),
        }

    def _save(self, folder: Path) -> None:
        trainer = self._trainer
        serialization.write(folder / FILE, self._captured())
        for name in WEIGHTS:  # the next attempt may run on another server
            if (trainer.wdir / name).exists():
                shutil.copyfile(trainer.wdir / name, folder / name)
        if trainer.csv.exists():
            shutil.copyfile(trainer.csv, folder / RESULTS)

    def _read(self, folder: Path) -> Any:
        return serialization.read(folder / FILE)

    def _load(self, folder: Path) -> None:
        trainer, saved = self._trainer, self._read(folder)
        self._rest, self._stepped_at = saved, saved["stepped_at"]
        trainer.model.load_state_dict(saved["model"])
        trainer.ema.ema.load_state_dict(saved["average"])
        trainer.ema.updates = saved["updates"]
        trainer.optimizer.load_state_dict(saved["optimizer"])
        trainer.scaler.load_state_dict(saved["scaler"])
        trainer.best_fitness, trainer.fitness = saved["fitness"]
        trainer.metrics = saved["metrics"]
        vars(trainer.stopper).update(saved["stopper"])
        if saved["criterion"]:
            trainer.model.criterion = trainer.model.init_criterion()
            vars(trainer.model.criterion).update(saved["criterion"])
        trainer.wdir.mkdir(parents=True, exist_ok=True)
        for path in sorted(folder.iterdir()):
            if path.name in WEIGHTS:
                shutil.copyfile(path, trainer.wdir / path.name)
            elif path.name == RESULTS:
                shutil.copyfile(path, trainer.csv)


def _does_nothing() -> None:
    """Be the optimizer's step of a trainer, which we take."""


def _begin_pass(loader: Any, order: Any = None) -> None:
    """Begin a pass over the data with a sampler that has drawn nothing of it.

    The iterator of this loader never ends, and a sampler draws once more as one pass ends and the
    next begins: which a new process could not repeat.

    Args:
        loader: whose workers, if it has any, have been given the next pass already.
        order: the state of its generator, where the pass begins; None: as it is.
    """
    if loader.iterator is None or order is not None:
        loader.close()
        loader.iterator = loader._get_iterator()  # noqa: SLF001  it draws a seed for workers
    if order is not None:
        loader.generator.set_state(order)
    if not loader.num_workers:
        iterator = loader.iterator
        iterator._sampler_iter = iter(iterator._index_sampler)  # noqa: SLF001  as above


def _numbers_of(holder: object) -> dict[str, Any]:
    numbers = (bool, int, float, *_of_numpy())
    return {name: value for name, value in vars(holder).items() if isinstance(value, numbers)}


def _of_numpy() -> tuple[type, ...]:
    numpy: Any = sys.modules.get("numpy")
    return () if numpy is None else (numpy.generic,)
