"""Stable-Baselines3: `model.learn(N, callback=suspension())`, and no other line.

Its own files have parameters alone: no environment, no last observation, none of the chance of
exploration, and `learn(N)` of a loaded model adds N steps. So nothing is loaded: the script makes
model and environments again, `learn` sets them up, and then, as training starts, they are put into
the state of the checkpoint, counters included; `learn(N)` ends at N.

A run leaves where no rollout is half done: as the next one starts. Environments (and what wraps
them: Monitor, VecNormalize, VecFrameStack) are captured attribute by attribute, all in one pickle,
so that what they share stays shared; of the other callbacks, counters and environments as well.
"""

from __future__ import annotations

import inspect
import io
import os
import pickle
import sys
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from shunter.train import channel, state
from shunter.train.adapters.attributes import data_of, is_data
from shunter.train.run import start

if TYPE_CHECKING:
    from pathlib import Path

    from shunter.train.run import Run

FILE = "environments.pickle"
# Of these objects the new attempt has its own.
_OF_THE_PROCESS = {
    "_cached_spec",
    "class_attributes",
    "env",
    "envs",
    "file_handler",
    "processes",
    "remotes",
    "results_writer",
    "spec",
    "venv",
    "work_remotes",
}
_OF_THIS_LEARN = ("start_time", "_total_timesteps", "_num_timesteps_at_start")
_OF_THE_SCRIPT = (type, FunctionType, MethodType, BuiltinFunctionType, partial)


def suspension(**options: Any) -> Any:
    """Return a callback for `learn` that resumes, and leaves at the end of a rollout.

    Args:
        options: as of `shunter.train.start`, but for `save`, `prove` and `load`.
    """
    from stable_baselines3.common.callbacks import BaseCallback

    class Suspension(BaseCallback):  # type: ignore[misc, unused-ignore]  # its type is Any here
        """Puts all back as training starts; counts rollouts, and leaves between two."""

        def __init__(self) -> None:
            super().__init__()
            self.run: Run | None = None
            self._training: _Training | None = None

        def _on_training_start(self) -> None:
            if self.run is not None:
                self.run.warn(
                    "`learn` is called a second time in this process, and the checkpoints are of "
                    "the first one: from here on the run is not suspended; train in one `learn`"
                )
                self._training = None
                return
            self._training = _Training(self.model, self, self.locals["callback"])
            self.run = self._training.begin(options)

        def _on_rollout_start(self) -> None:
            if self._training is not None:
                self._training.pass_rollout()

        def _on_step(self) -> bool:
            return True

        def _on_training_end(self) -> None:
            if self.run is not None:
                self.run.completed()

    return Suspension()


class ProcessEndedError(TypeError):
    """An environment could not be pickled, and its process has ended of it."""


class _Training:
    """What one `learn` trains, and how it is captured and put back."""

    def __init__(self, model: Any, own: object, callback: Any) -> None:
        self._model = model
        self._callbacks = [each for each in _callbacks_in(callback) if each is not own]
        self._environments = [model.get_env()]
        self._environments += [
            each.eval_env for each in self._callbacks if hasattr(each, "eval_env")
        ]
        self._saved = b""
        self._chance: state.State | None = None
        self._begun = 0
        self._run: Run | None = None

    def begin(self, options: dict[str, Any]) -> Run:
        """Begin or resume the run."""
        import stable_baselines3

        model = self._model
        parts: dict[str, Any] = {"parameters": _Parameters(model)}
        if getattr(model, "replay_buffer", None) is not None:
            parts["replay"] = _Replay(model)
        self._run = run = start(
            save=self._save,
            prove=self._prove,
            load=self._load,
            made_with={"stable-baselines3": stable_baselines3.__version__},
            **parts,
            **options,
        )
        run.observed = self._observed
        if run.resumed_from is not None:
            self._put_back()
            self._chance = state.chance()
        elif channel.CHECKPOINTS in os.environ or "checkpoints" in options:
            self._check()
        self._begun = model.num_timesteps
        return run

    def pass_rollout(self) -> None:
        """Count the rollout before, which the model has trained with, and leave if asked."""
        assert self._run is not None
        if self._chance is not None:
            # What is drawn for exploration (gSDE) is drawn before this call, in each attempt.
            _restore_noise(self._model, _outer(self._saved)["noise"])
            state.set_chance(self._chance)
            self._chance = None
        elif self._model.num_timesteps > self._begun:
            self._run.step()

    def _check(self) -> None:
        """Warn of what cannot be captured, before hours of training depend on it.

        Raises:
            ProcessEndedError: an environment's process has ended of it.
        """
        assert self._run is not None
        try:
            self._captured()
        except ProcessEndedError:
            raise
        except TypeError as error:
            self._run.warn(f"{error}; as it is, this run cannot be suspended")
        unknown = [
            name
            for name, value in vars(self._model).items()
            if name not in _known_of(self._model) and not _is_of_the_script(value)
        ]
        if unknown:
            self._run.warn(
                f"{type(self._model).__name__} has attributes that are in no checkpoint "
                f"({', '.join(unknown)}): if training changes them, a resumed run is not exact"
            )

    def _observed(self) -> dict[str, object]:
        env = self._model.get_env()
        normalised = [_statistics(each) for each in _vec_layers(env) if hasattr(each, "obs_rms")]
        return {
            "timesteps": self._model.num_timesteps,
            "observation": self._model._last_obs,  # noqa: SLF001  where the library keeps it
            "normalisation": normalised,
        }

    def _save(self, folder: Path) -> None:
        (folder / FILE).write_bytes(self._captured())

    def _prove(self, folder: Path) -> None:
        self._values((folder / FILE).read_bytes())

    def _load(self, folder: Path) -> None:
        self._saved = (folder / FILE).read_bytes()

    def _captured(self) -> bytes:
        """Return all attributes that training changes, pickled.

        Raises:
            TypeError: one of them cannot be.
        """
        skeleton = self._skeleton()
        values = [self._attributes_of(each) for each in skeleton]
        remote = [_remote_states(vec) for root in self._environments for vec in _vec_layers(root)]
        kinds = [type(each).__qualname__ for each in skeleton]
        whole = {"kinds": kinds, "values": values, "remote": remote}
        file = io.BytesIO()
        try:
            _Pickler(file, skeleton).dump(whole)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise _refusal(skeleton, values, error) from error
        inner = file.getvalue()
        return pickle.dumps({"inner": inner, "noise": _noise(self._model)})

    def _values(self, content: bytes) -> dict[str, Any]:
        """Return what was captured, with the objects of this process in place of its own."""
        skeleton = self._skeleton()
        inner = _outer(content)["inner"]
        values: dict[str, Any] = _Unpickler(io.BytesIO(inner), skeleton).load()
        kinds = [type(each).__qualname__ for each in skeleton]
        if values["kinds"] != kinds:
            raise ValueError(
                "the checkpoint is of another model, other environments or callbacks "
                f"({', '.join(values['kinds'])}) than this run has ({', '.join(kinds)}): resume "
                "it with the script that made it, or name another folder of checkpoints"
            )
        return values

    def _put_back(self) -> None:
        values = self._values(self._saved)
        for holder, attributes in zip(self._skeleton(), values["values"]):
            vars(holder).update(attributes)
        layers = [vec for root in self._environments for vec in _vec_layers(root)]
        for vec, states in zip(layers, values["remote"]):
            for number, attributes in enumerate(states):
                for name, value in attributes.items():
                    vec.set_attr(name, value, indices=[number])

    def _skeleton(self) -> list[Any]:
        """Return the objects whose attributes are captured, in a fixed order."""
        found = [self._model, *self._callbacks]
        for root in self._environments:
            for vec in _vec_layers(root):
                found.append(vec)
                for env in vars(vec).get("envs", ()):
                    found += _env_layers(env)
        spaces = sys.modules["gymnasium"].spaces.Space
        for holder in list(found):
            found += [each for each in vars(holder).values() if isinstance(each, spaces)]
        seen: dict[int, Any] = {}
        for each in found:
            seen.setdefault(id(each), each)
        return list(seen.values())

    def _attributes_of(self, holder: Any) -> dict[str, Any]:
        if holder is self._model:
            known = _known_of(holder)
            values = data_of(holder, known)
            values.update(action_noise=holder.action_noise)
            return values
        if holder in self._callbacks:
            return data_of(holder, ("locals", "globals"))
        return {
            name: value
            for name, value in vars(holder).items()
            if name not in _OF_THE_PROCESS and not isinstance(value, _OF_THE_SCRIPT)
        }


def _outer(content: bytes) -> dict[str, Any]:
    """Return what a file of ours holds: as SB3's own files, it is read with pickle."""
    whole: dict[str, Any] = pickle.loads(content)  # noqa: S301  the job's own folder
    return whole


def _callbacks_in(root: Any) -> list[Any]:
    """Return a callback and all that are in it."""
    from stable_baselines3.common.callbacks import BaseCallback

    found = [root]
    for each in found:
        for value in list(vars(each).values()):
            held = value if isinstance(value, list) else [value]
            found += [one for one in held if isinstance(one, BaseCallback) and one not in found]
    return found


def _vec_layers(vec: Any) -> list[Any]:
    """Return a vectorised environment and those that it wraps."""
    found = [vec]
    while "venv" in vars(found[-1]):
        found.append(found[-1].venv)
    return found


def _env_layers(env: Any) -> list[Any]:
    """Return an environment and those that it wraps."""
    found = [env]
    while "env" in vars(found[-1]):
        found.append(found[-1].env)
    return found


def _statistics(layer: Any) -> dict[str, Any]:
    """Return by what a VecNormalize normalises."""
    of_observations = layer.obs_rms if isinstance(layer.obs_rms, dict) else {"": layer.obs_rms}
    return {
        "observations": {name: data_of(each) for name, each in of_observations.items()},
        "returns": data_of(layer.ret_rms),
        "return": layer.returns,
    }


def _remote_states(vec: Any) -> list[dict[str, Any]]:
    """Return the attributes of environments that have processes of their own.

    Raises:
        ProcessEndedError: one of them cannot be pickled.
    """
    if "remotes" not in vars(vec):
        return []
    try:
        found = [reduced[2] for reduced in vec.env_method("__reduce_ex__", 4)]
    except (EOFError, OSError) as error:
        raise ProcessEndedError(
            f"an environment in a process of {type(vec).__name__} cannot be pickled, so that it "
            "could not go on: keep functions and open files out of it, or take DummyVecEnv"
        ) from error
    return [
        {name: value for name, value in each.items() if name not in _OF_THE_PROCESS - {"env"}}
        for each in found
    ]


def _known_of(model: Any) -> set[str]:
    """Return attributes that come from the script, or are saved in another way."""
    names: set[str] = set(_OF_THIS_LEARN)
    for kind in type(model).__mro__:
        if "__init__" in vars(kind) and kind is not object:
            names.update(inspect.signature(vars(kind)["__init__"]).parameters)
    modules, variables = model._get_torch_save_params()  # noqa: SLF001  as `save` does
    names.update(name.split(".")[0] for name in [*modules, *variables])
    names.update(model._excluded_save_params())  # noqa: SLF001  as above
    return names - {"action_noise"} | {
        name for name, value in vars(model).items() if _has_tensors(value)
    }


def _has_tensors(value: object) -> bool:
    """Say whether it is a list of tensors that lie in the policy, as of batch norms."""
    tensor = sys.modules["torch"].Tensor
    return isinstance(value, list) and any(isinstance(each, tensor) for each in value)


def _is_of_the_script(value: Any) -> bool:
    torch = sys.modules["torch"]
    spaces = sys.modules["gymnasium"].spaces.Space
    kinds = (torch.nn.Module, torch.optim.Optimizer, torch.device, spaces)
    return is_data(value) or callable(value) or isinstance(value, kinds)


def _noise(model: Any) -> dict[str, Any]:
    """Return the matrices of exploration (gSDE), by module; no `state_dict` has them."""
    found = {}
    for name, module in model.policy.named_modules():
        distribution = getattr(module, "action_dist", None)
        for part in ("exploration_mat", "exploration_matrices"):
            if getattr(distribution, part, None) is not None:
                found[f"{name}/{part}"] = getattr(distribution, part).detach().clone()
    return found


def _restore_noise(model: Any, saved: dict[str, Any]) -> None:
    modules = dict(model.policy.named_modules())
    for where, matrix in saved.items():
        name, part = where.rsplit("/", 1)
        setattr(modules[name].action_dist, part, matrix.to(model.device))


class _Parameters:
    """All that torch trains in a model: policy, optimizers, and single tensors."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def state_dict(self) -> dict[str, Any]:
        names = self._model._get_torch_save_params()[1]  # noqa: SLF001  as `save` does
        single = {name: self._tensor(name).detach() for name in names}
        return {"parameters": self._model.get_parameters(), "single": single}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        self._model.set_parameters(saved["parameters"], device=self._model.device)
        for name, value in saved["single"].items():
            self._tensor(name).data.copy_(value)

    def _tensor(self, name: str) -> Any:
        found = self._model
        for each in name.split("."):
            found = getattr(found, each)
        return found


class _Replay:
    """The replay buffer of a model, as far as it is filled."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def state_dict(self) -> dict[str, Any]:
        buffer = self._model.replay_buffer
        filled = buffer.buffer_size if buffer.full else min(buffer.pos + 1, buffer.buffer_size)
        arrays = {name: _as_tensor(array[:filled]) for name, array in _arrays(buffer).items()}
        but = [name.split("/")[0] for name in arrays]
        return {"arrays": arrays, "data": data_of(buffer, but)}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        buffer = self._model.replay_buffer
        arrays = _arrays(buffer)
        for name, content in saved["arrays"].items():
            arrays[name][: len(content)] = content
        vars(buffer).update(saved["data"])


def _arrays(buffer: Any) -> dict[str, Any]:
    """Return the arrays with a row for each step, those in a dict as `name/key`."""
    found = {}
    for name, value in vars(buffer).items():
        for key, array in value.items() if isinstance(value, dict) else [("", value)]:
            if len(getattr(array, "shape", ())) > 1 and len(array) == buffer.buffer_size:
                found[f"{name}/{key}" if key else name] = array
    return found


def _as_tensor(array: Any) -> Any:
    """Return an array as a tensor of its memory: it is written without a copy."""
    return array if array.dtype.hasobject else sys.modules["torch"].from_numpy(array)


class _Pickler(pickle.Pickler):
    """Pickles attributes; the objects that have them are named by their number."""

    def __init__(self, file: io.BytesIO, skeleton: list[Any]) -> None:
        super().__init__(file, protocol=4)
        self._numbers = {id(each): number for number, each in enumerate(skeleton)}

    def persistent_id(self, value: Any) -> int | None:
        """Return the number of an object of the skeleton."""
        return self._numbers.get(id(value))


class _Unpickler(pickle.Unpickler):
    """Reads attributes into the objects of this process."""

    def __init__(self, file: io.BytesIO, skeleton: list[Any]) -> None:
        super().__init__(file)
        self._skeleton = skeleton

    def persistent_load(self, number: Any) -> Any:
        """Return the object of that number."""
        return self._skeleton[number]


def _refusal(skeleton: list[Any], values: list[dict[str, Any]], error: Exception) -> TypeError:
    """Say which attribute cannot be pickled."""
    for holder, attributes in zip(skeleton, values):
        for name, value in attributes.items():
            found = _why_not_pickled(value, skeleton)
            if found is not None:
                return TypeError(
                    f"attribute {name!r} of {type(holder).__qualname__} cannot be pickled "
                    f"({found}), so that a resumed run could not go on from it: make it where it "
                    "is used, or give the class of what it holds __getstate__"
                )
    return TypeError(f"the environment cannot be pickled ({error})")


def _why_not_pickled(value: object, skeleton: list[Any]) -> Exception | None:
    try:
        _Pickler(io.BytesIO(), skeleton).dump(value)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        return error
    return None
