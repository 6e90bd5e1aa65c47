"""The adapters against minimal fakes of the callback interfaces, without the libraries.

What is proven is our half: which method is called when, and what we do in it. With the libraries
themselves `tests/live/train` trains.
"""

import json
import sys
from collections.abc import Callable, Iterator
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


def write_whole(folder: Path, but: str = "") -> None:
    """Write the files that a checkpoint of the Trainer has, without one."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json"):
        if name != but:
            (folder / name).write_text("{}")


def test_trainer_is_asked_to_save_and_left_after_it(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library(monkeypatch, "transformers", TrainerCallback=object)
    callback = huggingface.suspension()
    arguments = SimpleNamespace(output_dir=str(tmp_path / "output"))
    state = SimpleNamespace(global_step=40, epoch=0.5)
    control = SimpleNamespace(should_save=False, should_evaluate=True)
    callback.on_train_begin(arguments, state, control)
    callback.on_step_end(arguments, state, control, model=None)
    assert not control.should_save
    supervisor.ask()
    callback.on_step_end(arguments, state, control)
    assert control.should_save
    state.global_step = 42
    folder = tmp_path / "output" / "checkpoint-42"
    write_whole(folder)
    with pytest.raises(Left):
        callback.on_save(arguments, state, control)
    (saved,) = supervisor.told("saved")
    assert (saved["step"], saved["checkpoint"]) == (42, str(folder))
    assert huggingface.last(arguments.output_dir) == str(folder)


def test_last_checkpoint_counts_numbers_and_skips_halves(tmp_path: Path) -> None:
    for name in ("checkpoint-9", "checkpoint-10", "checkpoint-11", "checkpoint-best"):
        (tmp_path / name).mkdir()
    for name in ("checkpoint-9", "checkpoint-10"):
        write_whole(tmp_path / name)
    assert huggingface.last(str(tmp_path)) == str(tmp_path / "checkpoint-10")
    assert huggingface.last(str(tmp_path / "absent")) is None


@pytest.mark.parametrize("lacking", ["optimizer.pt", "scheduler.pt", "rng_state.pth"])
def test_checkpoint_that_lacks_what_would_begin_anew_is_not_the_last(
    tmp_path: Path, lacking: str
) -> None:
    write_whole(tmp_path / "checkpoint-10", but=lacking)
    with (
        pytest.warns(UserWarning, match="checkpoint-10 lacks"),
        pytest.raises(ValueError, match="can be resumed exactly"),
    ):
        huggingface.last(str(tmp_path))
    write_whole(tmp_path / "checkpoint-9")
    with pytest.warns(UserWarning, match="checkpoint-10 lacks"):
        assert huggingface.last(str(tmp_path)) == str(tmp_path / "checkpoint-9")


def test_checkpoint_that_a_signal_left_half_written_is_not_the_last(tmp_path: Path) -> None:
    for step in (9, 10):
        write_whole(tmp_path / f"checkpoint-{step}")
    (tmp_path / "checkpoint-10" / "checkpoint-is-incomplete.txt").touch()
    with pytest.warns(UserWarning, match="half written"):
        assert huggingface.last(str(tmp_path)) == str(tmp_path / "checkpoint-9")


def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, **arguments: Any) -> None:
    library(monkeypatch, "transformers", TrainerCallback=object, __version__="5.24.0")
    told = SimpleNamespace(output_dir=str(tmp_path), **arguments)
    state = SimpleNamespace(global_step=step, epoch=0.5)
    huggingface.suspension().on_train_begin(told, state, SimpleNamespace())


def test_trainer_that_has_loaded_no_optimizer_does_not_go_on(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_whole(tmp_path / "checkpoint-10", but="optimizer.pt")
    with pytest.raises(ValueError, match=r"lacks an optimizer's state.*pass resume_from_check"):
        begin(tmp_path, monkeypatch, 10)
    write_whole(tmp_path / "checkpoint-10")
    begin(tmp_path, monkeypatch, 10)
    assert not supervisor.told("warned")


@pytest.mark.parametrize("option", ["save_only_model", "ignore_data_skip"])
def test_option_with_which_a_resume_is_not_exact_is_told(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    begin(tmp_path, monkeypatch, 0, **{option: True})
    (warned,) = supervisor.told("warned")
    assert option in warned["text"]


def test_checkpoint_of_another_version_of_the_library_is_told(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_whole(tmp_path / "checkpoint-10")
    made_with = {"made_with": {"transformers": "5.23.0"}}
    (tmp_path / "checkpoint-10" / huggingface.MADE_WITH).write_text(json.dumps(made_with))
    begin(tmp_path, monkeypatch, 10)
    (warned,) = supervisor.told("warned")
    assert "transformers 5.23.0" in warned["text"]


def test_trainer_saves_after_what_it_does_at_the_end_of_an_epoch(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library(monkeypatch, "transformers", TrainerCallback=object)
    callback = huggingface.suspension()
    control = SimpleNamespace(should_save=False, should_evaluate=True)
    supervisor.ask()
    callback.on_step_end(None, SimpleNamespace(global_step=6, epoch=1.0), control)
    assert not control.should_save
    callback.on_epoch_end(None, SimpleNamespace(global_step=6, epoch=1.0), control)
    assert (control.should_save, control.should_evaluate) == (True, True)


class Strategy:
    def process_dataloader(self, loader: list[int]) -> list[int]:
        return loader


class LightningTrainer:
    """What the callback needs of a Lightning Trainer, and a loop over what it trains from."""

    def __init__(self, accumulate: int = 1) -> None:
        self.strategy = Strategy()
        self.training, self.is_last_batch = True, False
        self.current_epoch, self.accumulate_grad_batches = 0, accumulate
        self.fit_loop = SimpleNamespace(epoch_loop=SimpleNamespace(_batches_that_stepped=3))

    def save_checkpoint(self, path: str) -> None:
        Path(path).write_text("weights")

    def fits(self, callback: Any, asks: Callable[[int], None]) -> list[int]:
        """Train on what is left of ten batches; return them."""
        callback.setup(self, None, "fit")
        trained = []
        for index, batch in enumerate(self.strategy.process_dataloader(list(range(10)))):
            asks(batch)
            trained.append(batch)
            callback.on_train_batch_end(self, None, None, batch, index)
        callback.teardown(self, None, "fit")
        assert not vars(self.strategy)
        return trained


@pytest.mark.parametrize("name", ["lightning.pytorch", "pytorch_lightning"])
def test_lightning_saves_into_our_folder_and_resumes(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(sys.modules, "lightning.pytorch", None)
    library(monkeypatch, name, Callback=object)
    callback = lightning.suspension()
    assert callback.resume_path is None
    with pytest.raises(Left):
        LightningTrainer().fits(callback, lambda batch: supervisor.ask() if batch == 1 else None)
    supervisor.asks.unlink()
    again = lightning.suspension()
    assert Path(again.resume_path).read_text() == "weights"
    assert again.run.steps_done == 2
    assert LightningTrainer().fits(again, lambda _: None) == list(range(2, 10))


def test_lightning_leaves_once_accumulated_gradients_are_used(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    library(monkeypatch, "lightning.pytorch", Callback=object)
    with pytest.raises(Left):
        LightningTrainer(accumulate=4).fits(
            lightning.suspension(), lambda batch: supervisor.ask() if batch == 4 else None
        )
    assert lightning.suspension().run.steps_done == 8


def test_full_disk_under_accelerate_is_told_and_the_run_goes_on(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    class SafetensorError(Exception):
        pass

    class Accelerator:
        sync_gradients = True

        def save_state(self, _: str) -> None:
            raise SafetensorError("no space left on device")

        def load_state(self, _: str) -> None:
            raise AssertionError

    library(monkeypatch, "safetensors", SafetensorError=SafetensorError)
    supervisor.ask()
    run = accelerate.started(Accelerator())
    run.step()
    (failed,) = supervisor.told("failed")
    assert failed["error"] == "OSError: no space left on device"


def test_accelerator_saves_and_loads_its_state(supervisor: Supervisor) -> None:
    class Accelerator:
        def __init__(self) -> None:
            self.loaded: dict[str, int] | None = None
            self.sync_gradients = False

        def save_state(self, folder: str) -> None:
            Path(folder).mkdir()
            (Path(folder) / "model.json").write_text(json.dumps({"weight": 3}))

        def load_state(self, folder: str) -> None:
            self.loaded = json.loads((Path(folder) / "model.json").read_text())

    supervisor.ask()
    accelerator = Accelerator()
    run = accelerate.started(accelerator)
    run.step()  # its gradients wait for those of the next one
    accelerator.sync_gradients = True
    with pytest.raises(Left):
        run.step()
    assert accelerate.started(accelerator).steps_done == 2
    assert accelerator.loaded == {"weight": 3}
