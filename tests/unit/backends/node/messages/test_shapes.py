"""Shapes hold what they are given to types, ranges, lengths, and texts that can be encoded."""

from collections.abc import Callable
from typing import Any

import pytest

from shunter.backends.node import WrongMessageError, messages

DEEP: list[Any] = []
for _ in range(5000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("shape", "value"),
    [
        (messages.a_whole(0, 9), 9),
        (messages.a_number(0, 9), 0.5),
        (messages.a_text(3), "äöü"),
        (messages.a_flag, False),
        (messages.a_choice("a", "b"), "b"),
        (messages.or_none(messages.a_text(1)), None),
        (messages.a_list(messages.a_whole(), 2), [1, 2]),
        (messages.a_row(messages.a_text(1), messages.a_whole()), ["a", 1]),
        (messages.a_record({"a": messages.a_whole()}, {"b": messages.a_flag}), {"a": 1, "b": None}),
        (messages.an_object, {"a": [1]}),
    ],
)
def test_value_of_a_shape_is_returned(shape: Callable[[Any], Any], value: Any) -> None:
    assert shape(value) == value
    assert messages.checked(value, shape) == value


@pytest.mark.parametrize(
    ("shape", "value"),
    [
        (messages.a_whole(0, 9), 10),
        (messages.a_whole(0, 9), -1),
        (messages.a_whole(0, 9), True),
        (messages.a_whole(0, 9), 1.0),
        (messages.a_whole(), 10**4000),
        (messages.a_whole(), "1"),
        (messages.a_number(0, 9), float("nan")),
        (messages.a_number(0, 9), float("inf")),
        (messages.a_number(0, 9), 10**400),
        (messages.a_number(0, 9), False),
        (messages.a_text(3), "four"),
        (messages.a_text(3), "\ud800"),
        (messages.a_text(3), b"a"),
        (messages.a_flag, 1),
        (messages.a_choice("a"), ["a"]),
        (messages.a_list(messages.a_whole(), 2), [1, 2, 3]),
        (messages.a_list(messages.a_whole(), 2), (1, 2)),
        (messages.a_row(messages.a_whole()), [1, 2]),
        (messages.a_record({"a": messages.a_whole()}), {}),
        (messages.a_record({}, {"a": messages.a_whole()}), {"a": "x"}),
        (messages.a_record({}), []),
        (messages.an_object, DEEP),
    ],
)
def test_value_of_another_shape_is_refused(shape: Callable[[Any], Any], value: Any) -> None:
    with pytest.raises(WrongMessageError) as refused:
        shape(value)
    assert len(str(refused.value)) < 200
    str(refused.value).encode()
    assert messages.checked(value, shape) is None


def test_part_that_is_wrong_is_named_by_its_path() -> None:
    inner = messages.a_record({"ranks": messages.a_list(messages.a_row(messages.a_whole()), 3)})
    with pytest.raises(WrongMessageError, match=r"^started\.ranks\[1\]\[0\] is 'x', expected"):
        messages.a_record({"started": inner})({"started": {"ranks": [[1], ["x"]]}})


def test_record_leaves_out_what_it_does_not_know() -> None:
    assert messages.a_record({}, {"a": messages.a_whole()})({"b": DEEP}) == {"a": None}


@pytest.mark.parametrize("line", [b"[" * 100_000, b"\xff", b"", b"9" * 5000, b"{'a': 1}"])
def test_line_that_is_no_json_is_refused(line: bytes) -> None:
    with pytest.raises(WrongMessageError):
        messages.parsed(line)


def test_words_of_others_are_made_such_that_they_can_be_kept() -> None:
    assert messages.cleaned("\ud800" * 9, 6) == "\\ud800"
    assert messages.cleaned({"a": 1}, 9) == "an object"
    assert messages.cleaned("ä" * 9, 3) == "äää"
