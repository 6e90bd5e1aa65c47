"""Shapes hold what they are given to types, ranges, lengths, and texts that can be encoded."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from shunter.backends.node import (
    KINDS_NOTED,
    KINDS_SAID,
    JobMessage,
    Message,
    Note,
    WrongMessageError,
    a_flag,
    a_list,
    a_row,
    a_whole,
    field,
    shapes,
)
from shunter.backends.node.host import gpus_in


class Pair(Message):
    """A message of two fields, one of them needed."""

    a: int = field(a_whole())
    b: bool | None = field(a_flag, default=None)


class Rows(Message):
    """A message with a list."""

    ranks: Any = field(a_list(a_row(a_whole()), 3))


class Outer(Message):
    """A message with another one in it."""

    started: Rows = field(Rows.decoded)


class Sparse(Message):
    """A message whose field is written only where it says something."""

    a: int = field(a_whole(), default=0, is_sparse=True)


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
        (Pair.decoded, {"a": 1, "b": None}),
        (shapes.an_object, {"a": [1]}),
    ],
)
def test_value_of_a_shape_is_returned(shape: Callable[[Any], Any], value: Any) -> None:
    assert shape(value) == value
    assert shapes.checked(value, shape) == value


def test_list_becomes_a_tuple() -> None:
    assert a_list(a_whole(), 2)([1, 2]) == (1, 2)
    assert a_row(shapes.a_text(1), a_whole())(["a", 1]) == ("a", 1)


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
        (shapes.a_row(shapes.a_whole()), [1, 2]),
        (Pair.decoded, {}),
        (Pair.decoded, {"a": 1, "b": "x"}),
        (Pair.decoded, []),
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
    with pytest.raises(WrongMessageError, match=r"^started\.ranks\[1\]\[0\] is 'x', expected"):
        Outer.decoded({"started": {"ranks": [[1], ["x"]]}})


def test_message_leaves_out_what_it_does_not_declare() -> None:
    assert Pair.decoded({"a": 1, "c": DEEP}) == {"a": 1, "b": None}


def test_sparse_field_is_read_where_it_is_not_written() -> None:
    assert Sparse(a=0) == Sparse.decoded({"a": 0}) == Sparse.decoded({"a": None}) == {}
    assert (Sparse().a, Sparse(a=1), Sparse(a=1).replaced(a=0)) == (0, {"a": 1}, {})


@pytest.mark.parametrize("line", [b"[" * 100_000, b"\xff", b"", b"9" * 5000, b"{'a': 1}"])
def test_line_that_is_no_json_is_refused(line: bytes) -> None:
    with pytest.raises(WrongMessageError):
        shapes.parsed(line)


def test_words_of_others_are_made_such_that_they_can_be_kept() -> None:
    assert shapes.cleaned("\ud800" * 9, 6) == "\\ud800"
    assert shapes.cleaned({"a": 1}, 9) == "an object"
    assert shapes.cleaned("ä" * 9, 3) == "äää"


SAID: dict[str, Any] = {"rank": 0, "step": 7, "ranks": 2, "turn": 1, "text": "t"}
NOTED: dict[str, Any] = {
    "n": 1,
    "at_ns": 5,
    "mode": "signal",
    "count": 3,
    "cause": "c",
    "mask": 1,
    "text": "t",
}


@pytest.mark.parametrize(
    ("what", "name"), [(what, name) for what, (needed, _) in KINDS_SAID.items() for name in needed]
)
def test_null_is_no_field_of_what_a_job_says(what: str, name: str) -> None:
    assert JobMessage.decoded({"what": what, **SAID}).what == what
    with pytest.raises(WrongMessageError, match="is missing"):
        JobMessage.decoded({"what": what, **SAID, name: None})


@pytest.mark.parametrize(
    ("what", "name"), [(what, name) for what, (needed, _) in KINDS_NOTED.items() for name in needed]
)
def test_null_is_no_field_of_a_note(what: str, name: str) -> None:
    assert Note.decoded({"what": what, **NOTED}).what == what
    with pytest.raises(WrongMessageError, match="is missing"):
        Note.decoded({"what": what, **NOTED, name: None})


def test_gpu_that_says_what_none_does_hides_no_other() -> None:
    good = {"index": 0, "faults": {}, "uuid": "GPU-a", "utilisation": 3}
    odd = {"index": 1, "faults": {}, "uuid": "GPU-b", "utilisation": 4e9}
    answer = {"gpus": [good, odd], "by": "NVML", "code": 0}
    first, second = gpus_in(f"\nGPUS {json.dumps(answer)}").gpus
    assert (first.uuid, second.uuid) == ("GPU-a", None)
    assert (second.index, list(second.faults)) == (1, ["device"])
