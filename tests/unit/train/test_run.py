import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shunter.train import channel
from shunter.train.channel import Requests
from shunter.train.checkpoints import Checkpoints
from shunter.train.run import Run, start
from shunter.train.state import Parts
from tests.unit.train.toy import Left, Model, Supervisor, leave, run_of, trained

SCRIPT = """
import sys
from shunter import train
done = []
class Counter:
    def state_dict(self): return {"done": len(done)}
    def load_state_dict(self, state): done.extend([0] * state["done"])
run = train.start(counter=Counter())
print("at", run.steps_done, len(done), flush=True)
while run.steps_done < int(sys.argv[1]):
    done.append(0)
    run.step()
    if run.steps_done == 3: print("three", flush=True); sys.stdin.readline()
"""


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    with Supervisor(tmp_path / "attempt") as found:
        yield found


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


def nothing(_: int) -> None:
    return


def uninterrupted() -> list[float]:
    random.seed(7)
    losses: list[float] = []
    model = Model()
    trained(run_of(None, None, model), model, losses, nothing)
    return losses


@pytest.mark.parametrize("stops", [[1], [5], [7], [3, 4, 9], [13, 14], [2, 8, 11, 17]])
def test_resumed_losses_are_bit_identical(
    supervisor: Supervisor, store: Path, stops: list[int]
) -> None:
    """Stop after the given numbers of recorded losses, each time in a run that begins anew."""
    expected = uninterrupted()
    random.seed(7)
    losses: list[float] = []

    def ask(count: int) -> None:
        if count in stops:
            supervisor.ask()

    for attempt in range(1, len(stops) + 2):
        model = Model()
        run = run_of(supervisor, store, model, attempt)
        try:
            trained(run, model, losses, ask)
        except Left:
            supervisor.asks.unlink()  # a real attempt has a folder of its own
            random.seed(99)  # the next process starts with other chance
    assert losses == expected


def test_evaluation_is_interrupted_and_done_again(supervisor: Supervisor, store: Path) -> None:
    expected = uninterrupted()
    random.seed(7)
    losses: list[float] = []
    model = Model()

    def ask(count: int) -> None:
        if count == -2:  # the second batch of an evaluation
            supervisor.ask()

    with pytest.raises(Left):
        trained(run_of(supervisor, store, model), model, losses, ask)
    assert len(losses) == 5  # one epoch, and its evaluation not done
    random.seed(99)
    model = Model()
    run = run_of(None, store, model, 2)
    assert run.is_evaluation_due
    trained(run, model, losses, nothing)
    assert losses == expected


def test_request_is_acknowledged_and_saved_with_step_and_size(
    supervisor: Supervisor, store: Path
) -> None:
    run = run_of(supervisor, store, Model())
    run.step()
    supervisor.ask()
    with pytest.raises(Left):
        run.step()
    (acknowledged,), (saved,) = supervisor.told("acknowledged"), supervisor.told("saved")
    assert (acknowledged["step"], saved["step"]) == (2, 2)
    assert saved["bytes"] == (Path(saved["checkpoint"]) / "rank-0.state").stat().st_size
    assert supervisor.told("progress")[-1]["state"] == "saving"


def test_checkpoint_that_nobody_asked_for_is_told_too(supervisor: Supervisor, store: Path) -> None:
    run = run_of(supervisor, store, Model())
    run.save_every = 2
    for _ in range(5):
        run.step()
    saved = supervisor.told("saved")
    assert [each["step"] for each in saved] == [2, 4]
    assert all(Path(each["checkpoint"]).is_dir() for each in saved)
    assert not supervisor.told("acknowledged")


def test_folder_that_a_script_names_relatively_is_told_in_full(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The supervisor is somewhere else."""
    monkeypatch.chdir(tmp_path)
    folder = Path("own")
    folder.mkdir()
    (folder / "weights").touch()
    run = run_of(supervisor, None, Model())
    supervisor.ask()
    assert run.boundary()
    with pytest.raises(Left):
        run.saved_by_script(folder)
    assert supervisor.told("saved")[0]["checkpoint"] == str(tmp_path / "own")


def test_failed_checkpoint_is_told_and_the_run_goes_on(supervisor: Supervisor, store: Path) -> None:
    store.write_text("no folder")
    run = run_of(supervisor, store, Model())
    supervisor.ask()
    run.step()
    run.step()
    (failed,) = supervisor.told("failed")
    assert failed["step"] == 1
    assert "Error" in failed["error"]
    assert not supervisor.told("saved")
    store.unlink()
    supervisor.ask()
    with pytest.raises(Left):
        run.step()


def test_suspension_without_a_folder_of_checkpoints_fails(supervisor: Supervisor) -> None:
    run = run_of(supervisor, None, Model())
    supervisor.ask()
    run.step()
    assert "SHUNTER_CHECKPOINT_DIR" in supervisor.told("failed")[0]["error"]


def test_progress_names_step_and_batch_time(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    instants = iter([10.0, 10.25, 10.75])
    monkeypatch.setattr(channel, "PROGRESS_EVERY_S", -1.0)  # tell each step
    run = run_of(supervisor, None, Model())
    for _ in range(3):
        run._step_rate.passes(next(instants))
        run.steps_done += 1
        run._tell("training")
    told = supervisor.told("progress")
    assert [each["batch_s"] for each in told] == [None, 0.25, 0.5]
    assert [each["step"] for each in told] == [1, 2, 3]
    assert (told[-1]["state"], told[-1]["rank"]) == ("training", 0)


def test_outside_shunter_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (channel.CHANNEL, channel.CHECKPOINTS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    run = start(model=Model(), save_every=1)
    for _ in run.epochs(2):
        for _batch in run.batches(range(3)):
            run.step()
        assert list(run.evaluate(range(2))) == [0, 1]
    run.finish()
    assert run.steps_done == 6
    assert not sorted(tmp_path.iterdir())


def states(supervisor: Supervisor) -> list[str]:
    return [each["state"] for each in supervisor.told("progress")]


def test_end_of_the_last_epoch_is_told_and_no_other_end_of_a_loop(supervisor: Supervisor) -> None:
    run = run_of(supervisor, None, Model())
    for _ in run.epochs(3):
        break
    assert states(supervisor) == []
    trained(run, Model(), [], lambda _: None, epochs=2)
    assert states(supervisor)[-1] == "completed"
    run.exits()
    assert states(supervisor)[-1] == "finished"
    run.completed()
    assert states(supervisor)[-1] == "finished"


def test_script_says_that_all_is_done_and_the_end_of_its_process_does_not(
    supervisor: Supervisor,
) -> None:
    run_of(supervisor, None, Model()).exits()
    assert states(supervisor) == ["finished"]
    run = run_of(supervisor, None, Model())
    run.finish()
    run.exits()
    assert states(supervisor) == ["finished", "done", "finished"]


def test_warning_is_told_once(supervisor: Supervisor, capfd: pytest.CaptureFixture[str]) -> None:
    run = run_of(supervisor, None, Model())
    run.warn("the order is drawn again")
    run.warn("the order is drawn again")
    assert supervisor.told("warned") == [
        {"what": "warned", "text": "the order is drawn again", "step": 0}
    ]
    assert capfd.readouterr().err == "shunter: warning: the order is drawn again\n"


@pytest.mark.parametrize("letter", ["x", "é", "\U0001f600"])
def test_long_warning_is_told_in_its_beginning(supervisor: Supervisor, letter: str) -> None:
    run_of(supervisor, None, Model()).warn(letter * 5000)
    (told,) = supervisor.told("warned")
    assert 250 <= len(told["text"]) <= 500


def test_channel_that_vanished_does_not_stop_the_training(supervisor: Supervisor) -> None:
    run = run_of(supervisor, None, Model())
    supervisor.line.unlink()
    run.step()
    run.finish()
    assert run.steps_done == 1


def test_rank_ends_quietly_where_its_ranks_meet_no_more(store: Path) -> None:
    run = Run(Checkpoints(store, attempt=1, rank=0, world=2), world=2, requests=Requests(""))
    run.step()
    (store / "attempt-000001" / "votes").rmdir()
    run.finish()
    assert run.steps_done == 1


def test_part_without_state_is_refused_at_the_start() -> None:
    with pytest.raises(TypeError, match="part 'lamp': a object has neither"):
        start(lamp=object())


def test_checkpoint_of_another_world_is_refused(store: Path) -> None:
    run_of(None, store, Model()).save()
    parts = Parts({"model": Model()})
    run = Run(run_of(None, store, Model())._checkpoints, world=2, parts=parts, leave=leave)
    with pytest.raises(ValueError, match="is of 1 rank, this run has 2"):
        run.resume()


def job(supervisor: Supervisor, store: Path, steps: int, **more: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(steps)],
        env={**os.environ, **supervisor.environment(store), **more},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def lines(process: "subprocess.Popen[str]", count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().strip() for _ in range(count)]


def test_process_exits_with_75_and_resumes(supervisor: Supervisor, store: Path) -> None:
    with job(supervisor, store, 6) as process:
        assert lines(process, 2) == ["at 0 0", "three"]
        supervisor.ask()
        process.communicate("\n")
    assert process.returncode == channel.EXIT_SUSPENDED
    assert [each["step"] for each in supervisor.told("acknowledged")] == [4]
    (saved,) = supervisor.told("saved")
    assert saved["step"] == 4
    assert Path(saved["checkpoint"]).is_dir()
    supervisor.asks.unlink()
    with job(supervisor, store, 6, SHUNTER_ATTEMPT="2") as process:
        assert lines(process, 1) == ["at 4 4"]
        process.communicate("\n")
    assert process.returncode == 0
    assert supervisor.told("progress")[-1]["state"] == "finished"


def test_signal_asks_as_the_file_does(supervisor: Supervisor, store: Path) -> None:
    with job(supervisor, store, 6, SHUNTER_SUSPEND_SIGNAL="USR2") as process:
        lines(process, 2)
        process.send_signal(signal.SIGUSR2)
        process.communicate("\n")
    assert process.returncode == channel.EXIT_SUSPENDED
    assert supervisor.told("saved")


def test_sdk_loads_neither_torch_nor_anything_of_ours() -> None:
    script = (
        "import sys; from shunter import train; "
        "print([n for n in sorted(sys.modules) if n.split('.')[0] in ('torch', 'numpy', 'pydantic')"
        " or n.startswith('shunter.') and not n.startswith(('shunter.train', 'shunter.sdk_hint'))])"
    )
    done: Any = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"
