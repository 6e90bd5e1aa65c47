"""Shapes of messages: each is a function that returns a value as it should be, or raises.

What a job or a host says is somebody else's data. It is held to a shape where it comes in, so that
nothing behind that meets a number of a hundred digits, a text that cannot be encoded, or a list
where a text should be. Only the standard library of Python 3.8 or later, as in supervisor.py.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shunter.backends.node.messages.wire import Shape

    T = TypeVar("T")

PROTOCOL = 2
"""The version of what agents and schedulers say: see `shunter.backends.live.messages`."""
COUNT_MOST = 2**53 - 1  # what every reader of JSON can tell from its neighbours
CLOCK_MOST = 2**63 - 1
READ_BYTES_MAX = 1 << 18  # of an output, in one answer
SHOWN_CHARACTERS = 40


class WrongMessageError(ValueError):
    """A message, or a part of it, is not what it should be."""

    def __init__(self, what: str, path: str = "") -> None:
        """Keep what is wrong, and of which part."""
        super().__init__(f"{path or 'it'} {what}")
        self.what, self.path = what, path


def checked(value: object, shape: Shape[T]) -> T | None:
    """Return a value as a shape has it; None if it is wrong."""
    try:
        return shape(value)
    except (WrongMessageError, RecursionError):
        return None


def parsed(line: bytes) -> object:
    """Return what a line of JSON says.

    Raises:
        WrongMessageError: it is no JSON, or nested beyond all measure.
    """
    try:
        said: object = json.loads(line)
    except (ValueError, RecursionError):
        words = shown(line.decode("utf-8", "replace"))
        raise WrongMessageError(f"is {words}, expected JSON") from None
    return said


def a_whole(least: int = 0, most: int = COUNT_MOST) -> Shape[int]:
    """Return the shape of an integer from one number to another."""

    def held(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise _wrong(value, f"a whole number from {least} to {most}")
        return value

    return held


def a_number(least: float, most: float) -> Shape[float]:
    """Return the shape of a finite number from one to another."""

    def held(value: object) -> float:
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not least <= value <= most  # which NaN never is
        ):
            raise _wrong(value, f"a number from {least:g} to {most:g}")
        return float(value)

    return held


def a_text(most: int) -> Shape[str]:
    """Return the shape of a text of so many characters at most, valid in UTF-8."""

    def held(value: object) -> str:
        if not isinstance(value, str) or len(value) > most or not _is_encodable(value):
            raise _wrong(value, f"a text of {most} characters at most")
        return value

    return held


def a_flag(value: object) -> bool:
    """Hold a value to be true or false."""
    if not isinstance(value, bool):
        raise _wrong(value, "true or false")
    return value


def a_choice(*choices: str) -> Shape[str]:
    """Return the shape of one of some texts."""

    def held(value: object) -> str:
        if not isinstance(value, str) or value not in choices:
            raise _wrong(value, f"one of {', '.join(choices)}")
        return value

    return held


def or_none(shape: Shape[T]) -> Shape[T | None]:
    """Return the shape of a value that may be absent."""
    return lambda value: None if value is None else shape(value)


def a_list(shape: Shape[T], most: int) -> Shape[list[T]]:
    """Return the shape of a list of so many values at most."""

    def held(value: object) -> list[T]:
        if not isinstance(value, list) or len(value) > most:
            raise _wrong(value, f"a list of {most} at most")
        return [_within(f"[{number}]", shape, each) for number, each in enumerate(value)]

    return held


def a_row(*shapes: Shape[object]) -> Shape[list[object]]:
    """Return the shape of a list with one value for each of the shapes."""

    def held(value: object) -> list[object]:
        if not isinstance(value, list) or len(value) != len(shapes):
            raise _wrong(value, f"a list of {len(shapes)}")
        pairs = enumerate(zip(shapes, value))  # noqa: B905 Python 3.8 has no strict
        return [_within(f"[{number}]", shape, each) for number, (shape, each) in pairs]

    return held


def a_record(
    needed: Mapping[str, Shape[object]],
    others: Mapping[str, Shape[object]] | None = None,
    *,
    leaves_out: bool = False,
) -> Shape[Any]:
    """Return the shape of an object: what it needs, and what it may have.

    What it may have and has not is None, or left out too; anything more is left out. Who names the
    shape says what type such an object has (`wire`).
    """

    def held(value: object) -> dict[str, object]:
        if not isinstance(value, dict):
            raise _wrong(value, "an object")
        for name in needed:
            if name not in value:
                raise WrongMessageError("is missing", name)
        found = {name: _within(name, shape, value[name]) for name, shape in needed.items()}
        for name, shape in (others or {}).items():
            given = value.get(name)
            if given is not None or not leaves_out:
                found[name] = None if given is None else _within(name, shape, given)
        return found

    return held


def an_object(value: object) -> dict[str, object]:
    """Hold a value to be an object, whatever is in it."""
    if not isinstance(value, dict):
        raise _wrong(value, "an object")
    return value


def cleaned(value: object, most: int) -> str:
    """Return somebody's words as a text that can be encoded and is not too long."""
    said = value if isinstance(value, str) else shown(value)
    return said[:most].encode("utf-8", "backslashreplace").decode("utf-8")[:most]


def shown(value: object) -> str:
    """Return how a wrong value is told of: its beginning, in plain letters."""
    if isinstance(value, int) and not -CLOCK_MOST <= value <= CLOCK_MOST:
        return "a whole number of more than 64 bits"
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else f"a list of {len(value)}"
    said = ascii(value[: SHOWN_CHARACTERS + 1] if isinstance(value, str) else value)
    return said if len(said) <= SHOWN_CHARACTERS else said[:SHOWN_CHARACTERS] + "…"


def _within(name: str, shape: Shape[T], value: object) -> T:
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


def _wrong(value: object, expected: str) -> WrongMessageError:
    return WrongMessageError(f"is {shown(value)}, expected {expected}")
