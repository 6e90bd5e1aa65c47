"""How a value from outside is checked, and how a message is declared once for all who use it.

A *shape* is a function that returns a value as it should be, or raises. What a job or a host says
is held to a shape where it comes in: no number of a hundred digits or text that cannot be encoded
gets further.

A *message* is a class with a field a line: its name, its type, its shape. The scheduler and the
agent use the same class, so that what one writes is what the other reads:

    class Shares(Message):
        cpus_milli: int = field(COUNT)                      needed
        cpus: tuple[int, ...] = field(CPUS, default=())     may be missing: then it is this

`Shares(cpus_milli=1)` makes one, `Shares.decoded(value)` checks what came as JSON, and since a
message is a dictionary, JSON writes it as it is. Type checkers hold each shape to the type beside
it. The agent runs with a host's own Python, so this is written by hand and not with msgspec; that
all fields are checked in Python costs some 20 µs for the largest record of an attempt.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Callable, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import ClassVar, Self, dataclass_transform

    Fields = dict[str, Any]
else:
    Fields = dict

    def dataclass_transform(**_options):
        """Do nothing: Python before 3.11 lacks it, and only type checkers read it."""
        return lambda of: of


T = TypeVar("T")
D = TypeVar("D")
K = TypeVar("K")
V = TypeVar("V")
Shape = Callable[[object], T]
"""What a value is held to: it returns it as it should be, or raises WrongMessageError."""

COUNT_MOST = 2**53 - 1  # what every reader of JSON can tell from its neighbours
CLOCK_MOST = 2**63 - 1
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
            raise wrong(value, f"a whole number from {least} to {most}")
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
            raise wrong(value, f"a number from {least:g} to {most:g}")
        return float(value)

    return held


def a_text(most: int) -> Shape[str]:
    """Return the shape of a text of so many characters at most, valid in UTF-8."""

    def held(value: object) -> str:
        if not isinstance(value, str) or len(value) > most or not _is_encodable(value):
            raise wrong(value, f"a text of {most} characters at most")
        return value

    return held


def a_cause(most: int) -> Shape[str]:
    """Return the shape of a text that is cut to so many characters, and made valid."""

    def held(value: object) -> str:
        if not isinstance(value, str):
            raise wrong(value, "a text")
        return cleaned(value, most)

    return held


def a_flag(value: object) -> bool:
    """Hold a value to be true or false."""
    if not isinstance(value, bool):
        raise wrong(value, "true or false")
    return value


def a_choice(*choices: str) -> Shape[Any]:
    """Return the shape of one of some texts."""

    def held(value: object) -> str:
        if not isinstance(value, str) or value not in choices:
            raise wrong(value, f"one of {', '.join(choices)}")
        return value

    return held


def or_none(shape: Shape[T]) -> Shape[T | None]:
    """Return the shape of a value that may be absent."""
    return lambda value: None if value is None else shape(value)


def a_list(shape: Shape[T], most: int) -> Shape[tuple[T, ...]]:
    """Return the shape of a list of so many values at most."""

    def held(value: object) -> tuple[T, ...]:
        if not isinstance(value, (list, tuple)) or len(value) > most:
            raise wrong(value, f"a list of {most} at most")
        found: list[T] = []
        try:
            for each in value:
                found.append(shape(each))  # noqa: PERF401  how many there are names the wrong one
        except WrongMessageError as error:
            raise _named(f"[{len(found)}]", error) from None
        return tuple(found)

    return held


def a_row(*shapes: Shape[Any]) -> Shape[Any]:
    """Return the shape of a list with one value for each of the shapes."""

    def held(value: object) -> tuple[object, ...]:
        if not isinstance(value, (list, tuple)) or len(value) != len(shapes):
            raise wrong(value, f"a list of {len(shapes)}")
        pairs = enumerate(zip(shapes, value))
        return tuple([within(f"[{number}]", shape, each) for number, (shape, each) in pairs])

    return held


def a_table(key: Shape[K], value: Shape[V], most: int) -> Shape[dict[K, V]]:
    """Return the shape of an object of so many names at most, each with a value."""

    def held(given: object) -> dict[K, V]:
        if not isinstance(given, dict) or len(given) > most:
            raise wrong(given, f"an object of {most} names at most")
        found, name = {}, None
        try:
            for name, each in given.items():
                found[key(name)] = value(each)
        except WrongMessageError as error:
            raise _named(shown(name), error) from None
        return found

    return held


def an_object(value: object) -> dict[str, object]:
    """Hold a value to be an object, whatever is in it."""
    if not isinstance(value, dict):
        raise wrong(value, "an object")
    return value


def as_it_is(value: Any) -> Any:
    """Take a value that we wrote ourselves."""
    return value


def cleaned(value: object, most: int) -> str:
    """Return somebody's words as a text that can be encoded and is not too long."""
    said = value if isinstance(value, str) else shown(value)
    return said[:most].encode("utf-8", "backslashreplace").decode("utf-8")[:most]


def shown(value: object) -> str:
    """Return how a wrong value is told of: its beginning, in plain letters."""
    if isinstance(value, int) and not -CLOCK_MOST <= value <= CLOCK_MOST:
        return "a whole number of more than 64 bits"
    if isinstance(value, (dict, list, tuple)):
        return "an object" if isinstance(value, dict) else f"a list of {len(value)}"
    said = ascii(value[: SHOWN_CHARACTERS + 1] if isinstance(value, str) else value)
    return said if len(said) <= SHOWN_CHARACTERS else said[:SHOWN_CHARACTERS] + "…"


def within(name: str, shape: Shape[T], value: object) -> T:
    """Hold a part of a message to its shape; an error names the part."""
    try:
        return shape(value)
    except WrongMessageError as error:
        raise _named(name, error) from None


def _named(name: str, error: WrongMessageError) -> WrongMessageError:
    joint = "." if error.path and not error.path.startswith("[") else ""
    return WrongMessageError(error.what, f"{name}{joint}{error.path}")


def wrong(value: object, expected: str) -> WrongMessageError:
    """Return the error of a value that is not what was expected."""
    return WrongMessageError(f"is {shown(value)}, expected {expected}")


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_NEEDED: Any = object()


class _Field:
    """A field of a message: its shape, and what it is where it is not given."""

    def __init__(
        self, shape: Shape[Any], default: Any, wire: str, *, is_needed: bool, is_sparse: bool
    ) -> None:
        self.shape, self.default, self.wire = shape, default, wire
        self.is_needed, self.is_sparse = is_needed or default is _NEEDED, is_sparse

    def __set_name__(self, _owner: type, name: str) -> None:
        self.wire = self.wire or name

    def __get__(self, message: Message | None, _owner: type) -> Any:
        return self if message is None else message.get(self.wire, self.default)

    def __set__(self, message: Message, value: object) -> None:
        message[self.wire] = value


@overload
def field(shape: Shape[T]) -> T: ...


@overload
def field(
    shape: Shape[T], *, default: D, wire: str = ..., is_needed: bool = ..., is_sparse: bool = ...
) -> T | D: ...


def field(
    shape: Shape[Any],
    *,
    default: Any = _NEEDED,
    wire: str = "",
    is_needed: bool = False,
    is_sparse: bool = False,
) -> Any:
    """Declare a field of a message.

    Args:
        shape: what its value is held to when a message is decoded.
        default: its value where it is missing, or null; without one it is needed.
        wire: its name in JSON, where that is another one.
        is_needed: a message that is decoded must have it all the same.
        is_sparse: it is not written where it has its default.
    """
    return _Field(shape, default, wire, is_needed=is_needed, is_sparse=is_sparse)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
class Message(Fields):
    """A message, whose class declares its fields; nothing else is taken."""

    FIELDS: ClassVar[Mapping[str, _Field]] = {}

    def __init_subclass__(cls) -> None:
        """Collect the fields that are declared, those of what it extends first."""
        super().__init_subclass__()
        own = {name: each for name, each in vars(cls).items() if isinstance(each, _Field)}
        cls.FIELDS = {**cls.FIELDS, **own}

    def __init__(self, **given: Any) -> None:
        """Make a message of the values of its fields."""
        for name, each in self.FIELDS.items():
            value = given[name] if each.default is _NEEDED else given.get(name, each.default)
            if not each.is_sparse or value != each.default:
                self[each.wire] = value

    @classmethod
    def decoded(cls, value: object) -> Self:
        """Return a message that came as JSON.

        Raises:
            WrongMessageError: it is none of this kind.
        """
        if not isinstance(value, dict):
            raise wrong(value, "an object")
        for each in cls.FIELDS.values():
            if each.is_needed and each.wire not in value:
                raise WrongMessageError("is missing", each.wire)
        message, name = cls.__new__(cls), ""
        try:
            for each in cls.FIELDS.values():
                name = each.wire
                given = value.get(name)
                given = each.shape(given) if given is not None or each.is_needed else each.default
                if not each.is_sparse or given != each.default:
                    message[name] = given
        except WrongMessageError as error:
            raise _named(name, error) from None
        return message

    def replaced(self, **changed: Any) -> Self:
        """Return the same with other values in some fields."""
        message = type(self).__new__(type(self))
        message.update(self)
        for name, value in changed.items():
            each = self.FIELDS[name]
            message[each.wire] = value
            if each.is_sparse and value == each.default:
                del message[each.wire]
        return message
