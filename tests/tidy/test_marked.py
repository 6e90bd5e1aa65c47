"""The runner of one marker tells "no such tests yet" from a broken selection."""

import pytest

from tests.marked import Tally, verdict


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
