"""fastai: `Learner(..., cbs=[suspension()])`; `fit`, `fit_one_cycle` and `fine_tune` go on alone.

`learn.save` has parameters and optimizer; `start_epoch` skips whole epochs, and their schedule is
computed anew. Here a resumed run passes by the fits and epochs that are done, without a batch of
them, and what the learner, its recorder and its other callbacks hold (the place in the schedule,
running averages) is put back where its first batch is asked for. A run leaves at such a place.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from shunter.train import serialization, state
from shunter.train.adapters.attributes import data_of
from shunter.train.adapters.between_batches import Boundary, WatchedLoader
from shunter.train.run import start

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FILE = "fastai.state"
_OF_THE_LEARNER = ("pct_train", "train_iter")
_OF_TRIALS = "LRFinder"  # which a script runs again
_ORDER = 90  # after all others


def suspension(**options: Any) -> Any:
    """Return a callback that resumes fits, and leaves between mini-batches.

    Args:
        options: as of `shunter.train.start`, but for `save`, `prove` and `load`.
    """
    from fastai.callback.core import Callback, CancelEpochException, CancelFitException

    class Suspension(Callback):  # type: ignore[misc, unused-ignore]  # its type is Any here
        """Puts a learner back where it was, and leaves when Shunter asks."""

        order, run_valid = _ORDER, False

        def __init__(self) -> None:
            self.suspended: _Fits | None = None

        def before_fit(self) -> None:
            if self.suspended is not None:
                self.suspended.is_counted = False

        def before_train(self) -> None:
            if any(type(each).__name__ == _OF_TRIALS for each in self.learn.cbs):
                return
            if self.suspended is None:
                self.suspended = _Fits(self.learn, self, options)
            passes_by = self.suspended.begin_epoch()
            if passes_by == "fit":
                raise CancelFitException
            if passes_by == "epoch":
                raise CancelEpochException

        def before_batch(self) -> None:
            if self.suspended is not None:
                self.suspended.begin_batch()

        def after_batch(self) -> None:
            if self.suspended is not None:
                self.suspended.pass_batch()

        def after_fit(self) -> None:
            if self.suspended is not None:
                self.suspended.run.completed()

    return Suspension()


class _Fits:
    """All that a learner fits, one fit after the other."""

    def __init__(self, learn: Any, own: object, options: Mapping[str, Any]) -> None:
        import fastai

        self._learn = learn
        self._own = own
        self._rest: dict[str, Any] = {}
        self._fit = -1
        self._batches: Any = None
        self.is_counted = False  # the fit that has begun
        self._learner = _Learner(learn)
        self.run = start(
            save=self._save,
            prove=self._read,
            load=self._load,
            is_whole=self._is_whole,
            made_with={"fastai": fastai.__version__},
            learner=self._learner,
            **options,
        )
        self.boundary = Boundary(self.run)
        self._resumed_at = (self._rest["fit"], self.run.epoch) if self._rest else (0, 0)

    def begin_epoch(self) -> str:
        """Wrap the loader of an epoch; or say what is done already: "fit" or "epoch"."""
        if not self.is_counted:
            self.is_counted = True
            self._fit += 1
        at = (self._fit, self._learn.epoch)
        if at < self._resumed_at:
            return "fit" if self._fit < self._resumed_at[0] else "epoch"
        self.run.epoch = self._learn.epoch
        loader = self._learn.dl
        self._batches = self.run.batches(loader, "fastai")
        self._learn.dl = WatchedLoader(loader, self._batches, self._before_batch)
        return ""

    def begin_batch(self) -> None:
        """Give a batch its number in the epoch, which a resumed one has counted from 0."""
        if self._learn.training and self._batches is not None:
            self._learn.iter = self._batches.given - 1

    def pass_batch(self) -> None:
        if self._learn.training and self._batches is not None:
            self.boundary.passed()

    def _before_batch(self) -> None:
        rest, self._rest = self._rest, {}
        if rest:
            self._learner.restore_again()
            for name, value in rest["learner"].items():
                setattr(self._learn, name, value)
            for each, saved in zip(self._callbacks(), rest["callbacks"]):
                _restore(each, saved)
        self.boundary.act()

    def _is_whole(self) -> bool:
        # GradientAccumulation counts samples, and from 0 once they are used up.
        return all(not vars(each).get("count", 0) for each in self._learn.cbs)

    def _callbacks(self) -> list[Any]:
        return [each for each in self._learn.cbs.sorted("order") if each is not self._own]

    def _save(self, folder: Path) -> None:
        rest = {
            "fit": self._fit,
            "learner": {name: getattr(self._learn, name) for name in _OF_THE_LEARNER},
            "callbacks": [_captured(each) for each in self._callbacks()],
        }
        serialization.write(folder / FILE, _plain(rest))

    def _load(self, folder: Path) -> None:
        self._rest = self._read(folder)

    def _read(self, folder: Path) -> Any:
        return serialization.read(folder / FILE)


class _Learner:
    """The model and the optimizer of a learner, which makes the latter as it fits."""

    def __init__(self, learn: Any) -> None:
        self._learn = learn
        self._saved: dict[str, Any] = {}

    def state_dict(self) -> dict[str, Any]:
        optimizer = dict(self._learn.opt.state_dict())
        if "hypers" in optimizer:
            optimizer["hypers"] = [dict(each) for each in optimizer["hypers"]]
        saved: dict[str, Any] = _plain(
            {"model": self._learn.model.state_dict(), "optimizer": optimizer}
        )
        return saved

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        self._saved = saved
        if self._learn.opt is not None:
            self.restore_again()

    def restore_again(self) -> None:
        """Put all back once the optimizer of this fit is made, and its schedule begun."""
        from fastcore.foundation import L

        self._learn.model.load_state_dict(self._saved["model"])
        optimizer = dict(self._saved["optimizer"])
        if "hypers" in optimizer:
            optimizer["hypers"] = L([dict(each) for each in optimizer["hypers"]])
        self._learn.opt.load_state_dict(optimizer)


def _captured(callback: Any) -> dict[str, Any]:
    """Return what a callback has gathered: data, metrics, and other states."""
    states = {
        name: value.state_dict()
        for name, value in vars(callback).items()
        if name != "learn" and state.has_state_dict(value)
    }
    metrics = [data_of(each) for each in _metrics_of(callback)]
    return {"data": data_of(callback, ["learn"]), "metrics": metrics, "states": states}


def _restore(callback: Any, saved: dict[str, Any]) -> None:
    vars(callback).update(saved["data"])
    for metric, data in zip(_metrics_of(callback), saved["metrics"]):
        vars(metric).update(data)
    for name, value in saved["states"].items():
        vars(callback)[name].load_state_dict(value)


def _metrics_of(callback: Any) -> list[Any]:
    """Return the metrics that a callback has, in order."""
    kind = sys.modules["fastai.learner"].Metric
    found: list[Any] = []
    for value in vars(callback).values():
        held = value if isinstance(value, (list, tuple)) or type(value).__name__ == "L" else [value]
        found += [each for each in held if isinstance(each, kind)]
    return found


def _plain(value: Any) -> Any:
    """Return a value without the subclasses of tensors and lists that fastai has."""
    tensor = sys.modules["torch"].Tensor
    if isinstance(value, tensor):
        return value.detach().as_subclass(tensor)
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return tuple(map(_plain, value)) if type(value) is tuple else value
