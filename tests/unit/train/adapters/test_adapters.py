"""The adapters against minimal fakes of the callback interfaces; the libraries are not here.

What is proven is our half: which method is called when, and what we do in it.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from shunter.train import run
from shunter.train.adapters import accelerate, huggingface, lightning
from tests.unit.train.toy import Left, Supervisor, leave


@pytest.fixture
def supervisor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervisor]:
    """The supervisor of a run in which leaving raises."""
    with Supervisor(tmp_path / "attempt") as found:
        for name, value in found.environment(tmp_path / "checkpoints").items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(run, "leave_at_once", leave)
        yield found


def library(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    module = ModuleType(name)
    for member, value in members.items():
        setattr(module, member, value)
    monkeypatch.setitem(sys.modules, name, module)


def test_trainer_is_asked_to_save_and_left_after_it(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library(monkeypatch, "transformers", TrainerCallback=object)
    callback = huggingface.suspension()
    arguments = SimpleNamespace(output_dir=str(tmp_path / "output"))
    state = SimpleNamespace(global_step=40)
    control = SimpleNamespace(should_save=False, should_evaluate=True)
    callback.on_train_begin(arguments, state, control)
    callback.on_step_end(arguments, state, control, model=None)
    assert not control.should_save
    supervisor.ask()
    callback.on_step_end(arguments, state, control)
    assert control.should_save
    state.global_step = 42
    folder = tmp_path / "output" / "checkpoint-42"
    folder.mkdir(parents=True)
    (folder / "trainer_state.json").write_text("{}")
    with pytest.raises(Left):
        callback.on_save(arguments, state, control)
    (saved,) = supervisor.told("saved")
    assert (saved["step"], saved["checkpoint"], saved["bytes"]) == (42, str(folder), 2)
    assert huggingface.last(arguments.output_dir) == str(folder)


def test_last_checkpoint_counts_numbers_and_skips_halves(tmp_path: Path) -> None:
    for name in ("checkpoint-9", "checkpoint-10", "checkpoint-11", "checkpoint-best"):
        (tmp_path / name).mkdir()
    for name in ("checkpoint-9", "checkpoint-10"):
        (tmp_path / name / "trainer_state.json").write_text("{}")
    assert huggingface.last(str(tmp_path)) == str(tmp_path / "checkpoint-10")
    assert huggingface.last(str(tmp_path / "absent")) is None


@pytest.mark.parametrize("name", ["lightning.pytorch", "pytorch_lightning"])
def test_lightning_saves_into_our_folder_and_resumes(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(sys.modules, "lightning.pytorch", None)
    library(monkeypatch, name, Callback=object)
    if name == "lightning.pytorch":
        library(monkeypatch, "lightning")
    trainer = SimpleNamespace(save_checkpoint=lambda path: Path(path).write_text("weights"))
    callback = lightning.suspension()
    assert callback.resume_path is None
    callback.on_train_batch_end(trainer, None, None, None, 0)
    supervisor.ask()
    with pytest.raises(Left):
        callback.on_train_batch_end(trainer, None, None, None, 1)
    supervisor.asks.unlink()
    again = lightning.suspension()
    assert Path(again.resume_path).read_text() == "weights"
    assert again.run.steps_done == 2


def test_accelerator_saves_and_loads_its_state(supervisor: Supervisor) -> None:
    class Accelerator:
        def __init__(self) -> None:
            self.loaded: dict[str, int] | None = None

        def save_state(self, folder: str) -> None:
            Path(folder).mkdir()
            (Path(folder) / "model.json").write_text(json.dumps({"weight": 3}))

        def load_state(self, folder: str) -> None:
            self.loaded = json.loads((Path(folder) / "model.json").read_text())

    supervisor.ask()
    with pytest.raises(Left):
        accelerate.started(Accelerator()).step()
    accelerator = Accelerator()
    assert accelerate.started(accelerator).steps_done == 1
    assert accelerator.loaded == {"weight": 3}
