"""Hugging Face Trainer: `Trainer(..., callbacks=[suspension()])`.

The Trainer saves its checkpoint itself, chance included, into its own output folder, which must be
the same for all attempts; resume with
`trainer.train(resume_from_checkpoint=last(arguments.output_dir))`. It saves after an evaluation
that is due, since neither a resumed run nor the chance of what follows would make up for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

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


def last(folder: str) -> str | None:
    """Return the newest checkpoint of an output folder, if there is one."""
    found = [path for path in sorted(Path(folder).glob("checkpoint-*")) if path.name[11:].isdigit()]
    whole = [path for path in found if (path / "trainer_state.json").exists()]
    return str(max(whole, key=lambda path: int(path.name[11:]))) if whole else None


def suspension(run: Run | None = None) -> Any:
    """Return a callback that asks for a checkpoint, and leaves after it."""
    from transformers import (  # type: ignore[import-not-found, unused-ignore]  # only with it
        TrainerCallback,
    )

    class Suspension(TrainerCallback):  # type: ignore[misc, unused-ignore]  # its type is Any here
        """Asks for a checkpoint when Shunter does."""

        def __init__(self) -> None:
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
                self.run.saved_by_script(folder)
                self.is_asked = False
            return control

    return Suspension()
