"""How the state of a run is written to a file, and read again without running what the file names.

Python pickles the state; its reader takes only the classes listed here, and those that the script
itself has allowed with `torch.serialization.add_safe_globals`. Tensors and the like go into a list
that torch writes, and reads with `weights_only=True`::

    without torch    the pickle
    with torch       {"shunter": 2, "tree": the pickle, as bytes, "torch": [tensor, ...]}

A state is written once it has been read again, in the way a later attempt reads it, and the bytes
of its tensors have been compared with those in memory, which is quicker than the checksums of
torch's archive. Those are looked at where there is nothing to compare with: in files of trainers,
of tensors on a GPU. Files that were written before (JSON, or the whole state as torch writes it)
are still read.
"""

from __future__ import annotations

import ctypes
import inspect
import io
import json
import pickle
import re
import sys
import zipfile
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from shunter.train import archives

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

# What saving raises: a full disk, no memory, a state that cannot be written or read.
ERRORS = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    MemoryError,
    pickle.PickleError,
    zipfile.BadZipFile,
)
FORMAT = 2
_ARCHIVE = b"PK\x03\x04"  # is what torch writes
_PROTOCOL = 4  # the newest that every Python since 3.8 reads
_DEPTH_MAX = 20
_PLAIN = {"bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list"}
_NUMPY = {"_frombuffer", "_reconstruct", "scalar"}
_READABLE = {
    "builtins": _PLAIN | {"range", "set", "slice", "str", "tuple"},
    "argparse": {"Namespace"},
    "collections": {"Counter", "OrderedDict", "defaultdict", "deque"},
    "datetime": {"date", "datetime", "time", "timedelta", "timezone"},
    "decimal": {"Decimal"},
    "fractions": {"Fraction"},
    "functools": {"partial"},  # of what is listed here
    "pathlib": {"PosixPath", "PurePosixPath", "PureWindowsPath", "WindowsPath"},
    "types": {"SimpleNamespace"},
    "uuid": {"UUID"},
    "numpy": {"dtype", "ndarray"},
    "numpy.core.multiarray": _NUMPY,
    "numpy._core.multiarray": _NUMPY,
    "numpy.random._pickle": {"__bit_generator_ctor", "__generator_ctor", "__randomstate_ctor"},
    "numpy.random._mt19937": {"MT19937"},
    "numpy.random._pcg64": {"PCG64", "PCG64DXSM"},
    "numpy.random._philox": {"Philox"},
    "numpy.random._sfc64": {"SFC64"},
    "numpy.random.bit_generator": {"SeedSequence", "__pyx_unpickle_SeedSequence"},
}
_READABLE["pathlib._local"] = _READABLE["pathlib"]  # their module in Python 3.13
_TENSORS = ("Tensor", "Size", "dtype", "device", "layout", "UntypedStorage", "TypedStorage")


def write(path: Path, state: object) -> int:
    """Write a state to a file that can be read again, and return its bytes.

    Raises:
        TypeError: it holds what could not be read again.
        OSError: the file does not hold what was written to it.
    """
    prove = put(path, state)
    prove()
    return path.stat().st_size


def put(path: Path, state: object) -> Callable[[], None]:
    """Write a state to a file, and return what proves that it can be read again.

    The file may be synced to disk meanwhile.

    Raises:
        TypeError: the state holds what could not be read again.
    """
    tree, apart = _pickled(state)
    torch = _torch()
    if torch is None:
        path.write_bytes(tree)
        return lambda: _check_sound(path, is_sound=path.read_bytes() == tree)
    content = torch.frombuffer(bytearray(tree), dtype=torch.uint8)
    torch.save({"shunter": FORMAT, "tree": content, "torch": apart}, path)

    def prove() -> None:
        found, values = _archive(path, is_mapped=True)
        is_same = _are_same(values, apart)
        if is_same is None:
            is_same = _is_sound(path, torch)
        _check_sound(path, is_sound=found == tree and is_same)

    return prove


def _check_sound(path: Path, *, is_sound: bool) -> None:
    if not is_sound:
        raise OSError(f"{path} does not hold what was written to it")


def read(path: Path) -> Any:
    """Return the state that a file holds.

    Raises:
        OSError: an archive of torch has other bytes than when it was written.
    """
    with path.open("rb") as file:
        kind = file.read(1)
    if kind == b"{":
        return json.loads(path.read_bytes())
    if kind == b"\x80":
        return _unpickled(path.read_bytes(), [])
    _check_sound(path, is_sound=_is_sound(path, _torch()))  # torch itself reads on in silence
    tree, rest = _archive(path)
    return rest if tree is None else _unpickled(tree, rest)


def size_of(state: object) -> int:
    """Return the bytes that a state takes in a checkpoint, about."""
    tree, apart = _dumped(state)
    return len(tree) + sum(getattr(each, "nbytes", 0) for each in apart)


class _Pickler(pickle.Pickler):
    """Pickles a state but for what torch has to write, which it puts into `apart`."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=_PROTOCOL)
        self.apart: list[object] = []
        torch = _torch()
        named = [getattr(torch, name, None) for name in _TENSORS]
        self._tensors = tuple(each for each in named if each is not None)
        self._generator = getattr(torch, "Generator", ())

    def persistent_id(self, value: Any) -> object:
        """Return where a tensor lies in `apart`; None: Python pickles the value."""
        if isinstance(value, self._tensors):
            self.apart.append(value)
            return len(self.apart) - 1
        if isinstance(value, self._generator):
            self.apart.append(value.get_state())
            return str(value.device), len(self.apart) - 1
        return None


class _Unpickler(pickle.Unpickler):
    """Makes nothing but what is listed above, or what the script has allowed."""

    def __init__(self, file: io.BytesIO, apart: list[Any]) -> None:
        super().__init__(file)
        self._apart = apart

    def persistent_load(self, where: Any) -> object:
        """Return a tensor, or make a generator of torch."""
        if isinstance(where, int):
            return self._apart[where]
        device, index = where
        generator = sys.modules["torch"].Generator(device)
        generator.set_state(self._apart[index])
        return generator

    def find_class(self, module: str, name: str) -> Any:
        """Return a class that a checkpoint may name."""
        if name in _READABLE.get(module, ()):
            return super().find_class(module, name)
        found = super().find_class(module, name) if module in sys.modules else None
        if not _is_readable(found):
            raise pickle.UnpicklingError(f"a {module}.{name}")
        return found


def _is_readable(found: object) -> bool:
    """Say whether what the script has loaded only holds values."""
    if isinstance(found, type):
        numpy = sys.modules.get("numpy")
        if issubclass(found, (Enum, getattr(numpy, "generic", Enum))):
            return True
        if issubclass(found, tuple) and hasattr(found, "_fields"):
            return True
    allowed: list[Any] = getattr(
        getattr(_torch(), "serialization", None), "get_safe_globals", list
    )()
    return any(found is (each[0] if isinstance(each, tuple) else each) for each in allowed)


def _pickled(state: object) -> tuple[bytes, list[object]]:
    """Return a state as bytes that can be read, and what torch is to write."""
    try:
        written = _dumped(state)
        _unpickled(*written)
    except ERRORS as error:
        where, found = _within(state, error)
        raise TypeError(
            f"{where} cannot be read from a checkpoint again ({found}): keep numbers, texts, "
            "lists, dicts, arrays or tensors there, or allow its class by "
            "torch.serialization.add_safe_globals before train.start"
        ) from error
    return written


def _dumped(state: object) -> tuple[bytes, list[object]]:
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(state)
    return file.getvalue(), pickler.apart


def _unpickled(tree: bytes, apart: list[object]) -> Any:
    return _Unpickler(io.BytesIO(tree), apart).load()


def _refusal(state: object) -> Exception | None:
    """Return why a state cannot be written and read; None: it can."""
    try:
        _unpickled(*_dumped(state))
    except ERRORS as error:
        return error
    return None


def _within(state: object, error: Exception) -> tuple[str, Exception]:
    """Return where in a state lies what is refused, and why it is."""
    where = ""
    for _ in range(_DEPTH_MAX):
        for key, value in _items(state):
            found = _refusal(value)
            if found is not None:
                where, state, error = f"{where}[{key!r}]", value, found
                break
        else:
            break
    return where or "the state", error


def _items(state: object) -> Iterable[tuple[object, object]]:
    if isinstance(state, dict):
        return state.items()
    return enumerate(state) if isinstance(state, (list, tuple)) else ()


def _archive(path: Path, *, is_mapped: bool = False) -> tuple[bytes | None, Any]:
    """Return the pickle in a file of torch, if there is one, and the rest of it."""
    import torch  # type: ignore[import-not-found, unused-ignore]  # only torch wrote this

    options: dict[str, bool] = {}
    if is_mapped and "mmap" in inspect.signature(torch.load).parameters:  # since torch 2.1
        options["mmap"] = True  # what is mapped is not read
    saved = torch.load(str(path), map_location="cpu", weights_only=True, **options)
    if not isinstance(saved, dict) or saved.get("shunter") != FORMAT:
        return None, saved
    tree = saved["tree"]
    return ctypes.string_at(tree.data_ptr(), tree.numel()), saved["torch"]


def _are_same(values: list[Any], written: list[Any]) -> bool | None:
    """Say whether a file has the bytes that were written; None: nobody can say."""
    found = [_bytes_of(each) for each in values]
    expected = [_bytes_of(each) for each in written]
    if len(found) != len(expected) or None in found or None in expected:
        return None
    compare = ctypes.CDLL(None).memcmp
    compare.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    compared = set()
    for one, other in zip(found, expected):
        assert one is not None
        assert other is not None
        if one.form != other.form or one.size != other.size:
            return False
        key = (one.address, other.address, one.size)
        if one.size and key not in compared and compare(*key):
            return False
        compared.add(key)
    return True


class _Bytes(NamedTuple):
    """Where the bytes of a tensor lie in memory, with what says how they are read."""

    form: object
    address: int
    size: int
    kept: object


def _bytes_of(value: Any) -> _Bytes | None:
    """Return where a value lies; None: its bytes cannot be had, as on a GPU."""
    torch = sys.modules["torch"]
    if isinstance(value, (torch.Size, torch.dtype, torch.device, torch.layout)):
        return _Bytes(value, 0, 0, None)
    if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.device.type != "cpu":
        return None
    try:
        storage = value.untyped_storage()
        form = (value.dtype, value.shape, value.stride(), value.storage_offset())
        return _Bytes(form, storage.data_ptr(), storage.nbytes(), storage)
    except (AttributeError, RuntimeError):  # sparse ones, say, or before torch 2.0
        return None


def _is_sound(path: Path, torch: Any) -> bool:
    """Say whether the checksums of an archive are those of its content."""
    has_checksums = getattr(torch.serialization, "get_crc32_options", lambda: True)
    return not has_checksums() or archives.is_sound(path)


def _torch() -> Any:
    """Return torch if the script has imported it; we never do."""
    torch = sys.modules.get("torch")
    return torch if hasattr(torch, "save") else None


def allow_numbers() -> None:
    """Let torch read the numbers of numpy that are in checkpoints of trainers."""
    numpy = sys.modules.get("numpy")
    allow: Any = getattr(_torch(), "serialization", None)
    if numpy is None or not hasattr(allow, "add_safe_globals"):  # since torch 2.4
        return
    functions = [numpy.float64(0.0).__reduce__()[0], numpy.zeros(0).__reduce__()[0]]
    dtypes = [type(numpy.dtype(code)) for code in numpy.typecodes["All"]]
    allow.add_safe_globals([*functions, numpy.ndarray, numpy.dtype, *dtypes])


def _check_text(path: Path) -> None:
    """Refuse JSON, or a file of safetensors, that is cut off."""
    with path.open("rb") as file:
        try:
            if path.suffix == ".json":
                json.load(file)
                return
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(size)) if size < path.stat().st_size else {}
        except ValueError as error:
            raise OSError(f"{path} is cut off, or no {path.suffix[1:]}: {error}") from error
    ends = [each["data_offsets"][1] for name, each in header.items() if name != "__metadata__"]
    if not header or path.stat().st_size < 8 + size + max(ends, default=0):
        raise OSError(f"{path} is cut off")


def check_file(path: Path, *, weights_only: bool = True) -> None:
    """Refuse a file that a trainer wrote and could not read again.

    Args:
        path: the file: of torch, JSON or safetensors; of another format, or absent, it is not
            looked at.
        weights_only: whether the trainer reads one of torch so, which takes few classes.

    Raises:
        TypeError: it holds a class that is not read.
        OSError: it does not hold what was written to it.
    """
    if not path.is_file():
        return
    if path.suffix in (".json", ".safetensors"):
        _check_text(path)
        return
    if not zipfile.is_zipfile(path):
        with path.open("rb") as file:
            if file.read(len(_ARCHIVE)) == _ARCHIVE:
                raise OSError(f"{path} is cut off")
        return
    import torch  # type: ignore[import-not-found, unused-ignore]  # only torch wrote this

    allow_numbers()
    if not _is_sound(path, torch):
        raise OSError(f"{path} does not hold what was written to it")
    try:
        if weights_only:
            _archive(path, is_mapped=True)
    except pickle.UnpicklingError as error:
        found = re.search(r"GLOBAL (\S+)", str(error))
        raise TypeError(
            f"{path.name} cannot be read again (a {found[1] if found else error}): keep numbers, "
            "texts, lists, dicts and tensors in it, or allow its class by "
            "torch.serialization.add_safe_globals"
        ) from error
