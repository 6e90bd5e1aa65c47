"""Tests that run in forks of one process are reported as they would be by that process alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COUNTED = """
import os, pytest
from pathlib import Path

Path("read").open("a").write("x")

@pytest.fixture(scope="module", autouse=True)
def built():
    Path("built").open("a").write(f"{os.getpid()} ")
    yield
    Path("ended").open("a").write("x")

@pytest.mark.parametrize("number", range(5))
def test_of_a_file(number):
    print(f"said {number}")
    assert number != FAILS
"""
DIES = """
import os, signal

def test_before():
    pass

def test_that_is_killed():
    os.kill(os.getpid(), signal.SIGKILL)

def test_after():
    pass
"""


def run(folder: Path, *options: str, **texts: str) -> tuple[int, str]:
    """Run files of tests in two forks; return the status and what was printed."""
    for name, text in texts.items():
        (folder / f"test_{name}.py").write_text(text)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.forked", "--forks", "2", *options],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.returncode, ran.stdout


def test_files_are_read_once_and_each_is_run_by_one_process(tmp_path: Path) -> None:
    passes = COUNTED.replace("FAILS", "9")

    status, said = run(tmp_path, one=passes, two=passes, three=passes)

    assert (status, "15 passed" in said) == (0, True), said
    assert (tmp_path / "read").read_text() == "xxx"
    assert len((tmp_path / "built").read_text().split()) == 3
    assert (tmp_path / "ended").read_text() == "xxx"


def test_failure_is_shown_with_the_output_of_its_test_alone(tmp_path: Path) -> None:
    status, said = run(
        tmp_path, one=COUNTED.replace("FAILS", "3"), two=COUNTED.replace("FAILS", "9")
    )

    assert status == pytest.ExitCode.TESTS_FAILED
    assert "1 failed, 9 passed" in said
    assert "FAILED test_one.py::test_of_a_file[3]" in said
    assert [line for line in said.splitlines() if line.startswith("said ")] == ["said 3"]


def test_process_that_dies_fails_the_test_that_it_was_at(tmp_path: Path) -> None:
    status, said = run(tmp_path, one=DIES, two=COUNTED.replace("FAILS", "9"))

    assert status == pytest.ExitCode.TESTS_FAILED
    assert "1 failed, 6 passed" in said
    assert (
        "FAILED test_one.py::test_that_is_killed - the process of this test ended with -9" in said
    )


def test_first_failure_ends_a_run_that_is_to_end_there(tmp_path: Path) -> None:
    status, said = run(tmp_path, "-x", one=COUNTED.replace("FAILS", "0"))

    assert (status, "stopping after 1 failures" in said) == (1, True), said


def test_file_that_cannot_be_read_fails_the_run(tmp_path: Path) -> None:
    status, said = run(tmp_path, one="raise ValueError('broken')\n", two=DIES)

    assert (status, "1 error" in said) == (pytest.ExitCode.INTERRUPTED, True), said
