"""A compiled module reads and writes attributes as the interpreter does, whatever they lie in."""

import sys
from dataclasses import FrozenInstanceError, dataclass
from types import ModuleType
from typing import Any

import msgspec
import pytest

from tests.unit.native_compiler import compiled

TOUCHES = """
def get(thing):
    return thing.value

def put(thing, value):
    thing.value = value

def drop(thing):
    del thing.value
"""


@pytest.fixture(scope="module")
def touches(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """A compiled module with one place that reads, one that writes and one that deletes."""
    folder = tmp_path_factory.mktemp("touches")
    (folder / "touches.py").write_text(TOUCHES)
    return compiled(folder / "touches.py", folder)


class Slotted:
    __slots__ = ("before", "value")

    def __init__(self, value: Any) -> None:
        self.value = value


class Below(Slotted):
    __slots__ = ("more",)


class Free:
    def __init__(self, value: Any) -> None:
        self.value = value


class Asked:
    value = property(lambda self: "asked")


@dataclass(frozen=True, slots=True)
class Frozen:
    value: int


class Record(msgspec.Struct):
    first: int
    value: int


class Answers:
    __slots__ = ("value",)

    def __getattribute__(self, name: str) -> str:
        return f"answer to {name}"


class Else:
    __slots__ = ("value",)

    def __getattr__(self, name: str) -> str:
        return f"no {name}"


def test_one_place_reads_from_objects_of_any_type(touches: ModuleType) -> None:
    """Goal: what one type taught a place never answers for another."""
    things = [
        (Slotted(1), 1),
        (Below(2), 2),
        (Free(3), 3),
        (Asked(), "asked"),
        (Frozen(4), 4),
        (Record(0, 5), 5),
        (Answers(), "answer to value"),
        (Else(), "no value"),
    ]
    for _ in range(3):
        assert [touches.get(thing) for thing, _ in things] == [value for _, value in things]


def test_one_place_writes_to_objects_of_any_type(touches: ModuleType) -> None:
    for thing in (Slotted(1), Below(1), Free(1), Record(0, 1), Slotted(1)):
        touches.put(thing, "new")
        assert thing.value == "new"
    for value in (1, 2):
        with pytest.raises(FrozenInstanceError):
            touches.put(Frozen(value), "new")
        touches.put(Slotted(value), "new")
    with pytest.raises(AttributeError):
        touches.put(Asked(), "new")
    with pytest.raises(AttributeError):
        touches.put(object(), "new")


def test_empty_slots_are_errors_and_can_be_filled_again(touches: ModuleType) -> None:
    thing = Slotted(1)
    assert touches.get(thing) == 1
    touches.drop(thing)
    for _ in range(2):
        with pytest.raises(AttributeError, match="value"):
            touches.get(thing)
        with pytest.raises(AttributeError, match="value"):
            touches.drop(thing)
    touches.put(thing, 2)
    assert touches.get(thing) == 2


def test_change_of_a_class_is_seen_at_once(touches: ModuleType) -> None:
    """Goal: a property put over a slot, on the class or a base of it, is asked from then on."""

    class Base:
        __slots__ = ("value",)

    class Derived(Base):
        __slots__ = ()

    base, derived, slot = Base(), Derived(), vars(Base)["value"]
    for thing in (base, derived):
        touches.put(thing, 1)
        assert touches.get(thing) == 1
    Base.value = property(lambda self: "hidden")  # type: ignore[attr-defined]  # a class of ours
    assert [touches.get(base), touches.get(derived)] == ["hidden", "hidden"]
    with pytest.raises(AttributeError):
        touches.put(derived, 2)
    Base.value = slot  # type: ignore[attr-defined]  # a class of ours
    assert [touches.get(base), touches.get(derived)] == [1, 1]
    Derived.value = "a constant"  # type: ignore[attr-defined]  # a class of ours
    assert [touches.get(base), touches.get(derived)] == [1, "a constant"]


def test_slot_of_a_stranger_is_refused(touches: ModuleType) -> None:
    """Goal: a slot's descriptor that was put into another class reads nothing there."""

    class Stranger:
        value = vars(Slotted)["value"]

    for _ in range(2):
        with pytest.raises(TypeError, match="value"):
            touches.get(Stranger())
        with pytest.raises(TypeError, match="value"):
            touches.put(Stranger(), 1)


def test_nothing_is_kept_alive_and_nothing_freed_too_soon(touches: ModuleType) -> None:
    kept = object()
    thing, before = Slotted(None), sys.getrefcount(kept)
    for _ in range(100):
        touches.put(thing, kept)
        assert touches.get(thing) is kept
    assert sys.getrefcount(kept) == before + 1
    touches.put(thing, None)
    assert sys.getrefcount(kept) == before
