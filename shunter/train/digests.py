"""Whether the bits of two values are equal, by digests that other processes make as well."""

from __future__ import annotations

import ctypes
import sys
from enum import Enum
from hashlib import blake2b
from pickle import PickleError
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from shunter.train import state

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DIGEST_BYTES = 12
_PLAIN = (bool, int, float, complex, str, bytes, bytearray, type(None))
_DEPTH_MAX = 60  # of what lies in itself
_PROTOCOL = 4


def digests(values: Mapping[str, object]) -> dict[str, str]:
    """Return a digest of each value.

    Raises:
        TypeError: of a value nobody can say whether its bits are equal; names it.
    """
    return {name: _named(name, value) for name, value in values.items()}


def _named(name: str, value: object) -> str:
    try:
        return digest(value)
    except TypeError as error:
        raise TypeError(f"check.saw: {name!r}: {error}") from None


def digest(value: object) -> str:
    """Return hexadecimal digits that two values share if all of their bits are equal.

    Raises:
        TypeError: nobody can say so of it.
    """
    content = blake2b(digest_size=DIGEST_BYTES)
    for piece in _pieces(value, 0):
        content.update(b"%d:" % len(piece))
        content.update(piece)
    return content.hexdigest()


def _pieces(value: Any, depth: int) -> Iterator[bytes]:
    """Yield a value's bits, with what tells apart values of the same bits."""
    if depth > _DEPTH_MAX:
        raise TypeError(f"a {type(value).__qualname__} lies in itself")
    if type(value) in _PLAIN:
        yield value.hex().encode() if isinstance(value, float) else repr(value).encode()
    elif isinstance(value, dict):
        yield b"dict"
        for key in value:
            yield from _pieces(key, depth + 1)
            yield from _pieces(value[key], depth + 1)
    elif isinstance(value, (list, tuple)):
        yield b"list %d" % len(value)
        for each in value:
            yield from _pieces(each, depth + 1)
    elif isinstance(value, (set, frozenset)):
        yield b"set"
        yield from sorted(digest(each).encode() for each in value)
    elif hasattr(value, "detach") and hasattr(value, "cpu"):
        yield from _bits_of_tensor(value.detach().cpu())
    elif hasattr(value, "__array__"):
        yield from _bits_of(value, depth)
    else:
        yield from _pieces_of_object(value, depth)


def _bits_of(value: Any, depth: int) -> Iterator[bytes]:
    array = sys.modules["numpy"].asarray(value)
    yield f"{array.dtype} {array.shape}".encode()
    if array.dtype.hasobject:
        yield from _pieces(array.tolist(), depth + 1)
    else:
        yield array.tobytes()


def _bits_of_tensor(tensor: Any) -> Iterator[bytes]:
    """Yield a tensor's bits; there may be no numpy, and that has no bfloat16."""
    if tensor.layout is not sys.modules["torch"].strided:
        tensor = tensor.to_dense()
    for part in ("resolve_conj", "resolve_neg", "contiguous"):
        tensor = getattr(tensor, part)()
    yield f"{tensor.dtype} {tuple(tensor.shape)}".encode()
    size = tensor.numel() * tensor.element_size()
    yield ctypes.string_at(tensor.data_ptr(), size) if size else b""


def _pieces_of_object(value: Any, depth: int) -> Iterator[bytes]:
    """Yield the state of what has one, else what pickle would write of a value."""
    if isinstance(value, (type, FunctionType, ModuleType)):
        yield _name_of(value).encode()
    elif isinstance(value, Enum):
        yield f"{type(value).__qualname__}.{value.name}".encode()
    elif state.has_state(value):
        yield from _pieces(state.captured(value), depth)  # the same as of what was captured
    else:
        yield from _pieces_of_reduced(value, depth)


def _pieces_of_reduced(value: Any, depth: int) -> Iterator[bytes]:
    try:
        reduced = value.__reduce_ex__(_PROTOCOL)
    except (AttributeError, RuntimeError, TypeError, ValueError, PickleError) as error:
        raise TypeError(
            f"of a {type(value).__qualname__} nobody can say whether its bits are equal: show its "
            "arrays, tensors, numbers and texts, or what has state_dict()"
        ) from error
    if isinstance(reduced, str):
        yield reduced.encode()
        return
    made, arguments = reduced[:2]
    yield _name_of(made).encode()
    yield from _pieces(arguments, depth + 1)
    for each in reduced[2:]:
        yield from _pieces(list(each) if hasattr(each, "__next__") else each, depth + 1)


def _name_of(value: Any) -> str:
    if isinstance(value, ModuleType):
        return value.__name__
    name = getattr(value, "__qualname__", type(value).__qualname__)
    return f"{getattr(value, '__module__', '')}.{name}"
