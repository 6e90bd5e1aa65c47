"""Shapes hold what they are given to types, ranges, lengths, and texts that can be encoded."""

from collections.abc import Callable
from typing import Any

import pytest

from shunter.backends.node.messages import shapes
from shunter.backends.node.messages.shapes import WrongMessageError

DEEP: list[Any] = []
for _ in range(5000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("shape", "value"),
    [
        (shapes.a_whole(0, 9), 9),
        (shapes.a_number(0, 9), 0.5),
        (shapes.a_text(3), "äöü"),
        (shapes.a_flag, False),
        (shapes.a_choice("a", "b"), "b"),
        (shapes.or_none(shapes.a_text(1)), None),
        (shapes.a_list(shapes.a_whole(), 2), [1, 2]),
        (shapes.a_row(shapes.a_text(1), shapes.a_whole()), ["a", 1]),
        (shapes.a_record({"a": shapes.a_whole()}, {"b": shapes.a_flag}), {"a": 1, "b": None}),
        (shapes.an_object, {"a": [1]}),
    ],
)
def test_value_of_a_shape_is_returned(shape: Callable[[Any], Any], value: Any) -> None:
    assert shape(value) == value
    assert shapes.checked(value, shape) == value


@pytest.mark.parametrize(
    ("shape", "value"),
    [
        (shapes.a_whole(0, 9), 10),
        (shapes.a_whole(0, 9), -1),
        (shapes.a_whole(0, 9), True),
        (shapes.a_whole(0, 9), 1.0),
        (shapes.a_whole(), 10**4000),
        (shapes.a_whole(), "1"),
        (shapes.a_number(0, 9), float("nan")),
        (shapes.a_number(0, 9), float("inf")),
        (shapes.a_number(0, 9), 10**400),
        (shapes.a_number(0, 9), False),
        (shapes.a_text(3), "four"),
        (shapes.a_text(3), "\ud800"),
        (shapes.a_text(3), b"a"),
        (shapes.a_flag, 1),
        (shapes.a_choice("a"), ["a"]),
        (shapes.a_list(shapes.a_whole(), 2), [1, 2, 3]),
        (shapes.a_list(shapes.a_whole(), 2), (1, 2)),
        (shapes.a_row(shapes.a_whole()), [1, 2]),
        (shapes.a_record({"a": shapes.a_whole()}), {}),
        (shapes.a_record({}, {"a": shapes.a_whole()}), {"a": "x"}),
        (shapes.a_record({}), []),
        (shapes.an_object, DEEP),
    ],
)
def test_value_of_another_shape_is_refused(shape: Callable[[Any], Any], value: Any) -> None:
    with pytest.raises(WrongMessageError) as refused:
        shape(value)
    assert len(str(refused.value)) < 200
    str(refused.value).encode()
    assert shapes.checked(value, shape) is None


def test_part_that_is_wrong_is_named_by_its_path() -> None:
    inner = shapes.a_record({"ranks": shapes.a_list(shapes.a_row(shapes.a_whole()), 3)})
    with pytest.raises(WrongMessageError, match=r"^started\.ranks\[1\]\[0\] is 'x', expected"):
        shapes.a_record({"started": inner})({"started": {"ranks": [[1], ["x"]]}})


def test_record_leaves_out_what_it_does_not_know() -> None:
    assert shapes.a_record({}, {"a": shapes.a_whole()})({"b": DEEP}) == {"a": None}


@pytest.mark.parametrize("line", [b"[" * 100_000, b"\xff", b"", b"9" * 5000, b"{'a': 1}"])
def test_line_that_is_no_json_is_refused(line: bytes) -> None:
    with pytest.raises(WrongMessageError):
        shapes.parsed(line)


def test_words_of_others_are_made_such_that_they_can_be_kept() -> None:
    assert shapes.cleaned("\ud800" * 9, 6) == "\\ud800"
    assert shapes.cleaned({"a": 1}, 9) == "an object"
    assert shapes.cleaned("ä" * 9, 3) == "äää"
