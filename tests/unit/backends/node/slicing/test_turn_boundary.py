"""What the ranks of an attempt say of their boundaries, and how long they are waited for."""

from typing import Any

from shunter.backends.node import Boundary, JobMessage


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


def test_only_a_program_of_one_rank_can_move() -> None:
    boundary = Boundary()
    boundary.take(said("turns", ranks=2, moves=True))
    assert not boundary.can_move
    boundary.take(said("turns", ranks=1, moves=True))
    assert boundary.can_move


def test_only_one_rank_of_one_gpu_can_move() -> None:
    for gpus, ranks, can in ((1, 1, True), (2, 1, False), (1, 2, False)):
        boundary = Boundary(gpus)
        said = JobMessage(what="turns", rank=0, ranks=ranks, moves=True)
        boundary.take(said)
        assert boundary.can_move == can
