import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.mark.parametrize("page", ["config.md", "cli.md"])
def test_a_reference_page_is_what_the_code_says(page: str) -> None:
    pages = runpy.run_path(str(DOCS / "generate.py"))["PAGES"]

    written = (DOCS / "reference" / page).read_text(encoding="utf-8")

    assert written == pages[page]().rstrip("\n") + "\n", "run python docs/generate.py"
