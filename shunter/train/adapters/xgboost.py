"""XGBoost: a callback that saves between two rounds, and a model to go on from.

    callback = suspension()
    booster = xgboost.train(
        parameters, data, 100 - callback.rounds_done, xgb_model=callback.model, callbacks=[callback]
    )

XGBoost goes on from a model with round 0 again: what counts rounds (a schedule of learning rates,
early stopping, seeds) would begin again. We give it the number that an undisturbed run has, and put
back its configuration, the evaluations so far, and what other callbacks hold. Samples are those of
an undisturbed run if `seed_per_iteration` is True: then each round has what draws them made anew.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import TYPE_CHECKING, Any

from shunter.train import serialization
from shunter.train.adapters.held import Held
from shunter.train.run import start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from shunter.train.run import Run

MODEL = "xgboost.ubj"
REST = "xgboost.state"
_OF_THIS_MACHINE = ("device", "nthread")
_DRAWS_UNLESS = {
    "subsample": "1",
    "colsample_bytree": "1",
    "colsample_bylevel": "1",
    "colsample_bynode": "1",
    "rate_drop": "0",
    "one_drop": "0",
}
_DRAWS_IF = {"lambdarank_pair_method": ("mean",), "feature_selector": ("shuffle", "random")}


def suspension(**options: Any) -> Any:
    """Return a callback that saves and leaves when Shunter asks.

    Its `model` is what `xgboost.train` or `fit` takes as `xgb_model`, None if nothing was saved;
    its `rounds_done` are that model's, to be taken off the number of rounds.

    Args:
        options: as of `shunter.train.start`, but for `save`, `prove` and `load`.
    """
    xgboost = _xgboost()

    kind = type("Suspension", (_Rounds, xgboost.callback.TrainingCallback), {})
    return kind({"made_with": {"xgboost": xgboost.__version__}, **options})


def _xgboost() -> Any:
    return importlib.import_module("xgboost")


class _Rounds:
    """Counts rounds; saves before the next one."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__()
        self._model: Any = None
        self._container: Any = None
        self._others: list[Held] = []
        self._is_asked = False
        self._is_saving_due = False
        self._is_drawn_by_round = False
        self._saved: dict[str, Any] = {}
        self.rounds_done = 0
        self.run: Run = start(save=self._save, prove=_prove, load=self._load, **options)
        folder = self.run.resumed_from
        self.model = None if folder is None else str(folder / MODEL)
        self._is_resuming = folder is not None
        self.run.observed = self._observed

    def before_training(self, model: Any) -> Any:
        """Take hold of what runs the rounds.

        Raises:
            TypeError: it is a cross-validation.
            ValueError: it does not begin with the model of the checkpoint, or could not go on.
        """
        self._container = _container()
        if self._container.is_cv:
            raise TypeError("suspension() is for xgboost.train: the models of cv() are in no file")
        if self._is_resuming and model.num_boosted_rounds() != self.rounds_done:
            raise ValueError(
                f"the checkpoint has {self.rounds_done} rounds, and training begins with "
                f"{model.num_boosted_rounds()}: pass xgb_model=callback.model"
            )
        if _parameters(model).get("lambdarank_unbiased") in ("1", "true"):
            raise ValueError(
                "suspension: XGBoost cannot go on from a model with lambdarank_unbiased: what it "
                "has learned of positions is in no file"
            )
        self._model = model
        others = [each for each in self._container.callbacks if each is not self]
        self._others = [Held(each) for each in others]
        self._is_drawn_by_round = self._draws_by_round(model)
        if self._is_resuming:
            _count_on(model, self.rounds_done)
        self._container.before_iteration = self._before(self._container.before_iteration)
        self._container.after_iteration = self._after(self._container.after_iteration)
        return model

    def after_training(self, model: Any) -> Any:
        """Leave the model as it was."""
        vars(model).pop("update", None)
        return model

    def _before(self, run_callbacks: Callable[..., bool]) -> Callable[..., bool]:
        first = self.rounds_done

        def before(model: Any, epoch: int, dtrain: Any, evals: Any) -> bool:
            if self._is_resuming:
                self._is_resuming = False
                self._restore(model)
            is_asked, self._is_asked = self._is_asked, False
            is_saving_due, self._is_saving_due = self._is_saving_due, False
            if is_asked:
                self.run.suspend()
            elif is_saving_due:
                self.run.save()
            if self._is_drawn_by_round:
                # What samples columns is seeded when it is made: with this, for each round.
                model.load_config(model.save_config())
            return run_callbacks(model, epoch + first, dtrain, evals)

        return before

    def _after(self, run_callbacks: Callable[..., bool]) -> Callable[..., bool]:
        first = self.rounds_done

        def after(model: Any, epoch: int, dtrain: Any, evals: Any) -> bool:
            is_over = run_callbacks(model, epoch + first, dtrain, evals)
            self._is_asked = self.run.boundary() or self._is_asked
            self._is_saving_due = self.run.is_saving_due()
            return is_over

        return after

    def _draws_by_round(self, model: Any) -> bool:
        """Say whether samples are to depend on the round alone; warn where they cannot."""
        drawn = _drawn(model)
        if drawn and _parameters(model).get("seed_per_iteration") not in ("1", "true"):
            self.run.warn(
                f"XGBoost draws at random ({', '.join(drawn)}) from a state that is in no file: a "
                "resumed run draws otherwise, unless the parameter seed_per_iteration is True"
            )
            return False
        return bool(drawn)

    def _save(self, folder: Path) -> None:
        self._model.save_model(str(folder / MODEL))
        serialization.write(
            folder / REST,
            {
                "rounds": self._model.num_boosted_rounds(),
                "config": self._model.save_config(),
                "history": self._container.history,
                "callbacks": [(each.kind, each.state_dict()) for each in self._others],
            },
        )

    def _load(self, folder: Path) -> None:
        self._saved = serialization.read(folder / REST)
        self.rounds_done = self._saved["rounds"]

    def _restore(self, model: Any) -> None:
        config = json.loads(self._saved["config"])
        own = json.loads(model.save_config())["learner"]["generic_param"]
        for name in _OF_THIS_MACHINE:
            if name in own:
                config["learner"]["generic_param"][name] = own[name]
        model.load_config(json.dumps(config))
        self._container.history.update(self._saved["history"])
        saved = self._saved["callbacks"]
        if [kind for kind, _ in saved] == [each.kind for each in self._others]:
            for callback, (_, held) in zip(self._others, saved):
                callback.load_state_dict(held)
        else:
            self.run.warn("the callbacks are not those of the checkpoint: none goes on as it was")
        self._saved = {}

    def _observed(self) -> Mapping[str, object]:
        return {} if self._model is None else {"model": bytes(self._model.save_raw("ubj"))}


def _container() -> Any:
    """Return what runs the callbacks of the training that begins.

    Raises:
        TypeError: no training begins.
    """
    frame: Any = sys._getframe()  # noqa: SLF001  callbacks are not given it
    while frame is not None:
        found = frame.f_locals.get("self")
        if type(found).__name__ == "CallbackContainer":
            return found
        frame = frame.f_back
    raise TypeError("suspension() is for the callbacks of xgboost.train, or of its estimators")


def _count_on(model: Any, rounds: int) -> None:
    """Give the model the numbers that rounds have: each may be a seed."""
    update = model.update

    def counted(dtrain: Any, iteration: int, fobj: Any = None) -> None:
        update(dtrain, iteration + rounds, fobj)

    model.update = counted


def _drawn(model: Any) -> list[str]:
    """Return the parameters by which rounds draw at random."""
    named = _parameters(model)
    found = [
        name
        for name, neutral in _DRAWS_UNLESS.items()
        if float(named.get(name, neutral)) != float(neutral)
    ]
    found += [name for name, drawing in _DRAWS_IF.items() if named.get(name) in drawing]
    return found


def _parameters(model: Any) -> dict[str, str]:
    return dict(_texts_in(json.loads(model.save_config())["learner"]))


def _texts_in(config: Any) -> Iterator[tuple[str, str]]:
    """Yield all parameters of a configuration with their values."""
    if isinstance(config, dict):
        for name, value in config.items():
            if isinstance(value, str):
                yield name, value
            else:
                yield from _texts_in(value)
    elif isinstance(config, list):
        for each in config:
            yield from _texts_in(each)


def _prove(folder: Path) -> None:
    _xgboost().Booster(model_file=str(folder / MODEL))
