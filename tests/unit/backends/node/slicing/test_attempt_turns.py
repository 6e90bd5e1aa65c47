"""The turns of one attempt: where the next one may be, and how long a boundary is awaited."""

import fcntl
from pathlib import Path
from typing import Any

import pytest

from shunter.backends.node import (
    Boundary,
    Command,
    JobMessage,
    Turns,
    folder_of,
    hold,
    members_in,
    slices_of,
)
from tests.unit.backends.node.orders import order_of

KEY = ("j0", 1)
MOVES = JobMessage(what="turns", rank=0, ranks=1, moves=True)


class Attempt:
    """An attempt without processes, whose supervisor obeys."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        Path(folder_of(self.root, *KEY)).mkdir(parents=True)
        slicing: dict[str, Any] = {
            "weight": 1.0,
            "is_fixed": True,
            "quantum_us": 1,
            "wait_most_us": None,
        }
        slicing |= {"boundary_most_us": 60_000_000}
        order = order_of(placement=[["n0", 1]], slicing=slicing)
        self.turns = Turns(self.root, order, lambda: (), lambda *_, **__: None)
        self.turns.join()
        self._lock = hold(f"{slices_of(self.root, 'n0')}/lock", fcntl.LOCK_EX)  # another rotates
        self._number = 0

    def obeys(self, mask: int) -> int:
        """Have it do what who rotates orders; return the number of the order."""
        self._number += 1
        self.turns.obey(Command(do="turn", mask=mask, number=self._number))
        return self._number

    def ends_its_turn(self) -> None:
        """Have its turn end at a boundary."""
        said = JobMessage(what="standing", rank=0, turn=self.obeys(0))
        self.turns.receive(said)
        self.turns.look()

    def is_fixed(self) -> bool:
        """Say whether its next turn can be on its own GPUs only."""
        return members_in(slices_of(self.root, "n0"))[KEY].is_fixed


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    return Attempt(tmp_path)


def test_who_says_on_its_turn_that_it_moves_may_have_the_next_one_anywhere(
    attempt: Attempt,
) -> None:
    attempt.obeys(1)
    assert attempt.is_fixed()
    attempt.turns.receive(MOVES)
    assert not attempt.is_fixed()
    attempt.ends_its_turn()
    assert not attempt.is_fixed()


def test_who_was_stopped_within_a_mini_batch_ends_that_on_its_own_gpus(attempt: Attempt) -> None:
    attempt.obeys(1)
    attempt.obeys(0)  # it has said nothing of boundaries yet, and is stopped at once
    attempt.turns.receive(MOVES)
    assert attempt.is_fixed()
    attempt.obeys(1)
    assert attempt.is_fixed()
    attempt.ends_its_turn()
    assert not attempt.is_fixed()


def test_who_stands_within_a_mini_batch_may_be_given_other_gpus_of_its_own(
    attempt: Attempt,
) -> None:
    attempt.obeys(1)
    attempt.obeys(0)
    attempt.turns.receive(MOVES)
    attempt.turns.reslice(Command(do="slice", weight=1.0, mask=2, pack=""))
    assert members_in(slices_of(attempt.root, "n0"))[KEY].home == 2


def said(what: str, **fields: Any) -> JobMessage:
    return JobMessage(what=what, rank=0, **fields)


def test_nobody_waits_for_a_program_that_says_nothing_of_boundaries() -> None:
    boundary = Boundary()
    boundary.take(said("progress", state="training"))
    assert not boundary.ask(5, 100)
    assert not boundary.is_awaited


def test_boundary_is_reached_once_all_ranks_stand_still_for_this_order() -> None:
    boundary = Boundary()
    boundary.take(said("turns", ranks=2, moves=False))
    assert not boundary.ask(4, 100), "the other rank says nothing of boundaries"
    boundary.take(said("turns", ranks=2, moves=False).replaced(rank=1))
    assert boundary.ask(5, 100)
    boundary.take(said("standing", turn=4))
    boundary.take(said("standing", turn=5))
    boundary.take(said("standing", turn=5))
    assert not boundary.is_reached(99)
    boundary.take(said("standing", turn=5).replaced(rank=1))
    assert boundary.is_reached(99)
    boundary.end()
    assert boundary.ask(6, 200)
    assert not boundary.is_reached(199), "they have to say so each time"
    assert boundary.is_reached(200), "or are waited for long enough"


def test_program_that_trains_no_more_is_not_waited_for() -> None:
    boundary = Boundary()
    boundary.take(said("turns", ranks=1, moves=True))
    boundary.take(said("progress", state="finished"))
    assert not boundary.ask(5, 100)


def test_only_one_rank_of_one_gpu_can_move() -> None:
    for gpus, ranks, can in ((1, 1, True), (2, 1, False), (1, 2, False)):
        boundary = Boundary(gpus)
        said = JobMessage(what="turns", rank=0, ranks=ranks, moves=True)
        boundary.take(said)
        assert boundary.can_move == can
