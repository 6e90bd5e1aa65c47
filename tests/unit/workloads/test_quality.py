"""Findings and what is said of them."""

import pytest

from shunter.workloads import Fault, Finding, Inspection, number_fault


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", Fault.missing),
        (" ", Fault.missing),
        ("x", Fault.unparsable),
        ("nan", Fault.nan),
        ("-inf", Fault.negative),
        ("inf", Fault.impossible),
    ],
)
def test_number_is_refused_for_a_reason(text: str, fault: Fault) -> None:
    assert number_fault(text) is fault


def test_examples_are_few_and_the_count_whole() -> None:
    inspection = Inspection()
    inspection.rows_read = 8
    for line in range(2, 10):
        inspection.drop(Fault.negative, "gpus", f"-{line}", line)
    (finding,) = inspection.report(kept=0, selected=0, unsorted=0).dropped
    assert finding == Finding(Fault.negative, "gpus", 8, (2, 3, 4, 5, 6), "-2")
    assert finding.sentence() == "8 rows: gpus is negative ('-2'), lines 2, 3, 4, 5, 6, …"


@pytest.mark.parametrize("fault", list(Fault))
def test_every_fault_has_words(fault: Fault) -> None:
    assert Finding(fault, "", 1, (7,)).sentence("entry").endswith(", entry 7")
