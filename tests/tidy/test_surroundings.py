"""Tests that need what a machine has not are left out, and a run says what would bring it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import surroundings
from tests.surroundings import LeftOut

ROOT = Path(__file__).parents[2]
PLUGIN = """
from tests import surroundings

def pytest_configure(config):
    surroundings.HERE["a harbour"] = (False, "a coast")
    surroundings.HERE["a hill"] = (True, "earth")
    surroundings.FIXTURES["ship"] = "a harbour"
    config.pluginmanager.register(surroundings.LeftOut())
"""
TESTS = """
import pytest

@pytest.fixture
def ship():
    pass

@pytest.mark.needs("a hill", "a harbour")
def test_of_both():
    pass

@pytest.mark.needs("a hill")
def test_of_a_hill():
    pass

def test_of_a_ship(ship):
    pass
"""


def test_what_needs_something_that_is_not_here_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(f"import sys\nsys.path.append({str(ROOT)!r})\n{PLUGIN}")
    (tmp_path / "test_some.py").write_text(TESTS)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-o", "markers=needs"],
        cwd=tmp_path,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    (header,) = [line for line in ran.stdout.splitlines() if line.startswith("left out: ")]
    assert "a harbour (a coast)" in header
    assert "a hill" not in header
    assert "1 passed, 2 deselected" in ran.stdout


def test_nothing_is_said_where_all_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings, "HERE", {"a hill": (True, "earth")})
    assert LeftOut().pytest_report_header() is None
