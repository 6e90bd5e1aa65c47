"""Hugging Face Trainer: `Trainer(..., callbacks=[suspension()])`.

The Trainer saves its checkpoint itself, chance included, into its own output folder, which must be
the same for all attempts; resume with
`trainer.train(resume_from_checkpoint=last(arguments.output_dir))`. It saves after an evaluation
that is due, since neither a resumed run nor the chance of what follows would make up for it.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from shunter.train import serialization
from shunter.train.run import Run, start

if TYPE_CHECKING:

    class Arguments(Protocol):
        """What of the Trainer's arguments is read here."""

        output_dir: str

    class State(Protocol):
        """What of the Trainer's state is read here."""

        global_step: int
        epoch: float | None

    class Control(Protocol):
        """What the Trainer is to do next."""

        should_save: bool


STRICT = ("optimizer.pt", "scheduler.pt", "scaler.pt")  # what it reads with weights_only=True


def last(folder: str) -> str | None:
    """Return the newest checkpoint of a folder that can be read, if there is one."""
    found = [path for path in sorted(Path(folder).glob("checkpoint-*")) if path.name[11:].isdigit()]
    whole = [path for path in found if (path / "trainer_state.json").exists()]
    newest = sorted(whole, key=lambda path: int(path.name[11:]), reverse=True)
    return next((str(path) for path in newest if _is_readable(path)), None)


def _is_readable(folder: Path) -> bool:
    """Say whether the Trainer could read a checkpoint; warn if not."""
    try:
        check(folder)
    except serialization.ERRORS as error:
        warnings.warn(f"{folder} is left out: {error}", stacklevel=3)
        return False
    return True


def check(folder: Path) -> None:
    """Refuse a checkpoint that the Trainer could not read.

    Raises:
        TypeError: a file holds a class that is not read.
        OSError: a file does not hold what was written to it.
    """
    for path in sorted(folder.glob("*")):
        serialization.check_file(path, weights_only=path.name in STRICT)


def suspension(run: Run | None = None) -> Any:
    """Return a callback that asks for a checkpoint, and leaves after it."""
    from transformers import TrainerCallback

    class Suspension(TrainerCallback):  # type: ignore[misc, unused-ignore]  # its type is Any here
        """Asks for a checkpoint when Shunter does."""

        def __init__(self) -> None:
            serialization.allow_numbers()
            self.run = run or start()
            self.is_asked = False

        def on_train_begin(self, _: object, state: State, control: Control, **__: object) -> None:
            """Count on from the checkpoint that the Trainer has loaded."""
            del control
            self.run.steps_done = state.global_step

        def on_step_end(self, _: object, state: State, control: Control, **__: object) -> Control:
            """Tell the step; have the Trainer save, unless the epoch ends here."""
            self.is_asked = self.run.boundary() or self.is_asked
            if self.is_asked and not float(state.epoch or 0.5).is_integer():
                control.should_save = True
            return control

        def on_train_end(self, _: object, state: State, control: Control, **__: object) -> None:
            """Tell that the training has come to its end."""
            del state, control
            self.run.completed()

        def on_epoch_end(self, _: object, state: State, control: Control, **__: object) -> Control:
            """Have the Trainer save after what it does at the end of an epoch."""
            del state
            if self.is_asked:
                control.should_save = True
            return control

        def on_save(self, args: Arguments, state: State, control: Control, **__: object) -> Control:
            """Leave once the checkpoint that was asked for is written."""
            if self.is_asked:
                folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
                self.run.saved_by_script(folder, check)
                self.is_asked = False
            return control

    return Suspension()
