"""Run the tests of one marker: python -m tests.marked MARKER [--must-run] [PYTEST OPTIONS].

pytest reports "no tests collected" for a marker nobody uses yet and for a broken selection alike.
This counts: nothing selected out of a healthy collection is said and passes; anything else is
pytest's own verdict. With --must-run a selection of which not one test could run is a failure,
and so are tests of which not one that needs sshd or Slurm could run, so that a machine without the
needed programs cannot look green. Tests of one `xdist_group` must run in one process (they share a
Slurm cluster): that they were spread is a failure, for nothing else tells. Tests marked `thorough`
as well, which repeat at length what others hold, run with SHUNTER_THOROUGH set in the environment
(make live or fidelity, THOROUGH=1).
"""

import os
import sys
from collections.abc import Sequence

import pytest

__all__ = ["Tally", "main", "verdict"]

PROGRAMS = ("slurm", "ssh")
"""Markers of tests that need programs which are not installed with Shunter."""


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
        if report.when == "call" and not report.skipped:
            self.ran += 1
            self.answered |= needs

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


def main(arguments: Sequence[str]) -> int:
    """Run pytest with one marker selected."""
    marker, *options = arguments
    must_run = "--must-run" in options
    passed_on = [option for option in options if option != "--must-run"]
    tally = Tally()
    chosen = marker if os.environ.get("SHUNTER_THOROUGH") else f"{marker} and not thorough"
    status = int(pytest.main(["-m", chosen, *passed_on], plugins=[tally]))
    status, line = verdict(marker, status, tally, must_run=must_run)
    if line:
        print(line)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
