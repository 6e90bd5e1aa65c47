"""Writes what launchers do with signals into its reference: `python -m docs.launchers_page`.

The data are measured on the real launchers, by `python -m tests.live.launchers.measured`; a live
test measures them again.
"""

import json
from pathlib import Path
from typing import Any

REFERENCE = Path(__file__).with_name("reference")
PAGE, DATA = REFERENCE / "launchers.md", REFERENCE / "launchers.json"
MARK = "<!-- from here on written by docs/launchers_page.py -->"


def kept() -> dict[str, Any]:
    """Return what was measured of each launcher."""
    found: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8")) if DATA.exists() else {}
    return found


def page() -> str:
    """Return the page."""
    before, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    lines = [before + MARK, ""]
    for name, found in kept().items():
        lines += [f"### {name}", "", f"{found['version']}, measured on {found['date']}.", ""]
        lines += ["| what happens | the launcher; its ranks |", "|---|---|"]
        lines += [f"| {_in_words(what)} | {row} |" for what, row in found["rows"].items()]
        lines.append("")
    return "\n".join(lines)


def _in_words(what: str) -> str:
    if what.startswith("SIG"):
        return f"{what.replace(', ', ', then ')} to the launcher"
    return f"of its ranks, {what}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
