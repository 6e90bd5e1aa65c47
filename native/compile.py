"""Compile the hot modules with Cython: python native/compile.py.

The sources are compiled as they are, in plain Python, with annotations left alone, so there is one
text to read and to test. Attributes that are slots are found as attributes.h says. Only what
changed since the last time is compiled again. Without a C compiler nothing is made, which is said,
and Shunter runs from its sources. A source that Cython does not understand is an error.
"""

import json
import os
import sys
from collections.abc import Iterator
from fcntl import LOCK_EX, flock
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "shunter"
WORK = ROOT / "build" / "native"
ATTRIBUTES = ROOT / "native" / "attributes.h"
MADE_BY = "made by"
"""Where the manifest holds the stamps of this file and that header: others make other twins."""

sys.path.insert(0, str(ROOT))

from shunter.compiled import MANIFEST, stamp_of, twins_folder  # noqa: E402  after the path


def hot_sources() -> Iterator[tuple[str, Path]]:
    """Yield the modules to compile by name, each with its source."""
    lines = Path(__file__).with_name("modules.txt").read_text().splitlines()
    for pattern in lines:
        if not pattern or pattern.startswith("#"):
            continue
        for source in sorted(PACKAGE.glob(pattern)):
            if source.name != "__init__.py":
                parts = source.relative_to(PACKAGE).with_suffix("").parts
                yield ".".join(["shunter", *parts]), source


def made_by() -> list[int]:
    """Return what changes when all has to be compiled again."""
    return [*stamp_of(Path(__file__)), *stamp_of(ATTRIBUTES)]


def quicken(c_source: Path) -> None:
    """Let a module that Cython made find slots as attributes.h says.

    Raises:
        ValueError: Cython lays out its modules in another way.
    """
    text = c_source.read_text()
    for mark, lines in (
        ("module_code", f'#include "{ATTRIBUTES}"'),
        ("module_exttypes", "#undef __Pyx_PyObject_GetAttrStr\n#undef __Pyx_PyObject_SetAttrStr"),
    ):
        section = f"/* #### Code section: {mark} ### */\n"
        if text.count(section) != 1:
            raise ValueError(f"{c_source} has no section {mark}: is this another Cython?")
        text = text.replace(section, f"{section}{lines}\n")
    c_source.write_text(text)


def compile_all(changed: list[tuple[str, Path]], folder: Path) -> None:
    """Make the twins of sources, in a folder.

    Raises:
        ImportError: Cython or setuptools is not installed.
        CompileError: there is no C compiler, or no headers of this Python.
    """
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    extensions = [
        Extension(name, [os.path.relpath(source)], extra_compile_args=["-O2", "-g0", "-w"])
        for name, source in changed
    ]
    made = cythonize(
        extensions,
        build_dir=str(WORK),
        compiler_directives={"annotation_typing": False, "language_level": 3},
        force=True,
        quiet=True,
    )
    for extension in made:
        quicken(Path(extension.sources[0]))
    order = build_ext(Distribution({"ext_modules": made}))
    order.build_lib, order.build_temp = str(WORK / "lib"), str(WORK)
    order.parallel = order.force = True
    order.ensure_finalized()
    order.run()
    folder.mkdir(parents=True, exist_ok=True)
    for name, _ in changed:
        built = Path(order.get_ext_fullpath(name))
        built.replace(folder / f"{name}{EXTENSION_SUFFIXES[0]}")


def main() -> int:
    """Compile what changed, and write down of which source each twin is; forget other twins."""
    manifest = twins_folder(PACKAGE) / MANIFEST
    known = json.loads(manifest.read_bytes()) if manifest.exists() else {}
    if known.get(MADE_BY) != made_by():
        known = {}
    sources = dict(hot_sources())
    stamps = {name: stamp_of(source) for name, source in sources.items()}
    changed = [
        (name, source) for name, source in sources.items() if known.get(name) != stamps[name]
    ]
    stamps[MADE_BY] = made_by()
    if stamps == known:
        return 0
    print(f"compiling {len(changed)} modules", file=sys.stderr)
    try:
        from setuptools.errors import CompileError

        compile_all(changed, twins_folder(PACKAGE))
    except ImportError as error:
        print(f"not compiled, running from the sources: {error}", file=sys.stderr)
        return 0
    except CompileError as error:
        print(f"not compiled (is there a C compiler, and python3-dev?): {error}", file=sys.stderr)
        return 0
    manifest.write_text(json.dumps(stamps, indent=0, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    WORK.mkdir(parents=True, exist_ok=True)
    with (WORK / ".lock").open("w") as lock:
        flock(lock, LOCK_EX)  # one at a time: they would write the same files
        sys.exit(main())
