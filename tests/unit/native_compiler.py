"""native/compile.py as a module, working in a folder of the test's own."""

from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

COMPILE = Path(__file__).resolve().parents[2] / "native" / "compile.py"

__all__ = ["compiled"]


def compiled(source: Path, folder: Path) -> ModuleType:
    """Import a module as compiled by it; skip where nothing can be compiled."""
    pytest.importorskip("Cython", reason="Cython is not installed: make setup-dev does it")
    errors = pytest.importorskip("setuptools.errors")
    try:
        _compiler(folder / "work").compile_all([(source.stem, source)], folder)
    except errors.CompileError as error:
        pytest.skip(f"nothing can be compiled here: {error}")
    spec = spec_from_file_location(source.stem, folder / f"{source.stem}{EXTENSION_SUFFIXES[0]}")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _compiler(work: Path) -> ModuleType:
    spec = spec_from_file_location("native_compile", COMPILE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    module.WORK = work  # type: ignore[attr-defined]  # its own
    return module
