"""Turns as a rank sees them: where it stands still, and on which device it trains."""

import json
import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shunter import train
from shunter.train.agreement import Alone, FileAgreement
from shunter.train.turns import Turns


class Line:
    """What a rank tells its supervisor, which answers with its next turn."""

    def __init__(self, path: Path) -> None:
        self.path, self.told = path, list[dict[str, Any]]()
        self.next_mask = 1

    def tell(self, what: str, **said: Any) -> None:
        self.told.append({"what": what, **said})
        if what == "standing":
            shows(self.path, said["turn"], self.next_mask)


def shows(path: Path, number: int, mask: int, ends: int = 0) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps({"number": number, "mask": mask, "ends": ends}))
    fresh.replace(path)


@pytest.fixture
def turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "turn"
    shows(path, 1, 1)
    monkeypatch.setenv("SHUNTER_TURN", str(path))
    monkeypatch.setenv("SHUNTER_TURN_GPUS", "GPU-a,GPU-b,GPU-c")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a")
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    return path


def made(path: Path, line: Any, **how: Any) -> Turns:
    return Turns(str(path), line, **{"rank": 0, "world": 1, **how})


def test_rank_says_that_it_knows_of_turns_and_stands_still_when_asked(turn: Path) -> None:
    line = Line(turn)
    turns = made(turn, line)
    assert not turns.boundary(1, Alone())
    shows(turn, 1, 1, ends=7)
    assert turns.boundary(2, Alone())
    assert line.told == [
        {"what": "turns", "rank": 0, "ranks": 1, "moves": False},
        {"what": "standing", "rank": 0, "turn": 7},
    ]
    assert not turns.boundary(3, Alone()), "it has its turn"
    assert turns.device == "cuda"


def test_no_turn_is_asked_to_end_where_the_file_is_gone_or_wrong(turn: Path) -> None:
    turns = made(turn, Line(turn))
    for text in ("", "[1]", '{"ends": "x"}', "\0"):
        turn.write_text(text)
        assert not turns.boundary(1, Alone())
    turn.unlink()
    assert not turns.boundary(1, Alone())


def test_run_that_moves_is_on_no_gpu_between_its_turns(turn: Path) -> None:
    assert train.device(moves=True) == "cuda:0"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-a,GPU-b,GPU-c"
    moved, line = list[str](), Line(turn)
    turns = made(turn, line, move=moved.append)
    assert line.told[0]["moves"]
    line.next_mask = 4
    shows(turn, 1, 1, ends=2)
    assert turns.boundary(1, Alone())
    assert moved == ["cpu", "cuda:2"]
    assert turns.device == "cuda:2"
    shows(turn, 9, 2)  # it was stopped in the middle of the next one, and is on another by now
    assert turns.was_interrupted()
    assert not turns.boundary(2, Alone())
    assert moved[-1] == turns.device == "cuda:1"


def test_run_that_cannot_move_says_why(turn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="device\\(moves=True\\) before"):
        made(turn, Line(turn), move=print)
    with pytest.raises(ValueError, match="several ranks cannot move"):
        made(turn, Line(turn), move=print, world=2)
    monkeypatch.delenv("SHUNTER_TURN")
    assert train.device(moves=True) == "cuda", "a job that has its GPU for itself stays there"


@pytest.mark.parametrize("given", ["GPU-a,GPU-b", "GPU-a,GPU-b,GPU-c"])
def test_run_of_several_gpus_cannot_move_however_many_its_server_has(
    turn: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    monkeypatch.setenv("SHUNTER_GPUS", str(given.count(",") + 1))
    assert train.device(moves=True) == "cuda"
    with pytest.raises(ValueError, match="only a job of one GPU can move between GPUs, and this"):
        made(turn, Line(turn), move=print)


def test_ranks_stand_still_at_the_same_boundary_turn_after_turn(turn: Path, tmp_path: Path) -> None:
    """Two ranks that run apart by up to a boundary; what they leave in files does not grow."""
    folder = tmp_path / "votes"
    folder.mkdir()
    ranks = [FileAgreement(folder, rank, 2) for rank in range(2)]
    for number in range(1, 30):
        stood, ticks, first = dict[int, int](), [10 * number] * 2, number % 2
        while len(stood) < 2:
            for rank in (first, 1 - first):
                if rank not in stood:
                    ticks[rank] += 1
                    if ranks[rank].ends_turn(ticks[rank], number):
                        stood[rank] = ticks[rank]
        assert stood[0] == stood[1]
        assert not ranks[0].ends_turn(ticks[0] + 1, number), "once for each"
    assert len(sorted(folder.iterdir())) <= 2


def test_who_waits_goes_on_with_its_next_turn_only(turn: Path) -> None:
    class Silent(Line):
        def tell(self, what: str, **said: Any) -> None:
            self.told.append({"what": what, **said})

    line = Silent(turn)
    turns = made(turn, line)
    shows(turn, 1, 1, ends=3)
    ended = threading.Event()

    def wait() -> None:
        turns.boundary(1, Alone())
        ended.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert not ended.wait(0.1)
    assert line.told[-1] == {"what": "standing", "rank": 0, "turn": 3}
    shows(turn, 3, 0)
    assert ended.wait(10.0)
    waiting.join()


@pytest.mark.parametrize(
    ("visible", "torch_has", "device"),
    [
        ("", None, "cpu"),
        ("", True, "cpu"),
        ("0,1", None, "cuda"),
        ("0,1", False, "cpu"),
        (None, None, "cpu"),
        (None, True, "cuda"),
    ],
)
def test_a_run_trains_on_what_it_was_given(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, torch_has: bool | None, device: str
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    cuda = SimpleNamespace(is_available=lambda: torch_has)
    torch = None if torch_has is None else SimpleNamespace(cuda=cuda)
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert train.device() == device
