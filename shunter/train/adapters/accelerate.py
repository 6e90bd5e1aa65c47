"""Accelerate: `run = started(accelerator)` after `prepare`, and `run.step()` in the loop.

`accelerator.save_state` and `load_state` carry the prepared models, optimizers, schedulers,
scalers and what was registered; ours are step, epoch, chance and the loader's position. A run that
accumulates gradients stops after a mini-batch that used them up: they are in no checkpoint.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Protocol

from shunter.train import serialization
from shunter.train.run import Run, start

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    class Accelerator(Protocol):
        """What of Accelerate's Accelerator is used here."""

        sync_gradients: bool

        def save_state(self, output_dir: str) -> object: ...
        def load_state(self, input_dir: str) -> object: ...


FOLDER = "accelerate"
PICKLED = ("custom_checkpoint", "random_states")  # Accelerate reads them with more classes
_TRAINED = ("_models", "_optimizers", "_schedulers")  # what an Accelerator has prepared


def started(accelerator: Accelerator, **options: Any) -> Run:
    """Begin or resume a run whose state an Accelerator keeps; options as of `start`."""

    serialization.allow_numbers()

    def save(folder: Path) -> None:
        # On a full disk safetensors raises what is no OSError.
        full_disk = getattr(sys.modules.get("safetensors"), "SafetensorError", OSError)
        try:
            accelerator.save_state(str(folder / FOLDER))
        except full_disk as error:
            raise OSError(str(error)) from error

    def prove(folder: Path) -> None:
        for path in sorted((folder / FOLDER).rglob("*")):
            serialization.check_file(path, weights_only=not path.name.startswith(PICKLED))

    def load(folder: Path) -> None:
        accelerator.load_state(str(folder / FOLDER))

    options.setdefault("is_whole", lambda: bool(accelerator.sync_gradients))
    run = start(save=save, prove=prove, load=load, made_with=_versions(), **options)
    run.observed = lambda: _prepared(accelerator)
    return run


def _versions() -> dict[str, str]:
    library = sys.modules.get("accelerate")
    return {"accelerate": str(getattr(library, "__version__", ""))}


def _prepared(accelerator: Any) -> dict[str, object]:
    """Return what an Accelerator trains, by name and number."""
    found: dict[str, object] = {}
    for kind in _TRAINED:
        prepared: Sequence[object] = getattr(accelerator, kind, ())
        found.update({f"{kind[1:-1]} {number}": each for number, each in enumerate(prepared)})
    return found
