"""The turns of a job that shares its GPUs with others, as one of its ranks sees them.

While it is not its turn, Shunter has all its processes stand still. So that a turn ends between two
mini-batches, where least memory is in use and no rank waits for another, the supervisor asks first,
by the file that `SHUNTER_TURN` names, a JSON object: `ends` is the number of the order that ends
the turn (0: it goes on), `mask` the GPUs of the turn as bits of those that `SHUNTER_TURN_GPUS`
lists. All ranks stand still at the same boundary (`agreement`), say so, and go on once the file
asks no more: that is, with their next turn. A boundary costs one or two `stat`. Each server of a
gang asks for itself, some milliseconds apart: who has agreed to stand waits for its own to ask.

A job of one GPU may take another one with each turn: `device(moves=True)` makes all GPUs of the
server visible, and what `start` is given as `move` is called with the device to be on: "cpu" before
others have their turn, so that no memory of the GPU stays taken, and then the GPU of the next turn.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from shunter.train.agreement import Agreement
    from shunter.train.channel import Channel

    Move = Callable[[str], object]

VISIBLE = "CUDA_VISIBLE_DEVICES"
TURN = "SHUNTER_TURN"
TURN_GPUS = "SHUNTER_TURN_GPUS"
GIVEN = "SHUNTER_GPUS"


def device(*, moves: bool = False) -> str:
    """Return "cuda", or "cpu" where the run was given no GPU or torch can use none.

    Of what Shunter gave, the environment tells; torch is asked only if the script imported it.

    Args:
        moves: a job that shares its GPU in turns is to have its turns on any that is shared on its
            server: all GPUs there become visible, and this returns that of the turn, "cuda:2", say.
            It is to be called before GPUs are used, and `start` with `move`. Only a job of one GPU
            can move; one of several stays on those it was given.

    Raises:
        RuntimeError: it is to move, and GPUs are in use already.
    """
    gpus = turn_gpus()
    if moves and gpus is not None and "," not in os.environ.get(VISIBLE, ","):
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        if cuda is not None and cuda.is_initialized():
            raise RuntimeError("shunter.train.device(moves=True) comes before GPUs are used")
        os.environ[VISIBLE] = gpus
    moves = moves and gpus_given() == 1
    if moves and gpus is not None and os.environ.get(VISIBLE) == gpus:
        return device_of_turn()
    return _kind()


def turn_gpus() -> str | None:
    """Return all GPUs of the server as CUDA names them; None: there are no turns."""
    return os.environ.get(TURN_GPUS) if os.environ.get(TURN) else None


def gpus_given() -> int:
    """Return how many GPUs this rank was given; 1 where the environment does not say."""
    given = os.environ.get(GIVEN, "")
    return int(given) if given.isdecimal() else 1


def device_of_turn() -> str:
    """Return the device of the turn, where all GPUs of the server are visible."""
    if _kind() == "cpu":
        return "cpu"
    try:
        with open(os.environ[TURN], encoding="utf-8") as file:  # noqa: PTH123  as in turns.py
            mask = int(json.load(file)["mask"])
    except (OSError, ValueError, LookupError, TypeError):
        mask = 1
    return f"cuda:{max(mask & -mask, 1).bit_length() - 1}"


def _kind() -> str:
    visible = os.environ.get(VISIBLE)
    if visible == "":
        return "cpu"
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is not None:
        return "cuda" if cuda.is_available() else "cpu"
    return "cuda" if visible else "cpu"


POLL_S = 0.001
ASKED_MOST_S = 2.0
"""How long a rank waits for its own server to ask what others were asked already."""


class Turns:
    """Stands still at boundaries where a turn is over.

    Args:
        path: the file that tells how the turn stands.
        line: to the supervisor.
        rank: which of the ranks this is.
        world: how many there are.
        move: puts the run on a device; None: it stays where it is.

    Raises:
        ValueError: it is to move, and cannot.
    """

    def __init__(
        self, path: str, line: Channel, *, rank: int, world: int, move: Move | None = None
    ) -> None:
        self._path, self._line, self._rank = path, line, rank
        self._seen: tuple[int, int] | None = None
        self._ends = self._number = 0
        self._move = move
        self.device = device()
        if move is not None:
            _check_movable(world)
            self.device = device_of_turn()
        line.tell("turns", rank=rank, ranks=world, moves=move is not None)

    def was_interrupted(self) -> bool:
        """Say whether others had turns in the middle of the last mini-batch."""
        before = self._number
        self._look()
        return bool(before) and self._number != before

    def boundary(self, tick: int, agreement: Agreement) -> bool:
        """Stand still here if the turn is over; say whether it was."""
        self._look()
        try:
            number = agreement.ends_turn(tick, self._ends)
        except OSError:
            return False  # the supervisor's deadline decides
        if number:
            self._stand(number)
        elif self._move is not None and self.device != device_of_turn():
            self._go_to(device_of_turn())  # it was stopped in the middle of a mini-batch
        return bool(number)

    def _stand(self, number: int) -> None:
        until_s = time.monotonic() + ASKED_MOST_S
        while not self._ends and self._number < number and time.monotonic() < until_s:
            time.sleep(POLL_S)
            self._look()
        number = self._ends
        if not number:
            return
        if self._move is not None:
            self._go_to("cpu")
        _finish_on_gpu(is_emptied=self._move is not None)
        self._line.tell("standing", rank=self._rank, turn=number)
        self._look()
        while self._ends == number:
            time.sleep(POLL_S)  # and is stopped meanwhile, until its next turn
            self._look()
        if self._move is not None:
            self._go_to(device_of_turn())

    def _go_to(self, where: str) -> None:
        if self._move is not None and where != self.device:
            self._move(where)
            self.device = where

    def _look(self) -> None:
        """Read how the turn stands, if that was written anew."""
        try:
            found = os.stat(self._path)  # noqa: PTH116  half the price, and once a mini-batch
        except OSError:
            self._seen, self._ends = None, 0
            return
        if self._seen == (found.st_ino, found.st_mtime_ns):
            return
        self._seen = (found.st_ino, found.st_mtime_ns)
        try:
            with open(self._path, encoding="utf-8") as file:  # noqa: PTH123  as above
                turn = json.load(file)
            self._ends, self._number = int(turn["ends"] or 0), int(turn["number"])
        except (OSError, ValueError, LookupError, TypeError):
            self._ends = 0


def _check_movable(world: int) -> None:
    gpus = turn_gpus()
    if world > 1:
        raise ValueError("move: a job of several ranks cannot move between GPUs: leave it out")
    if gpus is not None and gpus_given() > 1:
        raise ValueError(
            f"move: only a job of one GPU can move between GPUs, and this one has {gpus_given()}: "
            "leave it out"
        )
    if gpus is not None and os.environ.get(VISIBLE) != gpus:
        raise ValueError("move: call shunter.train.device(moves=True) before GPUs are used")


def _finish_on_gpu(*, is_emptied: bool) -> None:
    """Wait for a GPU, which would go on though its process stands still."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is not None and cuda.is_initialized():
        cuda.synchronize()
        if is_emptied:
            cuda.empty_cache()


def turns_of(line: Channel | None, rank: int, world: int, move: Move | None) -> Turns | None:
    """Return the turns of this job; None if it has its GPUs for itself."""
    path = os.environ.get(TURN)
    if line is None or not path:
        return None
    return Turns(path, line, rank=rank, world=world, move=move)
