"""What a run does with half a checkpoint, a full disk, and owners who forgot something.

Each is told in a line, on the job as well; the checkpoint before is kept, and the job goes on.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shunter.train import channel
from shunter.train.channel import Requests
from shunter.train.checkpoints import Checkpoints, check_place
from shunter.train.faults import FEW_BATCHES, MANY_PARTS
from shunter.train.run import Run
from shunter.train.state import Parts
from tests.unit.train.toy import ROOT, Left, Loader, Model, Supervisor, leave, run_of


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    with Supervisor(tmp_path / "attempt") as found:
        yield found


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


def started(
    store: Path, supervisor: Supervisor | None = None, attempt: int = 2, **more: Any
) -> Run:
    """Return a run that has not resumed yet, with the parts and functions given."""
    functions = {name: more.pop(name, None) for name in ("save", "load", "prove")}
    run = Run(
        Checkpoints(store, attempt=attempt, rank=0, world=more.pop("world", 1)),
        parts=Parts(more or {"model": Model()}, **functions),
        leave=leave,
        requests=Requests(str(supervisor.asks)) if supervisor else None,
        line=channel.Channel(str(supervisor.line)) if supervisor else None,
    )
    run.made_with = {}
    return run


def warnings(supervisor: Supervisor) -> list[str]:
    return [each["text"] for each in supervisor.told("warned")]


def two_checkpoints(store: Path, **more: Any) -> list[Path]:
    """Return the folders of what a run has saved at its first and at its second step."""
    run = started(store, attempt=1, **more)
    for _ in range(2):
        run.steps_done += 1
        run.save()
    return sorted(store.glob("attempt-*/step-*"))


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize(
    ("damage", "lacks"),
    [
        (lambda folder: cut(folder / "rank-0.state"), "rank-0.state has "),
        (lambda folder: cut(folder / "rank-0.json"), "rank-0.json is missing or cut"),
        (lambda folder: (folder / "rank-0.state").unlink(), "rank-0.state is missing"),
        (lambda folder: (folder / "rank-0.json").unlink(), "rank-0.json is missing or cut"),
        (lambda folder: cut(folder / "own.bin"), "own.bin has 500 bytes, not 1000"),
        (lambda folder: (folder / "own.bin").unlink(), "own.bin is missing"),
    ],
    ids=["state cut", "manifest cut", "no state", "no manifest", "own file cut", "no own file"],
)
def test_run_goes_on_from_the_one_before_half_a_checkpoint(
    supervisor: Supervisor, store: Path, damage: Callable[[Path], None], lacks: str
) -> None:
    def save(folder: Path) -> None:
        (folder / "own.bin").write_bytes(b"x" * 1000)

    before, newest = two_checkpoints(store, save=save)
    damage(newest)
    run = started(store, supervisor)
    run.resume()
    assert (run.steps_done, run.resumed_from) == (1, before)
    (told,) = warnings(supervisor)
    assert told.startswith(f"checkpoint {newest} is not whole ({lacks}")
    assert told.endswith(f": the run goes on from {before.name}")


def test_run_without_any_whole_checkpoint_says_that_it_begins_again(
    supervisor: Supervisor, store: Path
) -> None:
    for folder in two_checkpoints(store):
        cut(folder / "rank-0.state")
    run = started(store, supervisor)
    run.resume()
    assert (run.steps_done, run.resumed_from) == (0, None)
    assert [told.endswith("the run begins at its start") for told in warnings(supervisor)] == [
        True,
        True,
    ]


def damage_within(path: Path) -> None:
    """Change bytes of a file, not its size."""
    content = bytearray(path.read_bytes())
    content[: len(content) // 2] = bytes(len(content) // 2)
    path.write_bytes(content)


def test_checkpoint_that_cannot_be_read_is_told_and_the_one_before_is_taken(
    supervisor: Supervisor, store: Path
) -> None:
    before, newest = two_checkpoints(store)
    damage_within(newest / "rank-0.state")
    run = started(store, supervisor)
    run.resume()
    assert run.resumed_from == before
    (told,) = warnings(supervisor)
    assert told.startswith(f"checkpoint {newest} cannot be read (")
    damage_within(before / "rank-0.state")
    with pytest.raises(Exception, match=r".+"):  # nothing to go on from: it is refused
        started(store).resume()


def test_ranks_do_not_choose_another_checkpoint_each_for_itself(store: Path) -> None:
    for rank in (0, 1):
        for step in (1, 2):
            parts = {"step": step, "epoch": 0, "world": 2}
            Checkpoints(store, attempt=1, rank=rank, world=2).write(step, parts)
    damage_within(store / "attempt-000001" / "step-000000000002" / "rank-0.state")
    run = Run(Checkpoints(store, attempt=2, rank=0, world=2), world=2, leave=leave)
    with pytest.raises(Exception, match=r".+"):
        run.resume()
    assert run.steps_done == 0


def test_checkpoint_that_the_script_cannot_load_is_told_and_refused(
    supervisor: Supervisor, store: Path
) -> None:
    newest = two_checkpoints(store)[-1]

    def load(_: Path) -> None:
        raise RuntimeError("size mismatch for layer 2")

    with pytest.raises(RuntimeError, match="size mismatch"):
        started(store, supervisor, load=load).resume()
    (told,) = warnings(supervisor)
    assert told.startswith(f"checkpoint {newest} cannot be loaded (RuntimeError: size mismatch")


def test_part_that_was_not_saved_is_named(store: Path) -> None:
    two_checkpoints(store, model=Model())
    with pytest.raises(ValueError, match="part 'other' is not in it, which has these: model"):
        started(store, model=Model(), other=Model()).resume()


def test_part_that_the_script_no_longer_has_is_named(supervisor: Supervisor, store: Path) -> None:
    two_checkpoints(store, model=Model(), other=Model())
    run = started(store, supervisor, model=Model())
    run.resume()
    assert run.steps_done == 2
    (told,) = warnings(supervisor)
    assert "has other, which this script does not give train.start: that is not restored" in told


def made_with(store: Path, supervisor: Supervisor | None, **libraries: str) -> Run:
    run = started(store, supervisor, attempt=1 if supervisor is None else 2)
    run.made_with = libraries
    return run


@pytest.mark.parametrize(
    ("libraries", "said"),
    [
        ({"torch": "2.13"}, "this run is made with torch 2.13"),
        ({}, "this run is made with no library of its own"),
        ({"keras": "3.15", "torch": "2.13"}, "this run is made with keras 3.15, torch 2.13"),
    ],
)
def test_checkpoint_of_another_library_is_refused(
    supervisor: Supervisor, store: Path, libraries: dict[str, str], said: str
) -> None:
    made_with(store, None, keras="3.15").save()
    run = made_with(store, supervisor, **libraries)
    with pytest.raises(ValueError, match=f"was made with keras 3.15, {said}: resume it as it was"):
        run.resume()
    assert run.resumed_from is None


def test_checkpoint_of_another_version_is_resumed_with_a_warning(
    supervisor: Supervisor, store: Path
) -> None:
    made_with(store, None, keras="3.15").save()
    run = made_with(store, supervisor, keras="3.16")
    run.resume()
    assert run.resumed_from is not None
    (told,) = warnings(supervisor)
    assert "was made with keras 3.15, and is resumed with keras 3.16: bits may differ" in told


def test_checkpoint_of_the_same_library_is_resumed_silently(
    supervisor: Supervisor, store: Path
) -> None:
    made_with(store, None, keras="3.15").save()
    run = made_with(store, supervisor, keras="3.15")
    run.resume()
    assert run.resumed_from is not None
    assert warnings(supervisor) == []


def test_what_save_writes_over_other_ranks_is_warned_of(
    supervisor: Supervisor, store: Path
) -> None:
    def write(folder: Path) -> None:
        (folder / "own").touch()

    writer = Run(
        Checkpoints(store, attempt=1, rank=0, world=1), parts=Parts({}, save=write, load=write)
    )
    writer.save()
    run = Run(
        Checkpoints(store, attempt=2, rank=0, world=2),
        world=2,
        parts=Parts({}, save=write, load=write),
        line=channel.Channel(str(supervisor.line)),
    )
    run.resume()
    (told,) = warnings(supervisor)
    assert "is of 1 rank, and is resumed by 2 ranks: what `save` has written has to fit" in told


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of two megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


WRITERS = {
    "a file": "def save(folder): (folder / 'own.bin').write_bytes(b'x' * size)",
    "torch": """
import torch
def save(folder): torch.save(torch.ones(size, dtype=torch.uint8), folder / 'own.pt')
""",
    "parts": """
class Part:
    def state_dict(self): return {'bytes': b'x' * size}
    def load_state_dict(self, state): pass
save = None
parts = {'part': Part()}
""",
    "parts of torch": """
import torch
class Part:
    def state_dict(self): return {'ones': torch.ones(size, dtype=torch.uint8)}
    def load_state_dict(self, state): pass
save = None
parts = {'part': Part()}
""",
}
FILLS = """
import os
from shunter import train
size, parts = 100_000, {}
%s
def load(folder): pass
run = train.start(save=save, load=load if save else None, **parts)
if not run.resumed_from:
    run.step(); run.save()
    size = 10_000_000
    open(os.environ["SHUNTER_SUSPEND"], "w").close()
    run.step()
    size = 100_000
    run.step(); run.save()
print("at", run.steps_done, flush=True)
"""


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[pytest.mark.live] * ("torch" in kind)) for kind in WRITERS],
)
def test_full_disk_in_mid_save_is_told_and_the_checkpoint_before_is_kept(
    supervisor: Supervisor, small_disk: Path, kind: str
) -> None:
    if "torch" in kind:
        pytest.importorskip("torch", reason="torch is not installed: make live does it")

    def ran(attempt: int) -> Any:
        named = {**supervisor.environment(small_disk), channel.ATTEMPT: str(attempt)}
        return subprocess.run(
            [sys.executable, "-c", FILLS % WRITERS[kind]],
            env={**os.environ, **named},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )

    done = ran(1)
    assert (done.returncode, done.stdout) == (0, "at 3\n"), done.stderr
    (failed,) = supervisor.told("failed")
    assert f"OSError: no space left on device: the disk of {small_disk}" in failed["error"]
    assert "shunter: checkpoint failed: OSError: no space left on device" in done.stderr
    assert [each["step"] for each in supervisor.told("saved")] == [1, 3]
    folders = [path.name for path in sorted(small_disk.glob("attempt-*/step-*"))]
    assert folders == ["step-000000000001", "step-000000000003"]
    supervisor.asks.unlink()
    assert ran(2).stdout == "at 3\n"


def test_save_that_fails_is_told_on_the_job_once(
    supervisor: Supervisor, store: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = started(store, supervisor, model=Model())
    store.write_text("no folder")
    for _ in range(3):
        run.save()
    (told,) = warnings(supervisor)
    assert told.startswith("checkpoint failed: ")
    assert capfd.readouterr().err.count("shunter: checkpoint failed: ") == 3


class Growing:
    """A list that each mini-batch makes longer."""

    def __init__(self) -> None:
        self.seen = b""

    def state_dict(self) -> dict[str, bytes]:
        return {"seen": self.seen}

    def load_state_dict(self, state: dict[str, bytes]) -> None:
        self.seen = state["seen"]


def saved_with(supervisor: Supervisor, store: Path, sizes: list[int], runs: int = 1) -> None:
    """Save once for each size, in as many attempts."""
    for attempt in range(1, runs + 1):
        part = Growing()
        run = started(store, supervisor, attempt, history=part, model=Model())
        run.resume()
        for size in sizes[attempt - 1 :: runs] if runs == 1 else [sizes[attempt - 1]]:
            run.steps_done += 1
            part.seen = b"x" * size
            run.save()


def test_checkpoints_that_grow_without_end_are_warned_of_once(
    supervisor: Supervisor, store: Path
) -> None:
    saved_with(supervisor, store, [1_000_000 * number for number in range(1, 8)])
    (told,) = warnings(supervisor)
    assert told.startswith("each checkpoint is far larger than the one before: the last have ")
    assert "1 MB, 2 MB, 3 MB, 4 MB; the part 'history' has 4 MB" in told


def test_growth_from_attempt_to_attempt_is_seen(supervisor: Supervisor, store: Path) -> None:
    sizes = [1_000_000, 1_500_000, 2_200_000, 3_300_000]
    saved_with(supervisor, store, sizes, runs=4)
    assert len(warnings(supervisor)) == 1


@pytest.mark.parametrize(
    "sizes",
    [
        [1_000_000, 3_000_000, 3_000_000, 3_000_000, 3_000_000],  # an optimizer's first step
        [100, 200, 400, 800, 1600],
        [10_000_000 + 100_000 * number for number in range(6)],
    ],
    ids=["once", "small", "slowly"],
)
def test_checkpoints_that_hardly_grow_are_not_warned_of(
    supervisor: Supervisor, store: Path, sizes: list[int]
) -> None:
    saved_with(supervisor, store, sizes)
    assert warnings(supervisor) == []


class WithoutLength(Loader):
    """Batches of which nobody knows how many come."""

    def __iter__(self) -> Iterator[list[float]]:
        yield from super().__iter__()

    def __len__(self) -> int:
        raise TypeError("object of type 'WithoutLength' has no len()")


@pytest.mark.parametrize("stop", range(1, 11))
def test_loader_without_length_goes_on_where_it_was(
    supervisor: Supervisor, store: Path, stop: int
) -> None:
    import random

    def train(run: Run, ask_at: int) -> Iterator[list[float]]:
        for _ in run.epochs(2):
            for batch in run.batches(WithoutLength()):
                yield batch
                if run.steps_done + 1 == ask_at:
                    supervisor.ask()
                run.step()

    random.seed(5)
    whole = list(train(run_of(None, None, Model()), 0))
    random.seed(5)
    found: list[list[float]] = []
    with pytest.raises(Left):
        found.extend(train(run_of(supervisor, store, Model()), stop))
    random.seed(9)
    supervisor.asks.unlink()
    found += train(run_of(None, store, Model(), 2), 0)
    assert found == whole


def test_loader_that_has_become_shorter_is_refused(store: Path) -> None:
    run = run_of(None, store, Model())
    for count, _ in enumerate(run.batches(range(9)), 1):
        run.step()
        if count == 5:
            run.save()
            break
    again = run_of(None, store, Model(), 2)
    with pytest.raises(ValueError, match=r"the loader ends after 3 batches, .* is after 5 of them"):
        list(again.batches(range(3)))


def test_run_that_never_comes_to_a_boundary_is_warned_of_once(
    supervisor: Supervisor, store: Path
) -> None:
    run = run_of(supervisor, store, Model())
    for number, _ in enumerate(run.batches(range(4 * FEW_BATCHES))):
        if number == FEW_BATCHES + 3:
            assert warnings(supervisor) == []
            supervisor.ask()
    run.exits()
    (told,) = warnings(supervisor)
    assert told == (
        f"the run is asked to leave, and {FEW_BATCHES + 5} batches have passed since the last "
        "boundary: call run.step() after each mini-batch, and evaluate by run.evaluate; a run that "
        "does not leave is ended, and loses work"
    )


def test_run_that_comes_to_boundaries_is_not_warned_of(supervisor: Supervisor, store: Path) -> None:
    """A boundary after 50 batches each: gradients are added up by hand."""
    run = run_of(supervisor, store, Model())

    def train() -> None:
        for number, _ in enumerate(run.batches(range(500)), 1):
            if number == 120:
                supervisor.ask()
            if number % 50 == 0:
                run.step()

    with pytest.raises(Left):
        train()
    assert warnings(supervisor) == []
    assert run.steps_done == 3


def test_run_whose_mini_batches_are_never_whole_is_warned_of(
    supervisor: Supervisor, store: Path
) -> None:
    run = run_of(supervisor, store, Model())
    run.is_whole = lambda: False
    supervisor.ask()
    for _ in range(MANY_PARTS - 1):
        run.step()
    assert warnings(supervisor) == []
    for _ in range(MANY_PARTS):
        run.step()
    (told,) = warnings(supervisor)
    assert f"`is_whole` was false after each of the last {MANY_PARTS} mini-batches" in told


def test_run_that_ends_without_a_boundary_though_asked_is_warned_of(
    supervisor: Supervisor, store: Path
) -> None:
    run = run_of(supervisor, store, Model())
    supervisor.ask()
    run.exits()
    (told,) = warnings(supervisor)
    assert "asked to leave, and ends without having come to a boundary" in told


def test_run_that_ends_as_it_is_asked_is_not_warned_of(supervisor: Supervisor, store: Path) -> None:
    run = run_of(supervisor, store, Model())
    run.step()
    supervisor.ask()
    run.exits()
    assert warnings(supervisor) == []


def test_files_of_ranks_that_were_exchanged_are_refused(store: Path) -> None:
    older, newer = two_checkpoints(store)
    (older / "rank-0.state").replace(newer / "rank-0.state")
    (older / "rank-0.json").replace(newer / "rank-0.json")
    with pytest.raises(ValueError, match="files of this checkpoint were exchanged"):
        started(store).resume()


def test_run_goes_on_from_the_checkpoint_before_one_with_exchanged_files(
    store: Path, supervisor: Supervisor
) -> None:
    older, newer = two_checkpoints(store)
    for name in ("rank-0.state", "rank-0.json"):
        shutil.copy(older / name, newer / name)
    run = started(store, supervisor)
    run.resume()
    assert run.resumed_from == older
    assert any("files of this checkpoint were exchanged" in each for each in warnings(supervisor))


def test_state_of_another_rank_is_refused(store: Path) -> None:
    (folder,) = two_checkpoints(store)[:1]
    with pytest.raises(ValueError, match="is of rank 1 and step 1"):
        check_place(folder, 0, {"rank": 1, "step": 1})


def test_folder_that_the_user_may_not_read_is_refused(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_checkpoints(store)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(PermissionError, match="nobody knows whether the run has checkpoints"):
        started(store).resume()


def test_file_in_the_place_of_a_checkpoint_is_passed_by(
    store: Path, supervisor: Supervisor
) -> None:
    older, newer = two_checkpoints(store)
    shutil.rmtree(newer)
    newer.touch()
    run = started(store, supervisor)
    run.resume()
    assert run.resumed_from == older
    assert any("it is no folder" in each for each in warnings(supervisor))


def test_evaluation_is_not_left_while_gradients_wait(store: Path, supervisor: Supervisor) -> None:
    run = started(store, supervisor)
    run.is_whole = lambda: run.steps_done % 2 == 0
    run.boundary()
    supervisor.ask()
    assert list(run.evaluate([1, 2])) == [1, 2], "it goes on"
    run.steps_done += 1
    with pytest.raises(Left):
        list(run.evaluate([1, 2]))
