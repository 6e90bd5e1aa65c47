"""Files for tests of traces: written on the spot, tiny samples, and the shared public ones."""

from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a text into a file of that name and return its path."""

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def samples() -> Path:
    """The folder of the tiny hand-made traces."""
    return ROOT / "tests" / "data" / "traces"


@pytest.fixture
def philly() -> Path:
    """The public Philly job list, beside the checkout (tests/surroundings.py)."""
    return ROOT.parent / "shared" / "traces" / "philly.csv"


@pytest.fixture
def shared_traces() -> Path:
    """The folder of public traces, beside the checkout where it is at hand."""
    return ROOT.parent / "shared" / "traces"
