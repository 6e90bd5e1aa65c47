"""What a script holds while it trains, and has not given to its checkpoints.

A check that finds other bits says which ones, and would like to say why. What decides the next
mini-batch and is in no checkpoint is mostly a variable of the script: an optimizer, a schedule, a
generator, a counter. So the variables are looked at of all functions of the script that are being
called: what has a state of its own, what holds such things, and plain values.
"""

from __future__ import annotations

import sys
import sysconfig
from contextlib import suppress
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from shunter.train import loaders, state
from shunter.train.digests import digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import FrameType

_OURS = str(Path(__file__).parents[1])
_LIBRARIES = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib"))
_PACKAGES = ("site-packages", "dist-packages")
_PLAIN = (bool, int, float, str, type(None))
_DEPTH_MAX = 3
_MEMORY_DEPTH_MAX = 8
_FEW, _MANY = 20, 1000
_BYTES_MAX = 1 << 24  # what is larger is data


class Held(NamedTuple):
    """Digests of what a script holds beside its parts, by the names of its variables."""

    states: dict[str, str]
    """What has a state of its own: optimizers, models, generators."""
    values: dict[str, str]
    """Numbers, texts, arrays and tensors."""
    sources: list[str]
    """Those of `states` that are generators, or have no tensors: a counter of an evaluator, say.

    They need not decide anything: what was saved may have a generator of its own since.
    """


def held(frame: FrameType | None, given: Mapping[str, object]) -> Held:
    """Return what a script holds beside its parts, and what does not lie within them.

    Args:
        frame: the innermost call to look at.
        given: what is in checkpoints: parts, and what an adapter trains.
    """
    known = {id(each): each for part in given.values() for each in _within(part)}
    bits: list[object] = []  # kept: what comes later must not lie where a copy of these lay
    for part in given.values():
        with suppress(Exception):  # whatever an object does that is looked at
            bits.append(state.captured(part) if state.has_state(part) else part)
    memory = _memory_of(bits)
    found = Held({}, {}, [])
    while frame is not None:
        if _is_of_script(frame.f_code.co_filename):
            for name, value in list(frame.f_locals.items()):
                if not name.startswith("__"):
                    for place, each in _states(name, value, known, 0):
                        with suppress(Exception):  # whatever an object does that is looked at
                            _put(found, place, each, memory)
        frame = frame.f_back
    return found


def _put(found: Held, place: str, value: Any, memory: set[int]) -> None:
    """Put a digest where it belongs, unless all tensors are those of parts."""
    is_value = _is_value(value)
    bits = value if is_value else state.captured(value)
    own = _memory_of(bits)
    if not own or own - memory:
        (found.values if is_value else found.states).setdefault(place, digest(bits))
        if not is_value and (not own or loaders.is_of_chance(value)):
            found.sources.append(place)


def _within(part: Any) -> Iterator[object]:
    """Yield a part, and the modules within one of torch."""
    yield part
    kind = getattr(getattr(sys.modules.get("torch"), "nn", None), "Module", None)
    # Only of that: a metric of ignite makes an attribute of any name, which yields for ever.
    if kind is not None and issubclass(type(part), kind):
        yield from part.modules()


def _memory_of(value: Any, depth: int = 0) -> set[int]:
    """Return where the tensors of a state lie: modules that share them are one."""
    if hasattr(value, "untyped_storage"):
        return {value.untyped_storage().data_ptr()} - {0}
    if type(value).__name__ == "ndarray":
        return {value.__array_interface__["data"][0]} - {0}
    values: Any = ()
    if isinstance(value, dict):
        values = value.values()
    elif isinstance(value, (list, tuple)) and len(value) <= _MANY:
        values = value
    if depth > _MEMORY_DEPTH_MAX:
        return set()
    return {place for each in values for place in _memory_of(each, depth + 1)}


def _states(
    name: str, value: Any, known: dict[int, object], depth: int
) -> Iterator[tuple[str, object]]:
    """Yield what has a state, and plain values, in a variable and in what it holds."""
    if id(value) in known or isinstance(value, (type, ModuleType, FunctionType)):
        return
    if _is_of_loader(value) or getattr(value, "nbytes", 0) > _BYTES_MAX:
        return
    if _is_value(value):
        yield name, value
        return
    known[id(value)] = value  # under its first name only
    if loaders.is_of_chance(value) or state.has_state(value):
        yield name, value
    elif depth < _DEPTH_MAX:
        for place, each in _items(name, value):
            yield from _states(place, each, known, depth + 1)


def _items(name: str, value: Any) -> Iterator[tuple[str, object]]:
    """Yield what a container, or an object of the script's own classes, holds."""
    if isinstance(value, (list, tuple)) and len(value) <= _FEW:
        yield from ((f"{name}[{place}]", each) for place, each in enumerate(value))
    elif isinstance(value, dict) and len(value) <= _FEW:
        yield from ((f"{name}[{key!r}]", value[key]) for key in value)
    elif _is_of_script(getattr(sys.modules.get(type(value).__module__), "__file__", None)):
        attributes = getattr(value, "__dict__", {})
        yield from ((f"{name}.{key}", each) for key, each in list(attributes.items()))


def _is_value(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return len(value) <= _MANY and all(type(each) in _PLAIN for each in value)
    is_tensor = hasattr(value, "detach") and not state.has_state(value)
    return type(value) in _PLAIN or hasattr(value, "__array__") or is_tensor


def _is_of_loader(value: object) -> bool:
    """Say whether something is a loader: `run.batches` restores those."""
    kind = type(value)
    return kind.__module__.startswith("shunter.") or "DataLoader" in kind.__name__


def _is_of_script(path: str | None) -> bool:
    if path is None or path.startswith(("<", _OURS, *_LIBRARIES)):
        return False
    return not any(name in path for name in _PACKAGES)
