"""Compiled twins of the modules a simulation spends its time in.

`make setup` compiles them, unchanged, with Cython into `__compiled__/` beside this file (see
native/compile.py). A twin is used only while the source it was made from lies here unchanged, as
with the interpreter's own `__pycache__`; otherwise, and wherever SHUNTER_PURE=1 is set, the source
is imported. Both decide the same, bit for bit. Importing this module, as the package itself does
before all others, lets imports find the twins. Training scripts import it too, with
`shunter.train`, so Python 3.8 must be able to.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    Stamp = list[int]

__all__ = ["PURE", "CompiledTwins", "stamp_of", "twins_folder", "use_twins"]

PURE = "SHUNTER_PURE"
"""The environment variable that asks for the sources."""

MANIFEST = "manifest.json"


def twins_folder(package: Path) -> Path:
    """Return where the twins of a package lie that this interpreter can load."""
    return package / "__compiled__" / str(sys.implementation.cache_tag)


def stamp_of(source: Path) -> Stamp:
    """Return what changes whenever a file does: its time in ns, and its size."""
    known = source.stat()
    return [known.st_mtime_ns, known.st_size]


class CompiledTwins:
    """Finds a module's twin, if it was made from the source as it is now."""

    def __init__(self, package: Path, stamps: dict[str, Stamp]) -> None:
        self._package = package
        self._folder = twins_folder(package)
        self._stamps = stamps

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return the spec of the twin, or None: then the source is found as usual."""
        stamp = self._stamps.get(fullname)
        if stamp is None:
            return None
        source = self._package.joinpath(*fullname.split(".")[1:]).with_suffix(".py")
        twin = self._folder / f"{fullname}{EXTENSION_SUFFIXES[0]}"
        try:
            if stamp_of(source) != stamp or not twin.exists():
                return None
        except OSError:
            return None
        spec = ModuleSpec(fullname, ExtensionFileLoader(fullname, str(twin)), origin=str(twin))
        spec.has_location = True
        return spec


def use_twins(package: Path) -> None:
    """Let imports find the twins of a package, unless the sources are asked for."""
    if os.environ.get(PURE, "") not in ("", "0"):
        return
    try:
        stamps = json.loads((twins_folder(package) / MANIFEST).read_bytes())
    except (OSError, ValueError):
        return
    sys.meta_path.insert(0, CompiledTwins(package, stamps))


use_twins(Path(__file__).parent)
