"""What errors become over HTTP: a status, a code, and a message of the error's own."""

from collections.abc import Mapping
from http import HTTPStatus
from math import ceil
from typing import Literal, cast, get_args

import orjson
from pydantic import Field, ValidationError
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from shunter.api.request_models import Model
from shunter.errors import RateLimitedError, ShunterError, UsageError

Code = Literal[
    "usage",
    "too_large",
    "unauthenticated",
    "refused",
    "not_found",
    "not_allowed",
    "conflict",
    "rate_limited",
    "unavailable",
    "failed",
]

PROBLEM = "application/problem+json"
FAULTS_MOST = 32

STATUSES: dict[Code, tuple[int, int]] = {
    "usage": (400, 2),
    "too_large": (413, 2),
    "unauthenticated": (401, 5),
    "refused": (403, 5),
    "not_found": (404, 3),
    "not_allowed": (405, 2),
    "conflict": (409, 5),
    "rate_limited": (429, 5),
    "unavailable": (503, 4),
    "failed": (500, 1),
}
"""By code, the status over HTTP and what the command line exits with."""

assert set(STATUSES) == set(get_args(Code))

_BY_STATUS: dict[int, Code] = {status: code for code, (status, _) in STATUSES.items()}


class ProblemDocument(Model):
    """Every answer with a status of 400 or more."""

    type: Literal["about:blank"] = Field(description="a problem is told by its `code`")
    title: str = Field(description="the phrase of the status")
    status: int
    detail: str = Field(description="what is wrong, where, and what to do")
    code: Code
    exit_code: int = Field(description="what the command line exits with")
    faults: tuple[str, ...] = Field(default=(), description="one line for each wrong field")


def problem(
    code: Code,
    detail: str,
    faults: tuple[str, ...] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return the answer to a request that is not fulfilled, as RFC 9457 has it."""
    sent = dict(headers or {})
    if code == "unauthenticated":
        sent["WWW-Authenticate"] = "Bearer"
    document = _document(code, detail, faults)
    return Response(orjson.dumps(document), STATUSES[code][0], sent, media_type=PROBLEM)


def _document(code: Code, detail: str, faults: tuple[str, ...]) -> dict[str, object]:
    status, exit_code = STATUSES[code]
    document: dict[str, object] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
        "exit_code": exit_code,
    }
    if faults:
        document["faults"] = list(faults)
    return document


def problem_of(error: ShunterError) -> dict[str, object]:
    """Return the document of one of our errors, as a part of an answer."""
    return _document(*_told(error))


async def our_problem(request: Request, error: Exception) -> Response:
    """Answer with one of our errors."""
    headers = {}
    if isinstance(error, RateLimitedError):
        headers["Retry-After"] = str(ceil(error.retry_after_s))
    return problem(*_told(error), headers)


def _told(error: Exception) -> tuple[Code, str, tuple[str, ...]]:
    """Return the code of an error, its message, and the lines of its faults."""
    assert isinstance(error, ShunterError), "it is registered for those only"
    code = cast("Code", error.code)
    lines = tuple(str(error).splitlines())
    return code, lines[0] if lines else code, lines[1:]


async def http_problem(request: Request, error: Exception) -> Response:
    """Answer with what the routing says: no such path, no such method."""
    assert isinstance(error, HTTPException), "it is registered for those only"
    code = _BY_STATUS.get(error.status_code, "usage")
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        detail = f"{request.method} is not what {request.url.path} takes: expected {allowed}"
        return problem(code, detail, headers=error.headers)
    if error.status_code == 404:
        return problem(code, f"there is nothing at {request.url.path}; see /api/v1/openapi.json")
    return problem(code, str(error.detail))


async def client_left(request: Request, error: Exception) -> Response:
    """Answer to nobody: the client left before its request was whole."""
    return problem("usage", "the request ended before its body did")


async def internal_problem(request: Request, error: Exception) -> Response:
    """Answer for a fault of ours; what it was stands in the daemon's own output."""
    return problem("failed", "the daemon failed on this request; its own output says how")


def usage_error(error: ValidationError, where: str) -> UsageError:
    """Return what is wrong with a body or a query, a line for each field."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    faults = [
        f"{'.'.join(str(part) for part in one['loc']) or where}: {_said(one['msg'])}"
        for one in found
        if one["type"] != "too_short" or not any(_lies_in(other, one) for other in found)
    ]
    hidden = len(faults) - FAULTS_MOST
    shown = [*faults[:FAULTS_MOST], *([f"and {hidden} more"] if hidden > 0 else [])]
    if len(shown) == 1:
        return UsageError(f"the {where} is wrong: {shown[0]}")
    return UsageError("\n".join([f"the {where} is wrong in {len(faults)} places", *shown]))


def _said(message: str) -> str:
    """Return a message of pydantic without the words that mean nothing to people."""
    return message.removeprefix("Value error, ").replace("String should have ", "expected ")


def _lies_in(inner: ErrorDetails, outer: ErrorDetails) -> bool:
    """Say whether a fault is one of a part of what another is about.

    A list whose parts are wrong counts as too short: pydantic leaves them out.
    """
    within = outer["loc"]
    return len(inner["loc"]) > len(within) and inner["loc"][: len(within)] == within
