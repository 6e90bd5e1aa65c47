"""What a refused or failed request is answered with: problem details (RFC 9457)."""

from typing import Literal

from pydantic import Field

from shunter.app.api.models.model import Model

__all__ = ["Code", "ProblemDocument"]

Code = Literal[
    "usage",
    "too_large",
    "unauthenticated",
    "refused",
    "not_found",
    "not_allowed",
    "conflict",
    "unavailable",
    "failed",
]


class ProblemDocument(Model):
    """Every answer with a status of 400 or more."""

    type: Literal["about:blank"] = Field(description="a problem is told by its `code`")
    title: str = Field(description="the phrase of the status")
    status: int
    detail: str = Field(description="what is wrong, where, and what to do")
    code: Code
    exit_code: int = Field(description="what the command line exits with")
    faults: tuple[str, ...] = Field(default=(), description="one line for each wrong field")
