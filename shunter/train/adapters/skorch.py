"""skorch: `NeuralNetClassifier(..., callbacks=[suspension()])`; `net.fit(X, y)` goes on by itself.

skorch's own checkpoints have parameters, optimizer and history, but neither order nor chance, and
`fit` trains all epochs again. Here `fit` sets the net up as ever, splits the data with the chance
that the first attempt had, and trains what is left. A run leaves where the next batch is asked for;
what the net and its callbacks hold then is put back where a resumed run asks for its first one.
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

FILE = "skorch.state"
_OF_THE_CLOCK = "dur"  # in the history


def suspension(**options: Any) -> Any:
    """Return a callback that resumes a fit, and leaves between two mini-batches.

    Args:
        options: as of `shunter.train.start`, but for `save`, `prove` and `load`; `is_whole` where
            a `train_step` of the script's own adds gradients up.
    """
    from skorch.callbacks import Callback

    class Suspension(Callback):  # type: ignore[misc, unused-ignore]  # its type is Any here
        """Puts a net back where it was, and leaves when Shunter asks."""

        def __init__(self, options: Mapping[str, Any] | None = None) -> None:
            self.options = options

        def initialize(self) -> Any:
            self.fit_: _Fit | None = None
            return self

        def on_train_begin(self, net: Any, **_: object) -> None:
            if self.fit_ is not None:
                self.fit_.run.warn(
                    "this net is fitted a second time, and the checkpoints are of the first one: "
                    "from here on the run is not suspended"
                )
                self.fit_.end(net)
            else:
                self.fit_ = _Fit(net, self, dict(self.options or {}))

        def on_batch_end(self, net: Any, training: bool = False, **_: object) -> None:
            if training and self.fit_ is not None:
                self.fit_.boundary.passed()

        def on_epoch_end(self, net: Any, **_: object) -> None:
            if self.fit_ is not None:
                self.fit_.end_epoch(net)

        def on_train_end(self, net: Any, **_: object) -> None:
            if self.fit_ is not None:
                self.fit_.end(net)
                self.fit_.run.completed()

        def __getstate__(self) -> dict[str, Any]:
            return {"options": None, "fit_": None}  # a net is pickled without its run

    return Suspension(options)


class _Fit:
    """One `fit` of a net."""

    def __init__(self, net: Any, own: object, options: dict[str, Any]) -> None:
        import skorch

        self._net = net
        self._own = own
        self._part = _Net(net)
        self._rest: dict[str, Any] = {}
        self._begun = state.chance()
        self._epochs = net.max_epochs
        self._iterator = net.iterator_train
        self.run = start(
            save=self._save,
            prove=self._read,
            load=self._load,
            made_with={"skorch": skorch.__version__},
            net=self._part,
            **options,
        )
        self.run.observed = lambda: {"history": _timeless(net.history)}
        self.boundary = Boundary(self.run)
        if self.run.resumed_from is not None:
            # The data are split with it, after this.
            self._begun = self._rest["begun"]
            state.set_chance(self._begun)
        net.max_epochs = self._epochs - self.run.epoch
        net.iterator_train = self._watched

    def end_epoch(self, net: Any) -> None:
        """Count an epoch; that of a resumed run has more batches than skorch has counted."""
        trained = [row for row in net.history[-1]["batches"] if "train_batch_size" in row]
        net.history.record("train_batch_count", len(trained))
        self.run.epoch += 1

    def end(self, net: Any) -> None:
        """Leave the net as it was made."""
        net.max_epochs, net.iterator_train = self._epochs, self._iterator

    def _watched(self, data: Any, **options: Any) -> WatchedLoader:
        loader = self._iterator(data, **options)
        return WatchedLoader(loader, self.run.batches(loader, "skorch"), self._before_batch)

    def _before_batch(self) -> None:
        rest, self._rest = self._rest, {}
        if rest:
            self._part.restore_again()
            self._net.history[:] = rest["history"]
            for name, callback in self._callbacks():
                _restore(callback, rest["callbacks"][name])
        self.boundary.act()

    def _callbacks(self) -> list[tuple[str, Any]]:
        return [(name, each) for name, each in self._net.callbacks_ if each is not self._own]

    def _save(self, folder: Path) -> None:
        rest = {
            "begun": self._begun,
            "history": list(self._net.history),
            "callbacks": {name: _captured(each) for name, each in self._callbacks()},
        }
        serialization.write(folder / FILE, rest)

    def _load(self, folder: Path) -> None:
        self._rest = self._read(folder)

    def _read(self, folder: Path) -> Any:
        return serialization.read(folder / FILE)


class _Net:
    """The modules, criteria and optimizers of a net, which `fit` makes."""

    def __init__(self, net: Any) -> None:
        self._net = net
        self._saved: dict[str, Any] = {}

    def state_dict(self) -> dict[str, Any]:
        net = self._net
        names = [*net._modules, *net._criteria, *net._optimizers]  # noqa: SLF001  as it saves them
        found = {name: getattr(net, f"{name}_") for name in names}
        return {name: each.state_dict() for name, each in found.items() if _has_state(each)}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        for name, each in saved.items():
            getattr(self._net, f"{name}_").load_state_dict(each)
        self._saved = saved

    def restore_again(self) -> None:
        """Put all back once schedulers are made, which set learning rates as they are."""
        self.load_state_dict(self._saved)
        self._saved = {}


def _has_state(holder: object) -> bool:
    torch = sys.modules["torch"]
    return isinstance(holder, torch.nn.Module) or state.has_state_dict(holder)


def _captured(callback: Any) -> dict[str, Any]:
    """Return what a callback has learned: data, and what has a state of its own."""
    learned = {name: value for name, value in vars(callback).items() if name.endswith("_")}
    states = {
        name: value
        for name, value in learned.items()
        if state.has_state_dict(value) and not isinstance(value, type)
    }
    data = data_of(callback, [name for name in vars(callback) if not name.endswith("_")])
    return {"data": data, "states": {name: each.state_dict() for name, each in states.items()}}


def _restore(callback: Any, saved: dict[str, Any]) -> None:
    for name, value in saved["data"].items():
        setattr(callback, name, value)
    for name, value in saved["states"].items():
        getattr(callback, name).load_state_dict(value)


def _timeless(history: Any) -> list[dict[str, Any]]:
    return [{name: row[name] for name in row if name != _OF_THE_CLOCK} for row in list(history)]
