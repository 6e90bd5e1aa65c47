"""`from shunter import train` without the SDK says what to install, and nothing else changes."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import shunter

PACKAGE = Path(shunter.__file__).parent
HINT = "distribution of its own: pip install shunter-train (./train in a checkout)"


@pytest.fixture
def scheduler(tmp_path: Path) -> Path:
    """Return a folder with the scheduler's top files alone, as its wheel has them without SDK."""
    folder = tmp_path / "shunter"
    folder.mkdir()
    for file in sorted(PACKAGE.glob("*.py")):
        shutil.copy(file, folder)
    return tmp_path


def ran(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    program = f"import sys; sys.path.insert(0, {str(folder)!r}); {program}"
    command = [sys.executable, "-I", "-S", "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("program", ["from shunter import train", "import shunter; shunter.train"])
def test_without_the_sdk_it_is_said_what_to_install(scheduler: Path, program: str) -> None:
    last = ran(scheduler, program).stderr.splitlines()[-1]

    assert last.startswith("ImportError: the training SDK, shunter.train, is not installed")
    assert HINT in last


def test_with_the_sdk_it_is_imported(scheduler: Path) -> None:
    shutil.copytree(PACKAGE / "train", scheduler / "shunter/train")

    done = ran(scheduler, "from shunter import train; print(train.start.__name__)")

    assert (done.stdout, done.stderr) == ("start\n", "")


def test_other_names_are_missed_as_ever(scheduler: Path) -> None:
    said = ran(scheduler, "from shunter import trian").stderr.splitlines()[-1]

    assert said.startswith("ImportError: cannot import name 'trian' from 'shunter'")
