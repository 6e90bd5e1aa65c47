"""What goes with how many of a job's GPUs: nothing is lost, and nobody gets more than they need."""

from hypothesis import given, strategies as st

from shunter.events import Resources

PIECES = st.lists(st.integers(1, 8), min_size=1, max_size=5)
AMOUNTS = st.integers(0, 1000)


@given(PIECES, AMOUNTS, AMOUNTS)
def test_parts_are_all_of_it_together(pieces: list[int], cpus: int, memory: int) -> None:
    whole = Resources(sum(pieces), cpus, memory)
    assert sum(whole.divided(pieces), Resources()) == whole


@given(PIECES, AMOUNTS, AMOUNTS)
def test_no_part_is_more_than_its_gpus_need(pieces: list[int], cpus: int, memory: int) -> None:
    whole = Resources(sum(pieces), cpus, memory)
    for piece, part in zip(pieces, whole.divided(pieces), strict=True):
        assert part.gpus == piece
        assert part.fit_beside(whole.at_most_with(piece))


def test_what_has_no_gpus_goes_whole() -> None:
    whole = Resources(0, 3, 5)
    assert list(whole.divided([0])) == [whole]
    assert whole.at_most_with(0) == whole


def test_half_of_the_gpus_go_with_half_of_the_rest_rounded_up() -> None:
    assert Resources(4, 7, 9).at_most_with(2) == Resources(2, 4, 5)


def test_too_little_of_either_is_too_little() -> None:
    assert Resources(9, 2, 3).fit_beside(Resources(0, 2, 3))
    assert not Resources(0, 3, 3).fit_beside(Resources(0, 2, 3))
    assert not Resources(0, 2, 4).fit_beside(Resources(0, 2, 3))
    assert Resources(0, 2, 3) - Resources(0, 1, 1) == Resources(0, 1, 2)
