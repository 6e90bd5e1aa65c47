"""Lightning: `callback = suspension()`, `Trainer(callbacks=[callback])`, and `.resume_path`.

    trainer.fit(model, data, ckpt_path=callback.resume_path)

Lightning writes its own file (model, optimizers, loops) into our checkpoint folder. Neither order
nor chance is in it: we wrap the loaders it trains from, so that their positions and all chance are
saved, and save where the next batch is asked for. There all hooks of the last batch and an
evaluation that was due are done, and nothing has been drawn for the next one.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any, Protocol

from shunter.train import serialization
from shunter.train.adapters.between_batches import WatchedLoader
from shunter.train.run import start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from shunter.train.batches import Batches
    from shunter.train.run import Run

    class Strategy(Protocol):
        """How a Lightning trainer runs: here, how it makes loaders ready."""

        process_dataloader: Callable[[Iterable[object]], Iterable[object]]

    class Trainer(Protocol):
        """What of Lightning's trainer is read here."""

        strategy: Strategy
        training: bool
        current_epoch: int


FILE = "lightning.ckpt"
PACKAGES = ("lightning.pytorch", "pytorch_lightning")


def suspension(*, weights_only: bool = True, **options: Any) -> Any:
    """Return a callback that saves with Lightning and leaves when Shunter asks.

    Args:
        weights_only: False where `trainer.fit` gets it too, for objects of the script's own.
        options: as of `shunter.train.start`, but for `save` and `prove`.
    """
    package = _package()

    class Suspension(_Suspension, package.Callback):  # type: ignore[misc, name-defined]  # is Any
        """What is below, as one of that Lightning's callbacks."""

    options["made_with"] = {"lightning": str(getattr(package, "__version__", ""))}
    return Suspension(options, weights_only=weights_only)


class _Suspension:
    """Counts training batches; saves between two of them."""

    def __init__(self, options: Mapping[str, Any], *, weights_only: bool) -> None:
        serialization.allow_numbers()
        self._weights_only = weights_only
        self.trainer: Any = None  # a Trainer, once Lightning has called `setup`
        self.run: Run = start(save=self._save, prove=self._prove, **options)
        folder = self.run.resumed_from
        self.resume_path = str(folder / FILE) if folder else None
        self._is_asked = False
        self._is_saving_due = False
        self._trained = 0
        self._logged: int | None = None
        self._loaders = _Loaders(self.run, self.before_batch)
        self.run.is_whole = self._is_whole

    def setup(self, trainer: Trainer, module: object, stage: str) -> None:
        """Wrap what it trains from, once Lightning has made that ready."""
        del module
        self.trainer = trainer
        self.run.observed = self._observed
        if stage == "fit":
            self._loaders.watch(trainer)

    def teardown(self, trainer: Trainer, module: object, stage: str) -> None:
        """Leave the trainer as it was."""
        del module
        if stage == "fit":
            self._loaders.leave(trainer)

    def on_train_batch_end(
        self,
        trainer: Trainer,
        module: object,
        outputs: object,
        batch: object,
        batch_idx: int,
        *_: object,
    ) -> None:
        """Tell the mini-batch, and hear whether to save before the next one."""
        del module, outputs, batch
        self._trained = batch_idx + 1
        self._is_asked = self.run.boundary() or self._is_asked
        self._is_saving_due = self.run.is_saving_due()

    def on_fit_end(self, trainer: Trainer, module: object) -> None:
        """Tell that the training has come to its end."""
        del trainer, module
        self.run.completed()

    def before_batch(self) -> None:
        """Save and leave if asked; nothing of the next batch has happened yet."""
        if self._logged is not None:
            self._epoch_loop()._batches_that_stepped = self._logged  # noqa: SLF001  see there
            self._logged = None
        is_asked, self._is_asked = self._is_asked, False
        is_saving_due, self._is_saving_due = self._is_saving_due, False
        if is_asked or is_saving_due:
            self._loaders.mark(self._trained)
            self.run.suspend() if is_asked else self.run.save()

    def state_dict(self) -> dict[str, object]:
        """Return what Lightning keeps of us: the number of the step in its logs."""
        return {"logged": getattr(self._epoch_loop(), "_batches_that_stepped", None)}

    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        """Keep the step of the logs: Lightning counts it twice after an evaluation."""
        logged = state_dict.get("logged")
        self._logged = logged if isinstance(logged, int) else None

    def _observed(self) -> dict[str, object]:
        schedules = [each.scheduler for each in self.trainer.lr_scheduler_configs]
        return {
            "module": self.trainer.lightning_module,
            "optimizers": list(self.trainer.optimizers),
            "schedules": schedules,
        }

    def _epoch_loop(self) -> Any:
        return self.trainer.fit_loop.epoch_loop

    def _is_whole(self) -> bool:
        # The gradients of a part of them are in no checkpoint.
        is_last: bool = self.trainer.is_last_batch
        return is_last or self._trained % self.trainer.accumulate_grad_batches == 0

    def _save(self, folder: Path) -> None:
        # Lightning gathers the state on every rank and lets rank 0 write.
        self.trainer.save_checkpoint(str(folder / FILE))
        _finish_writing(self.trainer.strategy)

    def _prove(self, folder: Path) -> None:
        serialization.check_file(folder / FILE, weights_only=self._weights_only)


def _finish_writing(strategy: Strategy) -> None:
    """Wait for an AsyncCheckpointIO, which begins anew with its next checkpoint."""
    layer = getattr(strategy, "checkpoint_io", None)
    while layer is not None:
        if getattr(layer, "_executor", None) is not None:
            layer.teardown()
        layer = getattr(layer, "checkpoint_io", None)  # of one that wraps another


class _Loaders:
    """What a trainer trains from, wrapped."""

    def __init__(self, run: Run, before_batch: Callable[[], None]) -> None:
        self._run = run
        self._before_batch = before_batch
        self._batches: list[Batches[object]] = []
        self._epoch = -1

    def mark(self, trained: int) -> None:
        """Say of each how many batches the trainer has fetched ahead."""
        ahead = max(0, self._batches[0].given - trained)
        for batches in self._batches:
            batches.ahead = ahead

    def watch(self, trainer: Trainer) -> None:
        """Wrap each loader that the trainer prepares for training."""
        process = trainer.strategy.process_dataloader
        self._epoch = -1

        def processed(loader: Iterable[object]) -> Iterable[object]:
            loader = process(loader)
            return self._wrapped(trainer, loader) if trainer.training else loader

        trainer.strategy.process_dataloader = processed

    def leave(self, trainer: Trainer) -> None:
        """Prepare loaders as the strategy itself does."""
        vars(trainer.strategy).pop("process_dataloader", None)

    def _wrapped(self, trainer: Trainer, loader: Iterable[object]) -> WatchedLoader:
        if trainer.current_epoch != self._epoch:  # they are made anew, if at all, once an epoch
            self._epoch = trainer.current_epoch
            self._batches = []
        batches = self._run.batches(loader, f"lightning-{len(self._batches)}")
        self._batches.append(batches)
        return WatchedLoader(loader, batches, self._before_batch)


def _package() -> Any:
    """Return the Lightning that the script has imported, else one that can be."""
    for name in PACKAGES:
        if sys.modules.get(name) is not None:
            return sys.modules[name]
    try:
        return importlib.import_module(PACKAGES[0])
    except ImportError:
        return importlib.import_module(PACKAGES[1])
