"""Writes the reasons into their reference from their table: `python -m docs.reasons_page`.

What stands before and after the marks is kept. A test compares the page with what this would
write, so it cannot fall behind.
"""

from pathlib import Path
from textwrap import fill

from shunter.ask import REASONS

PAGE = Path(__file__).with_name("reference") / "reasons.md"
BEGIN = "<!-- from here on written by docs/reasons_page.py, from shunter/ask/reason_words.py -->"
END = "<!-- up to here -->"


def page() -> str:
    """Return the whole page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    parts = [BEGIN]
    for name, words in REASONS.items():
        meaning = _filled(words.meaning)
        parts.append(f"## `{name}`\n`shunter queue --explain`: *{words.clause}*\n\n{meaning}\n")
        to_do = words.to_do.replace("{job}", "JOB")
        if to_do and "{" not in to_do:  # else what to do follows from servers and jobs
            parts.append(f"{_filled(f'What to do: {to_do}.')}\n")
    return before + "\n\n".join(["\n".join(parts), END]) + after


def _filled(text: str) -> str:
    return fill(text, 120, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
