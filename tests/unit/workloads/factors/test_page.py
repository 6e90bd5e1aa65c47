"""The reference of the built-in factors is what the table says."""

from docs.factors_page import PAGE, page


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m docs.factors_page"
