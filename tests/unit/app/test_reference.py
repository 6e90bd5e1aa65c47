"""Pages of the reference are what the code says."""

import runpy
from pathlib import Path

import pytest

from docs.reasons_page import PAGE, page

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.mark.parametrize("page", ["config.md", "cli.md"])
def test_a_reference_page_is_what_the_code_says(page: str) -> None:
    pages = runpy.run_path(str(DOCS / "generate.py"))["PAGES"]

    written = (DOCS / "reference" / page).read_text(encoding="utf-8")

    assert written == pages[page]().rstrip("\n") + "\n", "run python docs/generate.py"


def test_bounds_are_told_on_both_sides() -> None:
    bounds = runpy.run_path(str(DOCS / "generate.py"))["_bounds"]

    assert bounds({"exclusiveMinimum": 0, "maximum": 10_000.0}) == ", more than 0, 10,000 or less"
    assert bounds({"minimum": 1, "maximum": 1_048_576}) == ", 1 to 1,048,576"
    assert bounds({"minimum": 0, "exclusiveMaximum": 2**63}) == f", 0 or more, less than {2**63:,}"
    assert bounds({"minimum": 0, "exclusiveMaximum": 2**31}) == ", 0 or more"


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m docs.reasons_page"
