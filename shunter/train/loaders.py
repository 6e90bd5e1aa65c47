"""What a loader is made of: where its chance comes from, and whether it can be followed.

A loader draws from torch's generators (its own, its sampler's) and from whatever numpy's or
Python's generators its data set, sampler and transforms hold, under wrappers such as tqdm. They are
found by following attributes, functions and small containers, in the same order in each attempt:
the same script makes the same objects. What earlier SDKs found comes first, as in their
checkpoints. A source that began to draw before we see it cannot be followed, and is refused.
"""

from __future__ import annotations

import inspect
import random
import sys
import sysconfig
from collections import deque
from contextlib import suppress
from functools import partial
from types import (
    CodeType,
    FunctionType,
    GeneratorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import TYPE_CHECKING, Any

from shunter.train import state

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_INNER = "base_dataloader"
_FIRST = ("generator", "sampler", "batch_sampler", _INNER)
_LAYERS_MAX = 2  # how deep loaders and samplers lie in each other
_DEPTH_MAX = 6
_FEW = 100
_MANY = 1000  # lists that are longer hold data
_HOLDERS_MAX = 10_000
_ATOMS = (str, bytes, bytearray, int, float, complex, type(None), range, type, ModuleType)
_LEFT_ALONE = ("_io", "_thread", "datetime", "io", "logging", "re", "shunter", "threading")
_LIBRARIES = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib"))
_PACKAGES = ("site-packages", "dist-packages")
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
    return [each for each in _holders(source) if is_of_chance(each)]


def has_workers(source: object) -> bool:
    """Say whether workers that outlive a pass have begun."""
    # The first pass of such a loader draws a seed for them, those after it do not.
    return any(getattr(each, _PERSISTENT) is not None for each in _with_lasting_workers(source))


def begin_workers(source: object) -> None:
    """Begin the workers that outlive a pass, where they have not begun."""
    for each in _with_lasting_workers(source):
        if getattr(each, _PERSISTENT) is None:
            iter(each)


def is_of_chance(holder: object) -> bool:
    """Say whether something is a generator with a state of its own."""
    numpy = getattr(sys.modules.get("numpy"), "random", None)
    torch = sys.modules.get("torch")
    kinds: list[Any] = [random.Random, getattr(torch, "Generator", None)]
    kinds += [getattr(numpy, name, None) for name in ("Generator", "RandomState", "BitGenerator")]
    if not issubclass(type(holder), tuple(kind for kind in kinds if kind is not None)):
        return False
    mtrand = getattr(numpy, "mtrand", None)
    others = [getattr(random, "_inst", None), getattr(mtrand, "_rand", None)]
    others.append(getattr(torch, "default_generator", None))  # the global ones are saved as such
    is_stateless = isinstance(holder, random.SystemRandom)
    return not is_stateless and all(holder is not each for each in others)


def fetches_ahead(source: object) -> bool:
    """Say whether a loader has fetched one batch more than it has handed out."""
    return hasattr(source, _INNER)  # Accelerate's, to know which one is the last


def keeps_position(source: object) -> bool:
    """Say whether a loader saves and loads by itself how far it is."""
    # Accelerate's loaders have both methods, which work where the loader within has them.
    return all(state.has_state_dict(each) for each in (source, getattr(source, _INNER, source)))


def _with_lasting_workers(source: object) -> list[Any]:
    found = [each for each in _holders(source) if "persistent_workers" in _named(each)]
    return [each for each in found if each.persistent_workers and hasattr(each, _PERSISTENT)]


def _named(holder: object) -> dict[str, object]:
    found: dict[str, object] = {}
    with suppress(
        AttributeError
    ):  # not by `vars`: objects that stand for others load them, or raise
        found = object.__getattribute__(holder, "__dict__")
    return found


def _holders(source: object) -> Iterator[Any]:
    """Yield what a loader is made of, in the same order in each attempt."""
    seen: dict[int, Any] = {}  # kept, so that no other object gets the id of one
    waiting: deque[tuple[object, int]] = deque([(source, 0)])
    while waiting:
        holder, depth = waiting.popleft()
        if id(holder) in seen:
            continue
        seen[id(holder)] = holder
        if not is_of_chance(holder) and depth < _DEPTH_MAX:
            with suppress(Exception):  # whatever an object does that is looked at
                waiting += [(each, depth + 1) for each in _parts_of(holder, depth)]
    yield from seen.values()
    further = deque(seen.values())
    while further and len(seen) < _HOLDERS_MAX:
        parts: Iterable[object] = ()
        with suppress(Exception):
            parts = _all_parts_of(further.popleft())
        for each in parts:
            if id(each) not in seen and not _is_left_alone(each):
                seen[id(each)] = each
                further.append(each)
                yield each


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
        return [each for each in named if is_of_chance(each)]
    if type(holder).__name__ == _SEEDS_EACH_PASS:
        return [each for each in vars(holder).values() if not is_of_chance(each)]
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


def _all_parts_of(holder: Any) -> Iterable[object]:
    """Return what an object holds that may draw, besides what `_parts_of` says."""
    if is_of_chance(holder) or _is_left_alone(holder) or isinstance(holder, GeneratorType):
        return ()
    if isinstance(holder, dict):
        holder = list(dict.values(holder)) if len(holder) <= _MANY else ()
    if isinstance(holder, (list, tuple, deque)):
        return holder if len(holder) <= _MANY else ()
    if isinstance(holder, MethodType):
        return [holder.__self__, holder.__func__]
    if isinstance(holder, partial):
        return [holder.func, *holder.args, *holder.keywords.values()]
    if isinstance(holder, FunctionType):
        return _held_by(holder)
    if type(holder).__name__ == _SEEDS_EACH_PASS or "DataLoaderIter" in type(holder).__name__:
        return ()
    kinds = type(holder).__mro__
    of_classes = [each for kind in kinds if _is_own(kind) for each in vars(kind).values()]
    in_slots = []
    for each in [value for kind in kinds for value in vars(kind).values()]:
        if isinstance(each, MemberDescriptorType):
            with suppress(AttributeError):  # it is empty
                in_slots.append(each.__get__(holder))
    return [*_named(holder).values(), *in_slots, *of_classes]


def _held_by(function: FunctionType) -> list[object]:
    """Return what a function uses; globals if it is of no library."""
    held = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # it is empty
            held.append(cell.cell_contents)
    codes = [function.__code__] if _is_own(function) else []
    for code in codes:  # of the functions within as well
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
        held += [function.__globals__.get(name) for name in code.co_names]
    return held


def _is_own(what: Any) -> bool:
    """Say whether a class or function is of no library."""
    module = sys.modules.get(what.__module__ or "")
    path = getattr(module, "__file__", None) or ""
    if module is None or what.__module__ == "__main__":
        return True
    is_package = any(name in path for name in _PACKAGES)
    return bool(path) and not is_package and not path.startswith(_LIBRARIES)


def _is_left_alone(holder: object) -> bool:
    return issubclass(type(holder), _ATOMS) or type(holder).__module__.split(".")[0] in _LEFT_ALONE
