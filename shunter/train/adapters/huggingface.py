"""Hugging Face Trainer: `Trainer(..., callbacks=[suspension()])`.

The Trainer saves its checkpoint itself, into its own output folder, which must be the same for
all attempts; resume with `trainer.train(resume_from_checkpoint=last(arguments.output_dir))`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shunter.train.run import Run, start


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

        def on_train_begin(self, _: Any, state: Any, control: Any, **__: Any) -> None:
            """Count on from the checkpoint that the Trainer has loaded."""
            del control
            self.run.steps_done = state.global_step

        def on_step_end(self, _: Any, state: Any, control: Any, **__: Any) -> Any:
            """Tell the step, and ask the Trainer to save and stop."""
            del state
            if self.run.boundary():
                self.is_asked = True
                control.should_save = True
                control.should_evaluate = False
            return control

        def on_save(self, args: Any, state: Any, control: Any, **__: Any) -> Any:
            """Leave once the checkpoint that was asked for is written."""
            if self.is_asked:
                folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
                self.run.saved_by_script(folder)
                self.is_asked = False
            return control

    return Suspension()
