"""What every document of the API is: strict, frozen, closed to unknown fields."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

SCHEMA_VERSION = 1
NAME_MOST = 200
TEXT_MOST = 131_000
"""What Linux takes for one argument or variable (128 KiB with its end), rounded down."""


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


class Model(BaseModel):
    """A part of a document."""

    # What checks a document is built when the first one is checked.
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True
    )


class Document(Model):
    """A whole answer."""

    schema_version: int = Field(default=SCHEMA_VERSION, description="version of this form")


def _printable(text: str) -> str:
    """Refuse what would move a terminal's cursor, or turn the text around."""
    if _CONTROL.search(text):
        raise ValueError("expected no control characters")
    return text


def _without_zero(text: str) -> str:
    if "\x00" in text:
        raise ValueError("expected no zero byte: no process can be given one")
    return text


Name = Annotated[str, Field(max_length=NAME_MOST), AfterValidator(_printable)]
"""A short text that lists show; markup in it is text."""

Text = Annotated[str, Field(max_length=TEXT_MOST), AfterValidator(_without_zero)]
"""A text that is handed to a process."""

Instant = Annotated[str, Field(description="date and time with offset, ISO 8601")]

At = Annotated[
    str | None,
    Field(max_length=64, description="an event (20871 or e20871), T+03:12:40, or a date"),
]
"""A point of the log, as people write it."""
