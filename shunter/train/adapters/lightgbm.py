"""LightGBM: a callback that saves between two rounds, and a model to go on from.

    callback = suspension(seed=1)
    rounds = 100 - callback.rounds_done
    booster = lightgbm.train(
        parameters, data, rounds, init_model=callback.model, callbacks=[callback]
    )

LightGBM goes on from a model as if training began: what counts rounds (`reset_parameter`, early
stopping, evaluations that are recorded) begins again, and so do its samples. We have callbacks see
the first round of the undisturbed run, put back what they hold, and draw the samples of each round
from a seed and the number of the round.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
import sys
from typing import TYPE_CHECKING, Any

from shunter.train import serialization
from shunter.train.adapters.held import Held
from shunter.train.run import start

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from shunter.train.run import Run

MODEL = "lightgbm.txt"
REST = "lightgbm.state"
_FIRST = -(10**9)  # among callbacks
_PARAMETER = re.compile(r"^\[(\w+): (.*)\]$", re.MULTILINE)
_BLOCKS = 7919  # between the seeds of bags: LightGBM adds 1 for each 1,024 rows
_SAMPLES_UNLESS = {
    "bagging_fraction": "1",
    "pos_bagging_fraction": "1",
    "neg_bagging_fraction": "1",
    "feature_fraction": "1",
    "feature_fraction_bynode": "1",
}
# What counts rounds, or draws, within; there is no way to put it back.
_NEVER_EXACT = (
    ("boosting", ("dart", "rf")),
    ("data_sample_strategy", ("goss",)),
    ("extra_trees", ("1",)),
    ("use_quantized_grad", ("1",)),
    ("linear_tree", ("1",)),
)


def suspension(*, seed: int | None = None, **options: Any) -> Any:
    """Return a callback that saves and leaves when Shunter asks.

    Its `model` is what `lightgbm.train` or `fit` takes as `init_model`, None if nothing was saved;
    its `rounds_done` are that model's, to be taken off the number of rounds.

    Args:
        seed: samples (bagging, features) are drawn from it and the number of the round, under
            Shunter or not; None: as LightGBM does, so that a resumed run draws others.
        options: as of `shunter.train.start`, but for `save`, `prove` and `load`.
    """
    return _Boosting(seed, {"made_with": {"lightgbm": _lightgbm().__version__}, **options})


def _lightgbm() -> Any:
    return importlib.import_module("lightgbm")


class _Boosting:
    """Counts rounds; saves before the next one."""

    def __init__(self, seed: int | None, options: Mapping[str, Any]) -> None:
        self.order = _FIRST
        self.before_iteration = True
        self.rounds_done = 0
        self._seed = seed
        self._begin: int | None = None  # the first round of the undisturbed run
        self._booster: Any = None
        self._lists: tuple[list[Any], list[Any]] = ([], [])
        self._saved: dict[str, Any] = {}
        self.run: Run = start(save=self._save, prove=_prove, load=self._load, **options)
        folder = self.run.resumed_from
        self.model = None if folder is None else str(folder / MODEL)
        self.run.observed = self._observed

    def __call__(self, env: Any) -> None:
        """Tell the round before, and save and leave if asked."""
        if self._booster is not env.model:
            self._begins(env)
            return
        is_asked = self.run.boundary()
        if is_asked:
            self.run.suspend()
        elif self.run.is_saving_due():
            self.run.save()

    def _begins(self, env: Any) -> None:
        """Have the other callbacks see an undisturbed run.

        Raises:
            ValueError: it does not begin with the model of the checkpoint.
        """
        if self._saved and env.iteration != self._saved["at"]:
            raise ValueError(
                f"the checkpoint has {self._saved['at']} rounds, and training begins with "
                f"{env.iteration}: pass init_model=callback.model"
            )
        self._booster = env.model
        self._begin = self._saved.get("begin", env.begin_iteration)
        named = _parameters(env.model)
        _warn_of_chance(named, self.run, is_seeded=self._seed is not None)
        self._lists = _callbacks_of_training()
        saved = self._saved.get("callbacks", ([], []))
        self._saved = {}
        for callbacks, kept in zip(self._lists, saved):
            for place, each in enumerate(callbacks):
                if each is not self:
                    held = kept[place] if place < len(kept) else None
                    callbacks[place] = _Seen(each, self._begin, held, self.run)
        if self._seed is not None:
            self._lists[0].append(_Samples(self._seed, named))

    def _save(self, folder: Path) -> None:
        # All rounds: by default it writes those up to the best one.
        self._booster.save_model(str(folder / MODEL), num_iteration=-1)
        kept = [
            [
                (each.kind, each.held.state_dict()) if isinstance(each, _Seen) else None
                for each in some
            ]
            for some in self._lists
        ]
        rest = {"at": self._booster.current_iteration(), "begin": self._begin, "callbacks": kept}
        serialization.write(folder / REST, rest)

    def _load(self, folder: Path) -> None:
        self._saved = serialization.read(folder / REST)
        self.rounds_done = self._saved["at"] - self._saved["begin"]

    def _observed(self) -> Mapping[str, object]:
        return {} if self._booster is None else {"trees": _trees(self._booster)}


class _Seen:
    """Another callback, which sees the rounds of an undisturbed run."""

    def __init__(self, callback: Any, begin: int, saved: Any, run: Run) -> None:
        self.kind = type(callback).__name__
        self.held = Held(callback)
        self.order = callback.order
        self.before_iteration = getattr(callback, "before_iteration", False)
        self._callback = callback
        self._begin = begin
        self._saved = saved
        if saved is not None and saved[0] != self.kind:
            run.warn("the callbacks are not those of the checkpoint: some begin as new ones")
            self._saved = None

    def __call__(self, env: Any) -> None:
        env = _beginning(env, self._begin)
        if self._saved is not None:
            # Those of LightGBM make there what no file can hold, such as comparisons.
            getattr(self._callback, "_init", lambda _: None)(env)
            self.held.load_state_dict(self._saved[1])
            self._saved = None
        self._callback(env)


def _beginning(env: Any, first: int) -> Any:
    """Return what a callback is given, with another first round."""
    if hasattr(env, "_replace"):
        return env._replace(begin_iteration=first)
    return dataclasses.replace(env, begin_iteration=first)


class _Samples:
    """Has the samples of each round drawn from a seed and its number."""

    def __init__(self, seed: int, named: Mapping[str, str]) -> None:
        self._seed = seed
        self._bagging = float(named.get("bagging_fraction", 1))
        self._frequency = int(named.get("bagging_freq", 0))

    def __call__(self, env: Any) -> None:
        number = self._seed + env.iteration
        # What draws begins again where its seed, or for rows their fraction, has changed.
        env.model.reset_parameter({"feature_fraction_seed": number + 1})
        seeds: dict[str, float] = {"feature_fraction_seed": number}
        if self._frequency:
            env.model.reset_parameter({"bagging_fraction": self._bagging / 2 + 0.25})
            bag = env.iteration - env.iteration % self._frequency
            seeds.update(bagging_seed=self._seed + bag * _BLOCKS, bagging_fraction=self._bagging)
        env.model.reset_parameter(seeds)


def _callbacks_of_training() -> tuple[list[Any], list[Any]]:
    """Return the callbacks of the training that runs: before a round, and after it.

    Raises:
        TypeError: no `lightgbm.train` runs.
    """
    frame: Any = sys._getframe()  # noqa: SLF001  callbacks are not given them
    while frame is not None:
        names = frame.f_locals
        if "callbacks_before_iter" in names and "callbacks_after_iter" in names:
            if "cvfolds" in names:
                break
            return names["callbacks_before_iter"], names["callbacks_after_iter"]
        frame = frame.f_back
    raise TypeError("suspension() is for the callbacks of lightgbm.train, or of its estimators")


def _parameters(booster: Any) -> dict[str, str]:
    """Return all parameters by the names that LightGBM itself gives them."""
    return dict(_PARAMETER.findall(booster.model_to_string(num_iteration=-1)))


def _trees(booster: Any) -> str:
    """Return the trees of a model, without parameters: seeds are among those."""
    text: str = booster.model_to_string(num_iteration=-1)
    return text.partition("\nparameters:")[0]


def _warn_of_chance(named: Mapping[str, str], run: Run, *, is_seeded: bool) -> None:
    """Warn where rounds draw from, or count in, a state that no file has."""
    never = [f"{name}={named[name]}" for name, kinds in _NEVER_EXACT if named.get(name) in kinds]
    if never:
        run.warn(
            f"LightGBM begins again with {', '.join(never)} where it goes on from a model: a "
            "resumed run trains other trees"
        )
    drawn = [name for name in _SAMPLES_UNLESS if float(named.get(name, 1)) != 1]
    if not int(named.get("bagging_freq", 0)):
        drawn = [name for name in drawn if "bagging" not in name]
    if drawn and not is_seeded:
        run.warn(
            f"LightGBM draws samples ({', '.join(drawn)}) from a state that is in no file: a "
            "resumed run draws others, unless it is given suspension(seed=1), say"
        )


def _prove(folder: Path) -> None:
    _lightgbm().Booster(model_file=str(folder / MODEL))
