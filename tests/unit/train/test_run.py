import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shunter.train import channel
from shunter.train.run import Run, start
from tests.unit.train.toy import Left, Model, leave, run_of, trained

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
def folders(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "channel").mkdir()
    return tmp_path / "channel", tmp_path / "checkpoints"


def nothing(_: int) -> None:
    return


def uninterrupted() -> list[float]:
    random.seed(7)
    losses: list[float] = []
    model = Model()
    trained(run_of(None, None, model), model, losses, nothing)
    return losses


@pytest.mark.parametrize("stops", [[1], [5], [7], [3, 4, 9], [13, 14], [2, 8, 11, 17]])
def test_resumed_losses_are_bit_identical(folders: tuple[Path, Path], stops: list[int]) -> None:
    """Stop after the given numbers of recorded losses, each time in a run that begins anew."""
    expected = uninterrupted()
    line, store = folders
    random.seed(7)
    losses: list[float] = []

    def ask(count: int) -> None:
        if count in stops:
            channel.ask_suspend(line, stops.index(count) + 1, 5.0)

    for attempt in range(1, len(stops) + 2):
        model = Model()
        run = run_of(line, store, model, attempt)
        assert run._requests is not None
        run._requests.close(attempt - 1)  # a real attempt has a folder of its own
        try:
            trained(run, model, losses, ask)
        except Left:
            random.seed(99)  # the next process starts with other chance
    assert losses == expected


def test_evaluation_is_interrupted_and_done_again(folders: tuple[Path, Path]) -> None:
    expected = uninterrupted()
    line, store = folders
    random.seed(7)
    losses: list[float] = []
    model = Model()

    def ask(count: int) -> None:
        if count == -2:  # the second batch of an evaluation
            channel.ask_suspend(line, 1, 5.0)

    with pytest.raises(Left):
        trained(run_of(line, store, model), model, losses, ask)
    assert len(losses) == 5  # one epoch, and its evaluation not done
    random.seed(99)
    model = Model()
    run = run_of(None, store, model, 2)
    assert run.is_evaluation_due
    trained(run, model, losses, nothing)
    assert losses == expected


def test_request_is_acknowledged_and_saved_with_step_and_size(folders: tuple[Path, Path]) -> None:
    line, store = folders
    run = run_of(line, store, Model())
    run.step()
    channel.ask_suspend(line, 4, 5.0)
    with pytest.raises(Left):
        run.step()
    acknowledged = channel.answers(line, "acknowledged", 4)[0]
    saved = channel.answers(line, "saved", 4)[0]
    assert (acknowledged["step"], saved["step"]) == (2, 2)
    assert saved["at_monotonic_s"] >= acknowledged["at_monotonic_s"]
    assert saved["bytes"] == (Path(saved["path"]) / "rank-0.state").stat().st_size
    assert channel.is_saved(line, 4)


def test_failed_checkpoint_is_told_and_the_run_goes_on(folders: tuple[Path, Path]) -> None:
    line, store = folders
    store.write_text("no folder")
    run = run_of(line, store, Model())
    channel.ask_suspend(line, 1, 5.0)
    run.step()
    run.step()
    failed = channel.answers(line, "failed", 1)[0]
    assert failed["step"] == 1
    assert "Error" in failed["error"]
    assert not channel.is_saved(line, 1)
    store.unlink()
    channel.ask_suspend(line, 2, 5.0)
    with pytest.raises(Left):
        run.step()


def test_suspension_without_a_folder_of_checkpoints_fails(folders: tuple[Path, Path]) -> None:
    run = run_of(folders[0], None, Model())
    channel.ask_suspend(folders[0], 1, 5.0)
    run.step()
    assert "SHUNTER_CHECKPOINTS" in channel.answers(folders[0], "failed", 1)[0]["error"]


def test_progress_names_step_and_batch_time(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    instants = iter([10.0, 10.25, 10.75])
    monkeypatch.setattr(channel, "PROGRESS_EVERY_S", -1.0)  # tell each step
    run = run_of(folders[0], None, Model())
    told = []
    for _ in range(3):
        run._pace.passes(next(instants))
        run.steps_done += 1
        run._tell("training")
        told.append(channel.progress(folders[0])[0])
    assert [each["batch_s"] for each in told] == [None, 0.25, 0.5]
    assert [each["step"] for each in told] == [1, 2, 3]
    assert told[-1]["state"] == "training"
    assert told[-1]["pid"] == os.getpid()


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


def test_channel_that_vanished_does_not_stop_the_training(folders: tuple[Path, Path]) -> None:
    folders[0].rmdir()
    run = run_of(folders[0], None, Model())
    run.step()
    run.finish()
    assert run.steps_done == 1


def test_rank_ends_quietly_where_the_channel_vanished(folders: tuple[Path, Path]) -> None:
    run = Run(folders[0], None, world=2)
    run.step()
    folders[0].joinpath("progress.0.json").unlink()
    folders[0].rmdir()
    run.finish()
    assert run.steps_done == 1


def test_part_without_state_is_refused_at_the_start(folders: tuple[Path, Path]) -> None:
    with pytest.raises(TypeError, match="part 'lamp': a object has neither"):
        start(lamp=object())


def test_checkpoint_of_another_world_is_refused(folders: tuple[Path, Path]) -> None:
    run_of(None, folders[1], Model()).save()
    run = Run(None, run_of(None, folders[1], Model())._checkpoints, world=2, leave=leave)
    with pytest.raises(ValueError, match="is of 1 ranks, this run has 2"):
        run.resume()


def job(folders: tuple[Path, Path], steps: int, **more: str) -> "subprocess.Popen[str]":
    names = {channel.CHANNEL: str(folders[0]), channel.CHECKPOINTS: str(folders[1])}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(steps)],
        env={**os.environ, **names, **more},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def lines(process: "subprocess.Popen[str]", count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().strip() for _ in range(count)]


def test_process_exits_with_75_and_resumes(folders: tuple[Path, Path]) -> None:
    with job(folders, 6) as process:
        assert lines(process, 2) == ["at 0 0", "three"]
        channel.ask_suspend(folders[0], 1, 5.0)
        process.communicate("\n")
    assert process.returncode == channel.EXIT_SUSPENDED
    (folders[0] / channel.SUSPEND).unlink()
    with job(folders, 6, SHUNTER_ATTEMPT="2") as process:
        assert lines(process, 1) == ["at 4 4"]
        process.communicate("\n")
    assert process.returncode == 0
    assert channel.progress(folders[0])[0]["state"] == "finished"


def test_signal_asks_as_the_file_does(folders: tuple[Path, Path]) -> None:
    with job(folders, 6, SHUNTER_SUSPEND_SIGNAL="USR2") as process:
        lines(process, 2)
        process.send_signal(signal.SIGUSR2)
        process.communicate("\n")
    assert process.returncode == channel.EXIT_SUSPENDED
    assert channel.is_saved(folders[0], 1)


def test_supervisor_that_reads_lines_is_told(tmp_path: Path) -> None:
    """The channel is a FIFO, and the request an empty file: what the node's supervisor makes."""
    fifo, asks = tmp_path / "channel", tmp_path / "suspend"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    try:
        folders = (fifo, tmp_path / "checkpoints")
        with job(folders, 6, SHUNTER_SUSPEND=str(asks), SHUNTER_ATTEMPT="3") as process:
            lines(process, 2)
            asks.touch()
            process.communicate("\n")
        told = [json.loads(line) for line in os.read(reader, 1 << 16).splitlines()]
    finally:
        os.close(reader)
    assert process.returncode == channel.EXIT_SUSPENDED
    assert [(each["what"], each["step"]) for each in told] == [("acknowledged", 4), ("saved", 4)]
    assert Path(told[1]["checkpoint"]).is_dir()
    assert told[1]["bytes"] > 0
    files = channel.pipe_folder(tmp_path / "checkpoints", 3)
    assert channel.progress(files)[0]["step"] == 4


def test_sdk_loads_neither_torch_nor_anything_of_ours() -> None:
    script = (
        "import sys; from shunter import train; "
        "print([n for n in sorted(sys.modules) if n.split('.')[0] in ('torch', 'numpy', 'pydantic')"
        " or n.startswith('shunter.') and not n.startswith('shunter.train')])"
    )
    done: Any = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"
