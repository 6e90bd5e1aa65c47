"""What copying GPU memory adds to a change of hands: by hand, at a boundary and within one."""

import pytest

from shunter.backends.simulated import MemoryMoves, SimulatedBackend, Slicing
from shunter.core.speeds import FactorTable, MemoryCycle, ModelFactors, SpeedModel
from tests.factories import trace_job
from tests.unit.backends.simulated.driving import Hand, launch
from tests.unit.backends.simulated.sharing.test_turns import FIRST, NODES, turns

CYCLE = MemoryCycle(least_mb=2, most_mb=10, batch_us=8)
TABLE = FactorTable({"m": ModelFactors(memory_cycle=CYCLE), "bare": ModelFactors()})
MB_EACH_US = 1_000_000


def copying(
    first: str, second: str, *, at_boundary: bool, boundary_most_us: int | None = None
) -> Hand:
    """Return a world of two jobs of 40 in steps of 8, that copy one MB in a microsecond."""
    jobs = [
        trace_job(number, lasts=40, total_steps=5, model=model)
        for number, model in enumerate((first, second))
    ]
    slicing = Slicing(10, 0, None, MB_EACH_US, at_boundary, boundary_most_us)
    hand = Hand(SimulatedBackend(jobs, slicing=slicing, speeds=SpeedModel(NODES, factors=TABLE)))
    hand.until(0)
    hand.orders(launch(0, where=FIRST), launch(1, where=FIRST))
    return hand


def test_memory_grows_and_falls_in_lines() -> None:
    assert [CYCLE.at_mb(at_us) for at_us in (0, 2, 4, 6, 8, 12)] == [2, 6, 10, 6, 2, 10]
    assert [CYCLE.at_mb(at_us, 16) for at_us in (0, 4, 8)] == [2, 6, 10]


def test_turns_that_end_at_boundaries_copy_the_least() -> None:
    """The first turn ends at 16, after two steps, and 2 MB go.

    At 28 j1 had 12, less than the 16 of j0, but by no more than half a quantum: it ends its second
    step at 34. Then 2 MB go and 2 come.
    """
    seen = copying("m", "m", at_boundary=True).goes_on()
    assert turns(seen, "j0")[:3] == [(0, "+"), (16, "-"), (38, "+")]
    assert turns(seen, "j1")[:2] == [(18, "+"), (34, "-")]


def test_turns_that_wait_long_enough_for_a_boundary_copy_the_least() -> None:
    """Steps take 8: who waits for 8 always comes to an end of one, who waits for 0 hardly ever."""
    wanted = turns(copying("m", "m", at_boundary=True).goes_on(), "j0")
    enough = copying("m", "m", at_boundary=True, boundary_most_us=8)
    assert turns(enough.goes_on(), "j0") == wanted
    anywhere = turns(copying("m", "m", at_boundary=False).goes_on(), "j0")
    at_once = copying("m", "m", at_boundary=True, boundary_most_us=0)
    assert turns(at_once.goes_on(), "j0") == anywhere


def test_turns_that_end_anywhere_copy_what_is_held_there() -> None:
    """After 10 of steps of 8 a job is 2 into one and holds 6 MB: 6 go, then 6 go and 6 come."""
    seen = copying("m", "m", at_boundary=False).goes_on()
    assert turns(seen, "j0")[:3] == [(0, "+"), (10, "-"), (38, "+")]
    assert turns(seen, "j1")[:2] == [(16, "+"), (26, "-")]


def test_models_without_a_cycle_copy_nothing() -> None:
    seen = copying("bare", "unknown", at_boundary=False).goes_on()
    assert turns(seen, "j0")[:3] == [(0, "+"), (10, "-"), (20, "+")]


@pytest.mark.parametrize(
    ("leaving", "coming", "took_us"),
    [
        ({"a": 0b0011}, {}, 6),
        ({"a": 0b0001, "b": 0b0010}, {}, 10),
        ({"a": 0b0001}, {"b": 0b0001}, 16),
        ({"a": 0b0001}, {"b": 0b0010}, 10),
        ({}, {"new": 0b0001}, 0),
    ],
    ids=str,
)
def test_gpus_copy_at_the_same_time(
    leaving: dict[str, int], coming: dict[str, int], took_us: int
) -> None:
    moves = MemoryMoves(TABLE, MB_EACH_US)
    moves.leaves("a", "m", 2, 8)
    moves.leaves("b", "m", 4, 8)
    assert moves.change_us(leaving, coming) == took_us
    moves.forget("a")
    moves.forget("b")
    assert moves.change_us(leaving, coming) == 0
