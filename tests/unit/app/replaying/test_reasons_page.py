"""The reference of reasons is what their table says."""

from docs.reasons_page import PAGE, page


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m docs.reasons_page"
