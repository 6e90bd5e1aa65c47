"""Keras on torch or JAX: `model.fit(..., callbacks=[suspension()])`.

`fit` asks its epoch iterator for each step. We wrap that iterator, save where the next step is
asked for, and put everything back at the same place: there all callbacks of the last step, an
evaluation that was due and callbacks that begin an epoch are done, and nothing of the next step has
happened. On JAX, `fit` holds the variables in arrays, and hands them back when a callback asks.

Saved are all variables (of the model, the optimizer with what it accumulates, the metrics, and all
seeds), the position in the data, what callbacks hold in plain values (`EarlyStopping`, `History`),
and what a PyDataset changes between epochs.
"""

from __future__ import annotations

import gc
import importlib
import sys
import zipfile
from typing import TYPE_CHECKING, Any

from shunter.train import serialization, state
from shunter.train.adapters.held import Held, bytes_of, copied, digests
from shunter.train.batches import Batches
from shunter.train.run import start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from shunter.train.run import Run

VARIABLES = "keras.npz"
HELD = "keras.state"
BACKENDS = ("torch", "jax")
_GLOBAL_SEED = "global"
_SMALL_BYTES = 16 << 20  # what is always kept of each array of a PyDataset
_OF_WORKERS = ("_workers", "_use_multiprocessing", "_max_queue_size")  # they may be others
_OF_KERAS = ("params", "_model", "model", "validation_data")  # in each callback, and not its own


def suspension(**options: Any) -> Any:
    """Return a callback that saves all of a fit and leaves when Shunter asks.

    Args:
        options: as of `shunter.train.start`, but for `save`, `prove` and `load`.

    Raises:
        ValueError: Keras runs on another backend than torch and JAX.
    """
    keras = _keras()
    backend = keras.backend.backend()
    if backend not in BACKENDS:
        raise ValueError(
            f"suspension: the backend of Keras is {backend!r}: expected torch or jax, since what a "
            "tf.data.Dataset has read cannot be put back"
        )

    # Seeds and kernels are those of the backend.
    versions = {each: _version(each) for each in ("keras", backend)}
    kind = type("Suspension", (_KerasSuspension, keras.callbacks.Callback), {})
    return kind({"made_with": versions, **options})


def _keras() -> Any:
    return importlib.import_module("keras")


def _version(name: str) -> str:
    return str(importlib.import_module(name).__version__)


class _KerasSuspension:
    """Counts steps; saves between two of them.

    It has no method that is called for each step: Keras would wait for the device before it.
    """

    if TYPE_CHECKING:
        model: Any  # on JAX, to ask for it hands the variables back

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__()
        self._fit: _KerasFit | None = None
        self._number = -1  # of this fit: a script may have several
        self._saved: state.State = {}
        self._is_asked = False
        self._is_saving_due = False
        self.run: Run = start(save=self._save, prove=_prove, fit=self, **options)
        self._chance = state.chance()  # that of the checkpoint, if there is one
        self.run.observed = self._observed

    def on_train_begin(self, logs: object = None) -> None:
        """Wrap the iterator of this fit, and say with which epoch it begins.

        Raises:
            TypeError: it trains from what no checkpoint can put back.
        """
        del logs
        iterator, callbacks = _of_fit()
        if any(type(each).__name__ == "BackupAndRestore" for each in callbacks.callbacks):
            self.run.warn(
                "BackupAndRestore goes back to its own checkpoint, which is an older one: leave it "
                "out where suspension() is among the callbacks"
            )
        self._number += 1
        at = self._saved.get("number", -1)
        if self.run.resumed_from is not None:
            first = self.run.epoch if self._number == at else None
            # Fits before that of the checkpoint have no epoch left. Keras's own callback for
            # resuming sets this as well.
            first = sys.maxsize if self._number < at else first
            self.model._initial_epoch = first  # noqa: SLF001  see above
        self._fit = _KerasFit(self, iterator, callbacks, is_resuming=self._number == at)

    def on_train_end(self, logs: object = None) -> None:
        """Leave the data as it was."""
        del logs
        if self._fit is not None:
            self._fit.end()
        self._fit = None
        self.run.completed()

    def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
        """Keep its number."""
        del logs
        self.run.epoch = epoch

    def after_step(self) -> None:
        """Tell the step, and hear whether to save before the next one."""
        self._is_asked = self.run.boundary() or self._is_asked
        self._is_saving_due = self.run.is_saving_due()

    def before_step(self) -> None:
        """Save and leave if asked; nothing of the next step has happened yet."""
        is_asked, self._is_asked = self._is_asked, False
        is_saving_due, self._is_saving_due = self._is_saving_due, False
        if is_asked:
            self.run.suspend()
        elif is_saving_due:
            self.run.save()

    def restore(self, fit: _KerasFit) -> None:
        """Put back all that the checkpoint has."""
        folder = self.run.resumed_from
        assert folder is not None
        _read(folder / VARIABLES, _variables(self.model))
        held = serialization.read(folder / HELD)
        fit.restore_seeds(held["seeds"])
        fit.restore_callbacks(held["callbacks"], self.run)
        fit.done = self._saved["done"]
        fit.batches.load_state_dict(held["batches"])
        fit.batches.resumed_chance = dict(self._chance)
        state.set_chance(self._chance)
        self._saved = {}

    def state_dict(self) -> state.State:
        """Return where a fit is."""
        if self._fit is None:
            return self._saved
        return {"number": self._number, "done": self._fit.done}

    def load_state_dict(self, saved: state.State) -> None:
        """Keep it until the fit that it is of trains."""
        self._saved = saved

    def _save(self, folder: Path) -> None:
        assert self._fit is not None
        _write(folder / VARIABLES, _variables(self.model))
        serialization.write(folder / HELD, self._fit.held())

    def _observed(self) -> Mapping[str, object]:
        if self._fit is None:
            return {}
        return {"variables": [_as_numpy(each) for each in _variables(self.model)]}


class _KerasFit:
    """One call of `model.fit`: its iterator, wrapped."""

    def __init__(
        self, suspension: _KerasSuspension, iterator: Any, callbacks: Any, *, is_resuming: bool
    ) -> None:
        adapter = iterator.data_adapter
        data = getattr(adapter, "py_dataset", None)
        _check(adapter, data, iterator)
        self.done = 0  # steps of this epoch
        self._suspension = suspension
        self._is_resuming = is_resuming
        self._is_going_on = False
        self._list = callbacks
        own = [each for each in callbacks.callbacks if each is not suspension]
        self._callbacks = [
            Held(each, _OF_KERAS) for each in own if type(each).__name__ != "ProgbarLogger"
        ]
        self._seeds = _seeds(suspension.model)
        self._iterator = iterator
        self._is_dataset = data is not None
        self._has_own_passes = iterator.steps_per_epoch is None
        self._has_length = not self._has_own_passes or adapter.num_batches is not None
        self._steps = iterator._enumerate_iterator  # noqa: SLF001  there is no other way
        self._source = _Source(iterator)
        self.batches: Batches[Any] = Batches(self._source)
        self.batches.parts = [_Data(adapter, data, suspension.run)]
        _drop_left_over(adapter)
        iterator._enumerate_iterator = self._enumerated  # noqa: SLF001  there is no other way
        iterator._get_iterator = self._begun  # noqa: SLF001  there is no other way

    def end(self) -> None:
        """Leave the data adapter as it was: a script may have made it itself."""
        self._source.end()

    def held(self) -> state.State:
        """Return what callbacks hold, seeds of no model, and how far the data is."""
        # Keras calls some of them in threads.
        getattr(self._list, "_clear_futures", lambda: None)()
        seeds = {**self._seeds, **_global_seed()}
        batches = self.batches.state_dict()
        if self._is_dataset:
            # Workers draw an order in threads, at any time before the first batch; without any it
            # is drawn for that. Both find the random state of the beginning.
            batches["first"] = None
        return {
            "callbacks": [(each.kind, each.state_dict()) for each in self._callbacks],
            "seeds": {name: _as_numpy(each.state) for name, each in seeds.items()},
            "batches": batches,
        }

    def restore_callbacks(self, saved: list[Any], run: Run) -> None:
        """Put back what they held."""
        if [kind for kind, _ in saved] != [each.kind for each in self._callbacks]:
            run.warn(
                "the callbacks of this fit are not those of its checkpoint: none goes on where it "
                "was (EarlyStopping counts from 0, say)"
            )
            return
        for callback, (_, held) in zip(self._callbacks, saved):
            callback.load_state_dict(held)

    def restore_seeds(self, saved: Mapping[str, Any]) -> None:
        """Put back the seeds that are in no model."""
        seeds = {**self._seeds, **(_global_seed(is_made=True) if _GLOBAL_SEED in saved else {})}
        for name in saved:
            if name in seeds:
                seeds[name].state.assign(saved[name])

    def _enumerated(self) -> Iterator[Any]:
        """Yield the steps of an epoch from the one on that comes next."""
        self.done = 0
        if self._is_resuming:
            self._is_resuming, self._is_going_on = False, True
            self._suspension.restore(self)
            if not self._has_own_passes:
                self._go_on_in_pass()
        elif self._has_own_passes:
            self.batches.next_pass()  # Keras began one at the end of the epoch, and drops it
        steps = self._steps()
        for _ in range(self.done):
            next(steps)
        # Before the epoch has begun: workers draw an order then, at any time.
        self._suspension.before_step()
        step = next(steps, None)
        while step is not None:
            if not self._has_own_passes:
                self._source.begin_epoch()
            yield step
            self.done += 1
            self._suspension.after_step()
            step = next(steps, None)
            # After the last step a resumed epoch would have none, and no logs.
            if step is not None and self._has_length:
                self._suspension.before_step()

    def _go_on_in_pass(self) -> None:
        """Have Keras go on in a pass that began in an epoch before."""
        per_step = self._iterator.steps_per_execution
        seen = self.batches.given - self.done * per_step
        self._iterator._current_iterator = self._begun()  # noqa: SLF001  see above
        self._iterator._steps_seen = seen  # noqa: SLF001  see above

    def _begun(self) -> Iterator[Any]:
        """Begin a pass over the data, or go on in that of the checkpoint."""
        if not self._is_going_on:
            self.batches.next_pass()
        self._is_going_on = False
        return iter(self.batches)


class _Source:
    """What Keras makes its batches from; one iteration is one pass.

    In slots is what is not to be searched for generators: by the iterator one comes to everything.
    """

    __slots__ = ("__dict__", "_begin", "_is_due", "_passes")

    def __init__(self, iterator: Any) -> None:
        self.adapter = iterator.data_adapter
        self._passes: Any = iterator._get_iterator  # noqa: SLF001  as above
        self._begin: Callable[[], object] = self.adapter.on_epoch_begin
        self._is_due = False
        self.adapter.on_epoch_begin = self._on_epoch_begin

    def __iter__(self) -> Iterator[Any]:
        self.begin_epoch()
        return iter(self._passes())

    def begin_epoch(self) -> None:
        """Tell the data adapter of an epoch that has begun.

        Workers begin there and draw an order, which is a part of the pass.
        """
        if self._is_due:
            self._is_due = False
            self._begin()

    def end(self) -> None:
        vars(self.adapter).pop("on_epoch_begin", None)

    def _on_epoch_begin(self) -> None:
        self._is_due = True


class _Data:
    """How far the data is: what a PyDataset holds, and how many passes there were."""

    def __init__(self, adapter: Any, data: Any, run: Run) -> None:
        self._adapter, self._data, self._run = adapter, data, run
        self._has_own = data is not None and state.has_state_dict(data)
        self._is_watched = data is not None and not self._has_own and _is_changing(data)
        self._at_first = self._digests()

    def state_dict(self) -> state.State:
        found: state.State = {"passes": getattr(self._adapter, "_epoch", None)}
        if self._has_own:
            found["own"] = state.captured(self._data)
        if self._is_watched:
            now, held = self._digests(), vars(self._data)
            # An order may have been drawn before this fit was seen. Large data is as the script
            # made it, unless it has changed since.
            found["digests"] = now
            found["held"] = {
                name: copied(held[name])
                for name in now
                if bytes_of(held[name]) <= _SMALL_BYTES or now[name] != self._at_first.get(name)
            }
        return found

    def load_state_dict(self, saved: state.State) -> None:
        if saved["passes"] is not None:
            self._adapter._epoch = saved["passes"]  # noqa: SLF001  since Keras 3.16, the order
        if "own" in saved:
            state.restore(self._data, saved["own"])
        if "held" in saved:
            vars(self._data).update(copied(saved["held"]))
            now = self._digests()
            others = [name for name in now if now[name] != saved["digests"].get(name)]
            if others:
                self._run.warn(
                    f"{', '.join(others)} of the PyDataset is not as in the attempt before, and "
                    "too large to be kept: let the script make it so, or give the PyDataset "
                    "state_dict and load_state_dict"
                )

    def _digests(self) -> dict[str, str]:
        found = digests(self._data) if self._is_watched else {}
        return {name: found[name] for name in found if name not in _OF_WORKERS}


def _of_fit() -> tuple[Any, Any]:
    """Return the epoch iterator and the callbacks of the `fit` that runs.

    Raises:
        TypeError: no `fit` of Keras runs.
    """
    frame: Any = sys._getframe()  # noqa: SLF001  callbacks are given neither of them
    while frame is not None:
        names = frame.f_locals
        iterator, callbacks = names.get("epoch_iterator"), names.get("callbacks")
        if hasattr(iterator, "_enumerate_iterator") and hasattr(callbacks, "callbacks"):
            return iterator, callbacks
        frame = frame.f_back
    raise TypeError(
        "suspension() is for model.fit of Keras 3: a loop of your own takes shunter.train.start"
    )


def _check(adapter: Any, data: Any, iterator: Any) -> None:
    """Refuse data whose order no checkpoint can put back.

    Raises:
        TypeError: it is a Python generator or a tf.data.Dataset, or passes do not fit epochs.
    """
    kind = type(adapter).__name__
    if kind.startswith(("GeneratorData", "TFDataset")):
        what = "a Python generator" if kind.startswith("Generator") else "a tf.data.Dataset"
        raise TypeError(
            f"suspension: `fit` was given {what}, which cannot be put back to where it was: give "
            "it arrays, a keras.utils.PyDataset, or a torch DataLoader"
        )
    if data is not None and iterator.steps_per_epoch is not None:
        raise TypeError(
            "suspension: with a PyDataset and steps_per_epoch, batches that workers have fetched "
            "move on to the next epoch: leave steps_per_epoch out, and let the length of the "
            "PyDataset be that of an epoch"
        )


def _drop_left_over(adapter: Any) -> None:
    """Drop what workers have made to build the model.

    Keras would train with as many of these batches as there are at that instant, before those of
    the first epoch: no two runs were equal.
    """
    left_over = getattr(getattr(adapter, "enqueuer", None), "ready_queue", None)
    while left_over is not None and not left_over.empty():
        left_over.get_nowait()


def _variables(model: Any) -> list[Any]:
    """Return all variables of a fit, each once, in the same order in each attempt."""
    of_optimizer = getattr(model.optimizer, "variables", ())
    found = [*model.variables, *of_optimizer, *model.metrics_variables]
    return list({id(each): each for each in found}.values())


def _as_numpy(variable: Any) -> Any:
    keras = _keras()
    array = keras.ops.convert_to_numpy(variable)
    # numpy's files have no bfloat16; as float32 nothing of it is lost.
    return array.astype("float32") if array.dtype.kind == "V" else array


def _write(path: Path, variables: Iterable[Any]) -> None:
    """Write variables one by one: a copy of all would need their memory again."""
    from numpy.lib.format import write_array

    with zipfile.ZipFile(str(path), "w", allowZip64=True) as archive:
        for number, variable in enumerate(variables):
            with archive.open(f"{number}.npy", "w", force_zip64=True) as file:
                write_array(file, _as_numpy(variable), allow_pickle=False)


def _prove(folder: Path) -> None:
    with zipfile.ZipFile(str(folder / VARIABLES)) as archive:
        if archive.testzip() is not None:
            raise OSError(f"{folder / VARIABLES} does not hold what was written to it")


def _read(path: Path, variables: list[Any]) -> None:
    """Put variables back.

    Raises:
        ValueError: they are of another model.
    """
    import numpy as np

    with np.load(str(path), allow_pickle=False) as kept:
        if len(kept.files) != len(variables):
            raise ValueError(
                f"{path} has {len(kept.files)} variables, this model with its optimizer and "
                f"metrics {len(variables)}: build and compile it as in the attempt before"
            )
        for number, variable in enumerate(variables):
            array = kept[str(number)]
            if array.shape != tuple(variable.shape):
                raise ValueError(
                    f"{path} has a shape of {array.shape} for {variable.path}, which has "
                    f"{tuple(variable.shape)}: build the model as in the attempt before"
                )
            variable.assign(array)


def _seeds(model: Any) -> dict[str, Any]:
    """Return the seed generators that no model has: of layers that make data."""
    keras = _keras()
    kind = keras.random.SeedGenerator
    left_out = {id(each) for each in model.variables}
    left_out.update(id(each.state) for each in _global_seed().values())
    # `isinstance` would ask proxies for what they stand for: they load it, or raise.
    found = [each for each in gc.get_objects() if issubclass(type(each), kind)]
    own = {each.name: each for each in found if id(each.state) not in left_out}
    return {name: own[name] for name in sorted(own)}


def _global_seed(*, is_made: bool = False) -> dict[str, Any]:
    """Return the generator that functions without a seed draw from, if there is one."""
    module = importlib.import_module("keras.src.random.seed_generator")
    if is_made:
        return {_GLOBAL_SEED: module.global_seed_generator()}
    found = module.global_state.get_global_attribute(module.GLOBAL_SEED_GENERATOR)
    return {} if found is None else {_GLOBAL_SEED: found}


def _is_changing(data: Any) -> bool:
    """Say whether a PyDataset does anything between epochs."""
    keras = _keras()
    plain = keras.utils.PyDataset
    names = ("on_epoch_begin", "on_epoch_end")
    return any(getattr(type(data), each, None) is not getattr(plain, each, None) for each in names)
