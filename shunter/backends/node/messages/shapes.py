"""Shapes of messages: each is a function that returns a value as it should be, or raises.

What a job or a host says is somebody else's data. It is held to a shape where it comes in, so that
nothing behind that meets a number of a hundred digits, a text that cannot be encoded, or a list
where a text should be. Only the standard library of Python 3.8 or later, as in supervisor.py.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Shape = Callable[[Any], Any]

COUNT_MOST = 2**53 - 1  # what every reader of JSON can tell from its neighbours
CLOCK_MOST = 2**63 - 1
SHOWN_CHARACTERS = 40


class WrongMessageError(ValueError):
    """A message, or a part of it, is not what it should be."""

    def __init__(self, what: str, path: str = "") -> None:
        """Keep what is wrong, and of which part."""
        super().__init__(f"{path or 'it'} {what}")
        self.what, self.path = what, path


def checked(value: Any, shape: Shape) -> Any:
    """Return a value as a shape has it; None if it is wrong."""
    try:
        return shape(value)
    except (WrongMessageError, RecursionError):
        return None


def parsed(line: bytes) -> Any:
    """Return what a line of JSON says.

    Raises:
        WrongMessageError: it is no JSON, or nested beyond all measure.
    """
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        said = shown(line.decode("utf-8", "replace"))
        raise WrongMessageError(f"is {said}, expected JSON") from None


def a_whole(least: int = 0, most: int = COUNT_MOST) -> Shape:
    """Return the shape of an integer from one number to another."""

    def held(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise _wrong(value, f"a whole number from {least} to {most}")
        return value

    return held


def a_number(least: float, most: float) -> Shape:
    """Return the shape of a finite number from one to another."""

    def held(value: Any) -> float:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not least <= value <= most:  # which NaN never is
            raise _wrong(value, f"a number from {least:g} to {most:g}")
        return float(value)

    return held


def a_text(most: int) -> Shape:
    """Return the shape of a text of so many characters at most, valid in UTF-8."""

    def held(value: Any) -> str:
        if not isinstance(value, str) or len(value) > most or not _is_encodable(value):
            raise _wrong(value, f"a text of {most} characters at most")
        return value

    return held


def a_flag(value: Any) -> bool:
    """Hold a value to be true or false."""
    if not isinstance(value, bool):
        raise _wrong(value, "true or false")
    return value


def a_choice(*choices: str) -> Shape:
    """Return the shape of one of some texts."""

    def held(value: Any) -> str:
        if not isinstance(value, str) or value not in choices:
            raise _wrong(value, f"one of {', '.join(choices)}")
        return value

    return held


def or_none(shape: Shape) -> Shape:
    """Return the shape of a value that may be absent."""
    return lambda value: None if value is None else shape(value)


def a_list(shape: Shape, most: int) -> Shape:
    """Return the shape of a list of so many values at most."""

    def held(value: Any) -> list[Any]:
        if not isinstance(value, list) or len(value) > most:
            raise _wrong(value, f"a list of {most} at most")
        return [_within(f"[{number}]", shape, each) for number, each in enumerate(value)]

    return held


def a_row(*shapes: Shape) -> Shape:
    """Return the shape of a list with one value for each of the shapes."""

    def held(value: Any) -> list[Any]:
        if not isinstance(value, list) or len(value) != len(shapes):
            raise _wrong(value, f"a list of {len(shapes)}")
        pairs = enumerate(zip(shapes, value))  # noqa: B905 Python 3.8 has no strict
        return [_within(f"[{number}]", shape, each) for number, (shape, each) in pairs]

    return held


def a_table(shape: Shape, most: int) -> Shape:
    """Return the shape of an object with values of one shape, and so many at most."""

    def held(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict) or len(value) > most:
            raise _wrong(value, f"an object with {most} names at most")
        return {NAME(name): _within(name, shape, each) for name, each in value.items()}

    return held


def a_record(needed: dict[str, Shape], others: dict[str, Shape] | None = None) -> Shape:
    """Return the shape of an object: what it needs, and what it may have.

    What it may have and has not is None; anything more is left out.
    """

    def held(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _wrong(value, "an object")
        for name in needed:
            if name not in value:
                raise WrongMessageError("is missing", name)
        found = {name: _within(name, shape, value[name]) for name, shape in needed.items()}
        for name, shape in (others or {}).items():
            given = value.get(name)
            found[name] = None if given is None else _within(name, shape, given)
        return found

    return held


def an_object(value: Any) -> dict[str, Any]:
    """Hold a value to be an object, whatever is in it."""
    if not isinstance(value, dict):
        raise _wrong(value, "an object")
    return value


def cleaned(value: Any, most: int) -> str:
    """Return somebody's words as a text that can be encoded and is not too long."""
    said = value if isinstance(value, str) else shown(value)
    return said[:most].encode("utf-8", "backslashreplace").decode("utf-8")[:most]


def shown(value: Any) -> str:
    """Return how a wrong value is told of: its beginning, in plain letters."""
    if isinstance(value, int) and not -CLOCK_MOST <= value <= CLOCK_MOST:
        return "a whole number of more than 64 bits"
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else f"a list of {len(value)}"
    said = ascii(value[: SHOWN_CHARACTERS + 1] if isinstance(value, str) else value)
    return said if len(said) <= SHOWN_CHARACTERS else said[:SHOWN_CHARACTERS] + "…"


NAME = a_text(256)


def _within(name: str, shape: Shape, value: Any) -> Any:
    try:
        return shape(value)
    except WrongMessageError as error:
        joint = "." if error.path and not error.path.startswith("[") else ""
        raise WrongMessageError(error.what, f"{name}{joint}{error.path}") from None


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _wrong(value: Any, expected: str) -> WrongMessageError:
    return WrongMessageError(f"is {shown(value)}, expected {expected}")
