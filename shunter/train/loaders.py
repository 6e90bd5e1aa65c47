"""What a loader is made of: where its chance comes from, and whether it can be followed.

A loader draws from torch's generators (its own, its sampler's) and from whatever numpy's or
Python's generators its data set, sampler and transforms hold, under wrappers such as tqdm. They are
found by following attributes, in the same order in each attempt: the same script makes the same
objects. What has begun to draw before we see it cannot be followed, and is refused.
"""

from __future__ import annotations

import inspect
import random
import sys
from collections import deque
from functools import partial
from types import FunctionType, GeneratorType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from shunter.train import state

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_INNER = "base_dataloader"
_FIRST = ("generator", "sampler", "batch_sampler", _INNER)
_LAYERS_MAX = 2  # how deep loaders and samplers lie in each other
_DEPTH_MAX = 6
_FEW = 100  # lists that are longer hold data
_BEGUN = (enumerate, filter, map, zip)
_OF_NO_LOADER = ("count", "repeat")  # of itertools
_PERSISTENT = "_iterator"  # where a DataLoader itself keeps its workers
# Accelerate's makes its generator when it begins, and seeds it with the number of each pass.
_SEEDS_EACH_PASS = "SeedableRandomSampler"


def check_loader(source: object) -> None:
    """Refuse an iterator that has begun, where it draws before its first batch.

    Raises:
        TypeError: it is none of the loaders that can be followed.
    """
    found: Any = source
    while found is not None:
        kind = type(found).__name__
        if isinstance(found, _BEGUN) or _is_of_itertools(found):
            around = f"`{kind}(..., run.batches(loader))`, or, to go on counting where it resumes, "
            raise TypeError(
                f"run.batches was given {_of(found)}, whose loader begins before a resumed run can "
                f"put its order back: give it the loader, as in "
                f"{around if isinstance(found, _BEGUN) else ''}"
                f"`def batches(): yield from {kind}(...)` with `run.batches(batches())`"
            )
        if "DataLoaderIter" in kind or (_is_generator(found) and found.gi_frame is None):
            raise _begun(found)
        if _is_generator(found):
            if inspect.getgeneratorstate(found) != inspect.GEN_CREATED:
                raise _begun(found)
            found = inspect.getgeneratorlocals(found).get(".0")  # of a generator expression
        else:
            for name, held in _named(found).items():
                if "DataLoaderIter" in type(held).__name__ and name != _PERSISTENT:
                    raise _begun(found)
            found = getattr(found, "iterable", None)  # of tqdm


def generators(source: object) -> list[Any]:
    """Return the generators a loader draws from, besides the global ones."""
    return [each for each in _holders(source) if _is_of_chance(each)]


def has_workers(source: object) -> bool:
    """Say whether workers that outlive a pass have begun."""
    # The first pass of such a loader draws a seed for them, those after it do not.
    return any(getattr(each, _PERSISTENT) is not None for each in _with_lasting_workers(source))


def begin_workers(source: object) -> None:
    """Begin the workers that outlive a pass, where they have not begun."""
    for each in _with_lasting_workers(source):
        if getattr(each, _PERSISTENT) is None:
            iter(each)


def keeps_position(source: object) -> bool:
    """Say whether a loader saves and loads by itself how far it is."""
    # Accelerate's loaders have both methods, which work where the loader within has them.
    return all(state.has_state_dict(each) for each in (source, getattr(source, _INNER, source)))


def _with_lasting_workers(source: object) -> list[Any]:
    found = [each for each in _holders(source) if "persistent_workers" in _named(each)]
    return [each for each in found if each.persistent_workers and hasattr(each, _PERSISTENT)]


def _named(holder: object) -> dict[str, object]:
    found: dict[str, object] = getattr(holder, "__dict__", {})
    return found


def _holders(source: object) -> Iterator[Any]:
    """Yield what a loader is made of, in the same order in each attempt."""
    seen: dict[int, object] = {}  # kept, so that no other object gets the id of one
    waiting: deque[tuple[object, int]] = deque([(source, 0)])
    while waiting:
        holder, depth = waiting.popleft()
        if id(holder) in seen:
            continue
        seen[id(holder)] = holder
        yield holder
        if not _is_of_chance(holder) and depth < _DEPTH_MAX:
            waiting += [(each, depth + 1) for each in _parts_of(holder, depth)]


def _begun(source: object) -> TypeError:
    return TypeError(
        f"run.batches was given {_of(source)}, which has begun already, so that a resumed run "
        "could not put its order back: give it the loader itself, and iterate over "
        "run.batches(loader)"
    )


def _of(source: object) -> str:
    name = type(source).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _is_of_itertools(source: object) -> bool:
    kind = type(source)
    return kind.__module__ == "itertools" and kind.__name__ not in _OF_NO_LOADER


def _is_generator(source: object) -> bool:
    return isinstance(source, GeneratorType)


def _is_of_chance(holder: object) -> bool:
    kinds: list[Any] = [random.Random]
    numpy = getattr(sys.modules.get("numpy"), "random", None)
    kinds += [getattr(numpy, "Generator", None), getattr(numpy, "RandomState", None)]
    kinds.append(getattr(sys.modules.get("torch"), "Generator", None))
    return isinstance(holder, tuple(kind for kind in kinds if kind is not None))


def _parts_of(holder: Any, depth: int) -> Iterable[object]:
    """Return what an object holds that may draw."""
    if isinstance(holder, dict):
        holder = list(holder.values())
    if isinstance(holder, (list, tuple)):
        return holder if len(holder) <= _FEW else ()
    if isinstance(holder, GeneratorType):
        return _used_by(holder) if depth <= 1 else ()  # of the loader itself, not of an iteration
    if isinstance(holder, MethodType):
        return [holder.__self__]
    if isinstance(holder, partial):
        return [holder.func, *holder.args, *holder.keywords.values()]
    if isinstance(holder, FunctionType):
        used = inspect.getclosurevars(holder)
        named = [*used.nonlocals.values(), *used.globals.values()]
        return [each for each in named if _is_of_chance(each)]
    if type(holder).__name__ == _SEEDS_EACH_PASS:
        return [each for each in vars(holder).values() if not _is_of_chance(each)]
    if isinstance(holder, (type, ModuleType)) or "DataLoaderIter" in type(holder).__name__:
        return ()
    first = [getattr(holder, name, None) for name in _FIRST] if depth <= _LAYERS_MAX else []
    return [*first, *_named(holder).values()]


def _used_by(generator: Any) -> list[object]:
    """Return what a generator that has not begun will use."""
    if generator.gi_frame is None:
        return []
    names = [generator.gi_frame.f_globals.get(name) for name in generator.gi_code.co_names]
    return [*inspect.getgeneratorlocals(generator).values(), *names]
