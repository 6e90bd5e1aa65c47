"""The last place found is the last one where that can be known, and all that is said was tried."""

import asyncio

from hypothesis import given, strategies as st

from shunter.ask.forks import SPOTS, TRIED_MOST, Search, find_last


def searched(row: list[bool], most: int = TRIED_MOST) -> tuple[Search, list[int]]:
    """Return what is found in a row, and the places that were asked about."""
    asked: list[int] = []

    async def holds(place: int) -> bool:
        asked.append(place)
        return row[place]

    return asyncio.run(find_last(len(row), holds, most)), asked


@given(holding=st.integers(1, 3000), others=st.integers(0, 3000))
def test_last_of_a_row_whose_first_places_hold_is_found(holding: int, others: int) -> None:
    found, _ = searched([True] * holding + [False] * others)

    assert found.found == holding - 1
    assert found.is_next
    assert not found.disagreeing
    assert len(found.spots) == SPOTS or len(found.tried) >= others


@given(row=st.lists(st.booleans(), max_size=400), most=st.sampled_from([10, 14, TRIED_MOST]))
def test_what_is_said_of_any_row_is_true_and_was_tried(row: list[bool], most: int) -> None:
    found, asked = searched(row, most)

    assert len(asked) == len(set(asked)) <= most
    assert found.tried == {place: row[place] for place in asked}
    assert all(row[place] for place in found.disagreeing)
    if found.found is None:
        assert not any(found.tried.values())
        return
    place = found.found
    assert row[place]
    assert {each for each in (place - 1, place + 1) if 0 <= each < len(row)} <= set(asked)
    assert found.is_next == (place == len(row) - 1 or not row[place + 1])
    assert all(spot > place for spot in found.spots)
    assert all(each > place for each in found.disagreeing)


@given(row=st.lists(st.booleans(), min_size=1, max_size=8))
def test_of_a_short_row_whose_last_place_holds_that_is_the_one(row: list[bool]) -> None:
    assert searched([*row, True])[0].found == len(row)


def test_row_that_is_too_long_to_be_halved_to_its_end_says_so() -> None:
    found, _ = searched([True] * 701_234 + [False] * 900_000, most=12)

    assert found.found is not None
    assert found.found < 701_233
    assert not found.is_next
