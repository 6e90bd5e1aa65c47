import os
from collections.abc import Callable
from pathlib import Path

import pytest

from shunter.train.checkpoints import KEPT, Checkpoints


def store(folder: Path, attempt: int = 1) -> Checkpoints:
    return Checkpoints(folder, attempt=attempt, rank=0, world=1)


def test_state_comes_back_bit_for_bit(tmp_path: Path) -> None:
    state = {"floats": [0.1, 1e-308, 2.0**0.5], "name": "ü"}
    folder, size = store(tmp_path).write(7, state)
    assert store(tmp_path).latest() == folder
    assert store(tmp_path).read(folder) == state
    assert (folder / "rank-0.state").stat().st_size == size


def test_state_that_is_cut_off_is_not_complete(tmp_path: Path) -> None:
    old, _ = store(tmp_path).write(7, {"a": 1})
    new, size = store(tmp_path).write(8, {"a": 2})
    os.truncate(new / "rank-0.state", size - 1)
    assert store(tmp_path).latest() == old


def test_failure_in_mid_write_leaves_the_old_one_and_no_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, _ = store(tmp_path).write(7, {"a": 1})
    with monkeypatch.context() as patched:

        def full(_: int) -> None:
            raise OSError(28, "no space left on device")

        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="no space left"):
            store(tmp_path).write(8, {"a": 2})
    assert store(tmp_path).latest() == old
    assert [path.name for path in sorted(old.parent.iterdir())] == [old.name]


def test_saving_at_the_same_step_again_leaves_the_one_before_whole(tmp_path: Path) -> None:
    def weights(text: str) -> Callable[[Path], object]:
        return lambda folder: (folder / "weights").write_text(text)

    def full(folder: Path) -> None:
        weights("half")(folder)
        raise OSError(28, "no space left on device")

    saving = store(tmp_path)
    old, _ = saving.write(8, {"a": 1}, weights("first"))
    with pytest.raises(OSError, match="no space left"):
        saving.write(8, {"a": 1}, full)
    assert store(tmp_path).latest() == old
    assert (old / "weights").read_text() == "first"
    new, _ = saving.write(8, {"a": 2}, weights("second"))
    assert store(tmp_path).latest() == new
    assert (new / "weights").read_text() == "second"


def test_fenced_attempt_changes_nothing_for_its_successor(tmp_path: Path) -> None:
    store(tmp_path, 1).write(10, {})
    second, _ = store(tmp_path, 2).write(11, {})
    store(tmp_path, 1).write(99, {})
    assert store(tmp_path, 3).latest() == second


def test_attempt_does_not_read_its_successors(tmp_path: Path) -> None:
    first, _ = store(tmp_path, 1).write(10, {})
    store(tmp_path, 2).write(11, {})
    assert store(tmp_path, 1).latest() == first


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    for step in range(5):
        store(tmp_path).write(step, {})
        store(tmp_path).prune()
    assert len(sorted(tmp_path.glob("attempt-*/step-*"))) == KEPT


def test_what_the_script_writes_itself_counts(tmp_path: Path) -> None:
    def more(folder: Path) -> None:
        (folder / "own.bin").write_bytes(b"x" * 1000)

    folder, size = store(tmp_path).write(1, {}, more)
    assert size > 1000
    assert store(tmp_path).latest() == folder


def two_ranks(folder: Path) -> list[Checkpoints]:
    return [Checkpoints(folder, attempt=1, rank=rank, world=2) for rank in (0, 1)]


def test_checkpoint_that_one_rank_could_not_save_leaves_nothing(tmp_path: Path) -> None:
    def weights(folder: Path) -> None:
        (folder / "weights").write_text("many")

    def full(_: Path) -> None:
        raise OSError(28, "no space left on device")

    first, second = two_ranks(tmp_path)
    for store_of_rank in (first, second):
        store_of_rank.write(1, {}, weights)
    whole = first.latest()
    assert whole is not None
    half, _ = first.write(2, {}, weights)
    with pytest.raises(OSError, match="no space left"):
        second.write(2, {}, full)
    assert (half / "weights").exists()
    second.give_up()
    first.give_up(half)
    assert [path.name for path in sorted(half.parent.iterdir())] == [whole.name]
    assert first.latest() == whole


def test_folder_that_is_no_checkpoint_of_ours_is_left_alone(tmp_path: Path) -> None:
    own = tmp_path / "checkpoint-40"
    own.mkdir()
    first, second = two_ranks(tmp_path)
    for store_of_rank in (first, second):
        store_of_rank.give_up(own)
        store_of_rank.give_up()
    assert own.exists()


def test_remains_of_older_attempts_are_removed_with_what_is_kept_no_more(tmp_path: Path) -> None:
    remains = tmp_path / "attempt-000001" / "step-000000000003"
    remains.mkdir(parents=True)
    for step in range(KEPT):
        store(tmp_path, 2).write(step, {})
        assert remains.exists()
        store(tmp_path, 2).prune()
    assert not remains.exists()
    assert len(sorted(tmp_path.glob("attempt-*/step-*"))) == KEPT
