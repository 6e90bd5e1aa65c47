"""The page of a report: its data, one script and one style, in a file that needs no other.

Names of jobs and users come from others. All of them are in the data, which is JSON that holds no
`<`, `>` or `&`, so that nothing in it can end the element it is in; the script puts them into the
page as text only. What else might get in would not run: the page allows no script but the one whose
digest it names, and loads nothing.
"""

from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any, Final

import orjson

_SCRIPTS: Final = ("words.js", "charts.js", "gantt.js", "report.js")
_ESCAPED: Final = {
    **{ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&'"},
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


def page_of(document: Mapping[str, Any]) -> str:
    """Return the HTML page of a report."""
    script = "\n".join(_source(name) for name in _SCRIPTS)
    style = _source("report.css")
    policies = ", ".join(run["label"] for run in document["runs"])
    allowed = f"script-src {_digest(script)}; style-src {_digest(style)}"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        f"{escape(allowed, quote=False)}; base-uri 'none'; form-action 'none'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Shunter report: {escape(policies)}</title>\n"
        f"<style>{style}</style>\n</head>\n<body>\n"
        "<noscript>This report draws its pictures with the script in this file, which is not "
        'allowed to run here.</noscript>\n<main id="report"></main>\n'
        f'<script type="application/json" id="data">{data_of(document)}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def data_of(document: Mapping[str, Any]) -> str:
    """Return a document as JSON that may stand in an element of HTML."""
    return orjson.dumps(document).decode().translate(_ESCAPED)


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _source(name: str) -> str:
    return files("shunter.ask.reports").joinpath("page", name).read_text(encoding="utf-8")
