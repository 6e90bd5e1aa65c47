"""The runner of one marker tells "no such tests yet" from a broken selection."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.marked import ALONE_MOST, Tally, is_said_to_hold, verdict

ROOT = Path(__file__).parents[2]
GROUPED = ("-n", "2", "--dist", "loadgroup")
# Each process here would read every other plugin that is installed, for files that use none.
ONLY_XDIST = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}
BESIDE = """
import os, pytest
pytestmark = pytest.mark.live

@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("name", ["a@b"])
def test_of_a_group(name):
    assert not os.environ.get("PYTEST_XDIST_WORKER")

@pytest.mark.parametrize("number", range(OTHERS))
def test_other(number):
    assert not os.environ.get("PYTEST_XDIST_WORKER")
"""


@pytest.mark.parametrize("marker", ["fidelity", "live"])
def test_every_file_of_a_folder_that_make_test_does_not_read_is_read_elsewhere(marker: str) -> None:
    files = sorted((ROOT / "tests" / marker).rglob("test_*.py"))
    assert len(files) > 10
    assert [path for path in files if not is_said_to_hold(path, marker)] == []


def tally(*, selected: int, deselected: int, ran: int = 0) -> Tally:
    made = Tally()
    made.selected, made.deselected, made.ran = selected, deselected, ran
    return made


NOTHING = pytest.ExitCode.NO_TESTS_COLLECTED


def test_unused_marker_is_said_and_passes() -> None:
    status, line = verdict("live", NOTHING, tally(selected=0, deselected=9), must_run=True)
    assert (status, line) == (0, "no live tests yet (9 tests without that marker)")


def test_empty_collection_stays_an_error() -> None:
    status, line = verdict("live", NOTHING, tally(selected=0, deselected=0), must_run=False)
    assert (status, line) == (5, "")


def test_failure_stays_a_failure() -> None:
    status, _ = verdict("live", 1, tally(selected=3, deselected=9, ran=3), must_run=False)
    assert status == 1


def test_selection_that_could_not_run_fails_where_it_must_run() -> None:
    skipped = tally(selected=3, deselected=9, ran=0)
    assert verdict("live", 0, skipped, must_run=False)[0] == 0
    assert verdict("live", 0, skipped, must_run=True)[0] == 1


def test_program_whose_tests_all_skipped_fails_where_they_must_run() -> None:
    some = tally(selected=3, deselected=9, ran=2)
    some.asked, some.answered = {"slurm", "ssh"}, {"ssh"}
    assert verdict("live", 0, some, must_run=False)[0] == 0
    status, line = verdict("live", 0, some, must_run=True)
    assert (status, line) == (1, "none of the slurm tests could run on this machine")


def test_groups_that_were_spread_over_processes_fail() -> None:
    spread = tally(selected=3, deselected=9, ran=3)
    spread.ungrouped = 3
    status, line = verdict("live", 0, spread, must_run=False)
    assert (status, line) == (1, "3 reports of tests of a group were not of its one process")


def run_live(folder: Path, text: str, *options: str) -> tuple[int, str]:
    """Run a file of tests, what fails alone once more; return the status and what was said."""
    (folder / "test_some.py").write_text(text)
    ran = subprocess.run(
        [sys.executable, "-m", "tests.marked", "live", "--alone", *options],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_XDIST_WORKER": ""} | ONLY_XDIST,
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.returncode, ran.stdout


def test_tests_that_pass_alone_are_named_and_pass(tmp_path: Path) -> None:
    status, said = run_live(tmp_path, BESIDE.replace("OTHERS", "1"), *GROUPED)
    assert status == 0, said
    assert "2 failed" in said
    named = said.rpartition("passed alone, look into it: ")[2]
    assert named == "test_some.py::test_of_a_group[a@b], test_some.py::test_other[0]\n"


def test_more_than_two_failures_are_final(tmp_path: Path) -> None:
    status, said = run_live(tmp_path, BESIDE.replace("OTHERS", str(ALONE_MOST)), *GROUPED)
    assert (status, "alone:" in said) == (1, False), said


def test_what_fails_alone_as_well_has_failed(tmp_path: Path) -> None:
    text = "import pytest\n@pytest.mark.live\ndef test_it():\n    assert False\n"
    status, said = run_live(tmp_path, text)
    assert (status, said.splitlines()[-1]) == (
        1,
        "what failed beside other tests failed alone as well",
    )


def test_nothing_is_tried_again_if_a_file_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("raise ValueError('broken')\n")
    status, said = run_live(tmp_path, BESIDE.replace("OTHERS", "0"), *GROUPED)
    assert (status, "1 failed" in said, "alone:" in said) == (1, True, False), said
