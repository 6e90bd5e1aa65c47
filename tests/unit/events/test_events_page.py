"""The reference of events is what the classes say."""

from docs.events_page import PAGE, page


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m docs.events_page"
