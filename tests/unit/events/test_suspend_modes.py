"""What policies and people are told of each way to suspend a job."""

from pathlib import Path

import pytest

from shunter.events import SuspendMode

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "make-a-job-suspendable.md"


def row_of(mode: SuspendMode) -> list[str]:
    """Return what the page says of a mode: how, what is freed, what is lost."""
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| `{mode}` |")]
    (row,) = rows
    return [cell.strip() for cell in row.strip("|").split("|")[1:]]


@pytest.mark.parametrize("mode", SuspendMode)
def test_page_says_of_a_mode_what_policies_are_told(mode: SuspendMode) -> None:
    how, freed, lost = row_of(mode)
    assert mode.is_preemptible == (not how.startswith("it is not suspended"))
    assert mode.loses_work == lost.startswith("all since")
    assert mode.frees_gpus == (freed == "yes")
