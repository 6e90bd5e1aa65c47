"""The SDK runs in the Python of training scripts, which is often older than ours.

`vermin` finds syntax and calls that are newer, on any machine; what it cannot see (an attribute of
a value whose class it does not know, say) shows where a Python 3.8 is at hand: every module is
imported there and a job trained, here and as installed (tests/live/train).
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.backends.agents.test_zip_application import PYTHONS
from tests.unit.train.test_run import SCRIPT
from tests.unit.train.toy import Supervisor

ROOT = Path(__file__).parents[3]
SDK = ROOT / "shunter" / "train"
MODULES = sorted(SDK.rglob("*.py"))
OLDEST = "3.8"


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def newer_than_oldest(source: Path) -> str:
    """Return what in a file or folder needs a newer Python; nothing where none does."""
    options = [f"--target={OLDEST}-", "--violations", "--no-tips", "--no-config-file", "--quiet"]
    ran = subprocess.run(
        [sys.executable, "-c", "import vermin; vermin.main()", *options, source],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode in {0, 1}, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr if ran.returncode else ""


def test_nothing_in_the_sdk_needs_a_newer_python() -> None:
    assert len(MODULES) > 10
    assert newer_than_oldest(SDK) == ""


@pytest.mark.parametrize(
    "newer",
    [
        "zip([1], [2], strict=True)",
        "'checkpoint.1'.removeprefix('checkpoint.')",
        "match 1:\n    case _: pass",
        "import tomllib",
        "from pathlib import Path\nPath('a').is_relative_to('b')",
    ],
)
def test_what_is_newer_is_found(tmp_path: Path, newer: str) -> None:
    (tmp_path / "newer.py").write_text(f"{newer}\n")
    assert "requires" in newer_than_oldest(tmp_path)


@pytest.mark.live
@pytest.mark.parametrize("python", PYTHONS)
def test_every_module_of_the_sdk_can_be_imported(python: str) -> None:
    program = "; ".join(f"import {module_of(path)}" for path in MODULES)
    ran = subprocess.run(
        [python, "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {program}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.live
@pytest.mark.parametrize("python", PYTHONS)
def test_training_job_saves_and_leaves(tmp_path: Path, python: str) -> None:
    with Supervisor(tmp_path / "attempt") as supervisor:
        supervisor.ask()
        ran = subprocess.run(
            [python, "-S", "-c", SCRIPT, "6"],
            env={**supervisor.environment(tmp_path / "store"), "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 75, ran.stderr
        assert supervisor.told("saved")
