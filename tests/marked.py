"""Run the tests of one marker: python -m tests.marked MARKER [OPTIONS] [PYTEST OPTIONS].

pytest reports "no tests collected" for a marker nobody uses yet and for a broken selection alike.
This counts: nothing selected out of a healthy collection is said and passes; anything else is
pytest's own verdict. With --must-run a selection of which not one test could run is a failure,
and so are tests of which not one that needs sshd or Slurm could run, so that a machine without the
needed programs cannot look green. Tests of one `xdist_group` must run in one process (they share a
Slurm cluster): that they were spread is a failure, for nothing else tells. Tests marked `thorough`
as well, which repeat at length what others hold, run with SHUNTER_THOROUGH set in the environment
(make live or fidelity, THOROUGH=1).

Only files whose text marks tests so are read (tests/conftest.py holds all others to that): each of
six processes would read 9,000 tests otherwise, to run 1,200. Paths in the options are taken as they
are.

With --alone one or two tests that failed beside others run once more with the machine to
themselves: what fails again has failed, and what passes is named (docs/decisions/simulation.md).
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

__all__ = ["Tally", "is_said_to_hold", "main", "verdict"]

PROGRAMS = ("slurm", "ssh")
"""Markers of tests that need programs which are not installed with Shunter."""
ALONE_MOST = 2
"""More failures than this are no accident of a busy machine."""


class Tally:
    """A pytest plugin that counts what was deselected, selected and really run."""

    def __init__(self) -> None:
        self.deselected = 0
        self.selected = 0
        self.ran = 0
        self.asked: set[str] = set()
        self.answered: set[str] = set()
        self.is_grouping = False
        self.ungrouped = 0
        self.failed: set[str] = set()
        self.is_readable = True

    def pytest_configure(self, config: pytest.Config) -> None:
        """Note whether groups are asked for."""
        self.is_grouping = config.getoption("dist", "no") == "loadgroup"

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Count the tests without the marker."""
        self.deselected += len(items)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Count the tests with the marker."""
        self.selected = len(session.items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test whose body ran, whatever came of it, and note which programs it needs."""
        needs = {program for program in PROGRAMS if program in report.keywords}
        self.asked |= needs
        if self.is_grouping and "xdist_group" in report.keywords and "@" not in report.nodeid:
            self.ungrouped += 1
        if report.failed:
            self.failed.add(_own_name(report))
        if report.when == "call" and not report.skipped:
            self.ran += 1
            self.answered |= needs

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that could not be read, which no second run mends."""
        if report.failed:
            self.is_readable = False

    @property
    def idle(self) -> list[str]:
        """The programs of which not one test could run."""
        return sorted(self.asked - self.answered)


def verdict(marker: str, status: int, tally: Tally, *, must_run: bool) -> tuple[int, str]:
    """Return the exit status and what to print beside pytest's own closing line."""
    if status == pytest.ExitCode.NO_TESTS_COLLECTED and tally.deselected and not tally.selected:
        return 0, f"no {marker} tests yet ({tally.deselected} tests without that marker)"
    if status == pytest.ExitCode.OK and must_run and not tally.ran:
        return 1, f"none of the {tally.selected} {marker} tests could run on this machine"
    if status == pytest.ExitCode.OK and tally.ungrouped:
        return 1, f"{tally.ungrouped} reports of tests of a group were not of its one process"
    if status == pytest.ExitCode.OK and must_run and tally.idle:
        return 1, f"none of the {' and the '.join(tally.idle)} tests could run on this machine"
    return status, ""


def alone(tally: Tally) -> tuple[bool, str]:
    """Run failed tests again, one after the other; return whether they pass, and what to print."""
    names = sorted(tally.failed)
    if not tally.is_readable or not 0 < len(names) <= ALONE_MOST:
        return False, ""
    print(f"=== again, alone: {', '.join(names)}", flush=True)
    again = subprocess.run([sys.executable, "-m", "pytest", *names], check=False).returncode
    if again:
        return False, "what failed beside other tests failed alone as well"
    return True, f"failed beside other tests and passed alone, look into it: {', '.join(names)}"


def _own_name(report: pytest.TestReport) -> str:
    """Return the name of a test without the group that xdist appends to it."""
    if "xdist_group" in report.keywords:
        return report.nodeid.rpartition("@")[0] or report.nodeid
    return report.nodeid


def is_said_to_hold(path: Path, marker: str) -> bool:
    """Say whether a file of tests, or the conftest beside it, has marks of that name."""
    beside = path.with_name("conftest.py")
    texts = (each.read_text() for each in (path, beside) if each.exists())
    return any(f"mark.{marker}" in text for text in texts)


def _files(marker: str) -> Iterator[str]:
    """Yield the files of tests below the working folder that hold such tests."""
    for path in sorted(Path("tests").rglob("test_*.py")):
        if is_said_to_hold(path, marker):
            yield str(path)


def main(arguments: Sequence[str]) -> int:
    """Run pytest with one marker selected."""
    marker, *options = arguments
    must_run = "--must-run" in options
    passed_on = [option for option in options if option not in ("--must-run", "--alone")]
    tally = Tally()
    chosen = marker if os.environ.get("SHUNTER_THOROUGH") else f"{marker} and not thorough"
    if not any(Path(option.partition("::")[0]).exists() for option in passed_on):
        passed_on += _files(marker)
    status = int(pytest.main(["-m", chosen, *passed_on], plugins=[tally]))
    if "--alone" in options and status == pytest.ExitCode.TESTS_FAILED:
        passed, line = alone(tally)
        print(line)
        status = int(pytest.ExitCode.OK) if passed else status
    status, line = verdict(marker, status, tally, must_run=must_run)
    if line:
        print(line)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
