"""What a refused or failed request is answered with."""

from typing import Literal

from pydantic import Field

from shunter.app.api.models.model import Model

__all__ = ["Code", "ProblemDocument", "ProblemPart"]

Code = Literal[
    "usage", "too_large", "unauthenticated", "refused", "not_found", "unavailable", "failed"
]


class ProblemPart(Model):
    """What is wrong, where, and what to do."""

    code: Code
    exit_code: int = Field(description="what the command line exits with")
    message: str
    faults: tuple[str, ...] = Field(default=(), description="one line for each wrong field")


class ProblemDocument(Model):
    """Every answer with a status of 400 or more."""

    error: ProblemPart
