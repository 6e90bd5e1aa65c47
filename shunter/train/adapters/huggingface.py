"""Hugging Face Trainer: `Trainer(..., callbacks=[suspension()])`.

The Trainer saves its checkpoint itself, chance included, into its own output folder, which must be
the same for all attempts; resume with
`trainer.train(resume_from_checkpoint=last(arguments.output_dir))`. It saves after an evaluation
that is due, since neither a resumed run nor the chance of what follows would make up for it.
The trainers of TRL and Sentence Transformers are such Trainers.
"""

from __future__ import annotations

import json
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from shunter.train import loaders, serialization, state as chance
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
MADE_WITH = "shunter.json"
# It is there while the Trainer's own handler of SIGTERM writes a checkpoint.
_HALF = "checkpoint-is-incomplete.txt"
# Without one of these the Trainer goes on with a new optimizer, schedule or chance, and no word.
_NEEDED = {
    "an optimizer's state": ("optimizer*", "rank*-optimizer.pt", "global_step*"),
    "a schedule's state": ("scheduler.pt", "global_step*"),
    "the random state": ("rng_state*",),
}


def last(folder: str) -> str | None:
    """Return the newest checkpoint of a folder that can be read, if there is one.

    One that lacks what a resumed run would silently begin anew with (an optimizer's state, the
    schedule, the random state) is left out with a warning, and an older whole one taken.

    Raises:
        ValueError: there are checkpoints, and all of them lack something.
    """
    found = [path for path in sorted(Path(folder).glob("checkpoint-*")) if path.name[11:].isdigit()]
    written = [path for path in found if (path / "trainer_state.json").exists()]
    newest = sorted(written, key=lambda path: int(path.name[11:]), reverse=True)
    for path in newest:
        if _is_readable(path):
            return str(path)
    if newest:
        raise ValueError(
            f"no checkpoint in {folder} can be resumed exactly (see the warnings above): remove "
            "them to begin anew, or pass the folder of one to trainer.train yourself"
        )
    return None


def _is_readable(folder: Path) -> bool:
    """Say whether the Trainer could go on with a checkpoint; warn if not."""
    try:
        check(folder)
    except serialization.ERRORS as error:
        warnings.warn(f"{folder} is left out: {error}", stacklevel=3)
        return False
    return True


def check(folder: Path) -> None:
    """Refuse a checkpoint that the Trainer could not read, or go on with exactly.

    Raises:
        TypeError: a file holds a class that is not read.
        OSError: a file does not hold what was written to it, or is not there.
    """
    if (folder / _HALF).exists():
        raise OSError(f"{folder.name} is half written: a signal came meanwhile")
    for what, names in _NEEDED.items():
        if not any(sorted(folder.glob(name)) for name in names):
            raise OSError(
                f"{folder.name} lacks {what} ({names[0]}), with which a resumed run would begin "
                "anew: is save_only_model set, or was it written by another program?"
            )
    for path in sorted(folder.glob("*")):
        serialization.check_file(path, weights_only=path.name in STRICT)


def suspension(run: Run | None = None) -> Any:
    """Return a callback that asks for a checkpoint, and leaves after it."""
    import transformers

    made_with = {"transformers": str(getattr(transformers, "__version__", ""))}

    class Suspension(transformers.TrainerCallback):  # type: ignore[misc, unused-ignore]  # is Any
        """Asks for a checkpoint when Shunter does."""

        def __init__(self) -> None:
            serialization.allow_numbers()
            self.run = run or start(made_with=made_with)
            self.is_asked = False

        def on_train_begin(self, args: Arguments, state: State, _: Control, **more: Any) -> None:
            """Count on from the checkpoint that the Trainer has loaded.

            Raises:
                ValueError: it is one that the Trainer cannot go on with exactly.
            """
            self.run.steps_done = state.global_step
            named = ("model", "optimizer", "lr_scheduler")
            self.run.observed = lambda: {name: more[name] for name in named if name in more}
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            if state.global_step and folder.exists():
                _check_resumed(self.run, folder)
            _warn(self.run, args, more.get("train_dataloader"))

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
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            if getattr(state, "is_world_process_zero", True) and folder.exists():
                (folder / MADE_WITH).write_text(json.dumps({"made_with": made_with}))
            if self.is_asked:
                self.run.saved_by_script(folder, check)
                self.is_asked = False
            return control

    return Suspension()


def _check_resumed(run: Run, folder: Path) -> None:
    """Refuse a checkpoint that lacks something; warn of another version.

    Raises:
        ValueError: it lacks something.
    """
    try:
        check(folder)
    except OSError as error:
        raise ValueError(
            f"{error}; pass resume_from_checkpoint=last(arguments.output_dir), which takes an "
            "older whole one"
        ) from error
    try:
        made_with = json.loads((folder / MADE_WITH).read_text())["made_with"]
    except FileNotFoundError:
        return  # of an earlier SDK
    run.check_made_with(folder, made_with)


def _warn(run: Run, args: Any, loader: Any) -> None:
    """Warn of what will not be exact, or be lost."""
    if getattr(args, "save_only_model", False):
        run.warn(
            "save_only_model: such checkpoints have no optimizer, so that none is accepted, and "
            "the run cannot be suspended; leave it off"
        )
    if getattr(args, "ignore_data_skip", False):
        run.warn("ignore_data_skip: a resumed run begins the epoch's data anew, so it is not exact")
    if loader is not None and _draws(loader):
        run.warn(
            "the data set or the collator draws at random (masked words, noise): the Trainer "
            "fetches ahead of what it saves, so that a resumed run is given other draws; draw by "
            "the number of the sample, or in the model"
        )


def _draws(loader: Any) -> bool:
    """Try whether a batch of a loader draws at random; put all chance back."""
    before, own = chance.chance(), loaders.generators(loader)
    states = [chance.captured(each) for each in own]
    with suppress(Exception):  # of a stream, say; whatever a data set does with index 0
        loader.collate_fn([loader.dataset[0]])
    has_drawn = not chance.are_equal(before, chance.chance()) or not all(
        chance.are_equal(one, chance.captured(each)) for one, each in zip(states, own)
    )
    chance.set_chance(before)
    for each, one in zip(own, states):
        chance.restore(each, one)
    return has_drawn
