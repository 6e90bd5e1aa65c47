"""Chance: streams named by their parts, the same everywhere and for ever."""

from collections import Counter

import pytest
from hypothesis import given, strategies as st

from shunter.core import RandomStream

names = st.lists(st.integers() | st.text(), min_size=1, max_size=3).map(tuple)


def test_stream_is_splitmix64() -> None:
    """The first outputs from state 1234567, as widely published for this generator."""
    stream = RandomStream()
    stream._state = 1234567
    assert [stream.bits() for _ in range(3)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


def test_stream_does_not_change_between_versions() -> None:
    assert [RandomStream(7, "las", 0).bits(), RandomStream(7, "las", 1).bits()] == [
        10723150432011781437,
        13384736955948339851,
    ]


@given(parts=names)
def test_same_parts_give_the_same_stream(parts: tuple[int | str, ...]) -> None:
    one, other = RandomStream(*parts), RandomStream(*parts)
    assert [one.bits() for _ in range(4)] == [other.bits() for _ in range(4)]


@given(parts=names, others=names)
def test_other_parts_give_another_stream(
    parts: tuple[int | str, ...], others: tuple[int | str, ...]
) -> None:
    assert (RandomStream(*parts).bits() == RandomStream(*others).bits()) == (parts == others)


def test_number_and_its_text_are_other_parts() -> None:
    assert (
        len({RandomStream(*parts).bits() for parts in [(1, 2), (12,), ("1", 2), ("12",), (1, "2")]})
        == 5
    )


@given(parts=names, bound=st.integers(1, 1 << 64))
def test_integer_is_below_its_bound(parts: tuple[int | str, ...], bound: int) -> None:
    assert 0 <= RandomStream(*parts).below(bound) < bound


@pytest.mark.parametrize("bound", [0, -1])
def test_bound_that_is_not_positive_is_refused(bound: int) -> None:
    with pytest.raises(ValueError, match="a bound must be positive"):
        RandomStream(1).below(bound)


def test_draws_are_even() -> None:
    stream = RandomStream("even")
    drawn = Counter(stream.below(6) for _ in range(6_000))
    assert sorted(drawn) == [0, 1, 2, 3, 4, 5]
    assert max(drawn.values()) - min(drawn.values()) < 200
    floats = [stream.random() for _ in range(4_000)]
    assert 0.0 <= min(floats) < 0.01 < 0.99 < max(floats) < 1.0
    assert abs(sum(floats) / len(floats) - 0.5) < 0.02
