"""Compile the hot modules with Cython: python native/compile.py.

The sources are compiled as they are, in plain Python, with annotations left alone, so there is one
text to read and to test. Only what changed since the last time is compiled again. Without a C
compiler nothing is made, which is said, and Shunter runs from its sources. A source that Cython
does not understand is an error.
"""

import json
import sys
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "shunter"
WORK = ROOT / "build" / "native"
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


def compile_all(changed: list[tuple[str, Path]]) -> None:
    """Make the twins of sources.

    Raises:
        ImportError: Cython or setuptools is not installed.
        BaseError: there is no C compiler, or no headers of this Python.
    """
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    folder = twins_folder(PACKAGE)
    extensions = [
        Extension(name, [str(source.relative_to(ROOT))], extra_compile_args=["-O2", "-g0", "-w"])
        for name, source in changed
    ]
    made = cythonize(
        extensions,
        build_dir=str(WORK),
        compiler_directives={"annotation_typing": False, "language_level": 3},
        quiet=True,
    )
    order = build_ext(Distribution({"ext_modules": made}))
    order.build_lib, order.build_temp, order.parallel = str(WORK / "lib"), str(WORK), True
    order.ensure_finalized()
    order.run()
    folder.mkdir(parents=True, exist_ok=True)
    for name, _ in changed:
        built = Path(order.get_ext_fullpath(name))
        built.replace(folder / f"{name}{EXTENSION_SUFFIXES[0]}")


def main() -> int:
    """Compile what changed, and write down of which source each twin is."""
    manifest = twins_folder(PACKAGE) / MANIFEST
    known = json.loads(manifest.read_bytes()) if manifest.exists() else {}
    sources = dict(hot_sources())
    stamps = {name: stamp_of(source) for name, source in sources.items()}
    changed = [
        (name, source) for name, source in sources.items() if known.get(name) != stamps[name]
    ]
    if not changed:
        return 0
    print(f"compiling {len(changed)} modules", file=sys.stderr)
    try:
        from setuptools.errors import BaseError

        compile_all(changed)
    except ImportError as error:
        print(f"not compiled, running from the sources: {error}", file=sys.stderr)
        return 0
    except BaseError as error:
        print(f"not compiled (is there a C compiler, and python3-dev?): {error}", file=sys.stderr)
        return 0
    manifest.write_text(json.dumps(stamps, indent=0, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
