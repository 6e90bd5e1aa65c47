"""Instants since time zero in a document of sentences, as the dates they are on a live cluster.

The sentences are made for any log, and a simulation has no dates: there an instant is T+03:12:40.
"""

import re
from typing import Any

from shunter.api.documents.queue import Dated
from shunter.ask.words import instant_us

_CLOCK = re.compile(r"T\+\d+:\d\d:\d\d(?:\.\d{1,6})?")


def dated_why(document: dict[str, Any], dated: Dated) -> dict[str, Any]:
    """Return the answer of `why` with dates for instants, and for numbers alone."""
    for part in document["timeline"]:
        for each in (part, *part.get("reasons", ())):
            each["from"] = dated(each["from_us"])
    for blocker in (document["evidence"] or {}).get("blockers", ()):
        if blocker.get("since_us") is not None:
            blocker["since"] = dated(blocker["since_us"])
    answer: dict[str, Any] = with_dates(document, dated)
    return answer


def with_dates(value: object, dated: Dated) -> Any:
    """Return a JSON-able value in which instants are dates, in UTC."""
    if isinstance(value, dict):
        return {name: with_dates(inner, dated) for name, inner in value.items()}
    if isinstance(value, list):
        return [with_dates(inner, dated) for inner in value]
    if isinstance(value, str):
        return _CLOCK.sub(lambda found: dated(instant_us(found.group(), None)), value)
    return value
