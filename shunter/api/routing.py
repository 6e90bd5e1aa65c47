"""A route as data, what a handler gets, and the application that a table of routes becomes.

Query and body are checked against the route's models before a handler sees them; unknown names are
errors, so that a misspelt filter never filters nothing.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import orjson
from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp

from shunter import clock
from shunter.api.access import HostGuard
from shunter.api.problems import (
    client_left,
    http_problem,
    internal_problem,
    our_problem,
    usage_error,
)
from shunter.api.request_models import Model, job_id_pattern
from shunter.api.services import Services
from shunter.daemon import Caller
from shunter.errors import ShunterError, UsageError

Query = TypeVar("Query", bound=Model)
Body = TypeVar("Body", bound=Model)

JSON, JSON_LINES, SSE, TEXT, BYTES = (
    "application/json",
    "application/x-ndjson",
    "text/event-stream",
    "text/plain",
    "application/octet-stream",
)


class NoQuery(Model):
    """No parameters."""


class NoBody(Model):
    """Nothing, or an empty object."""


V1 = "/api/v1"
JOB = V1 + "/jobs/{job_id}"
NODE = V1 + "/nodes/{node}"
GPU = NODE + "/gpus/{gpu}"


@dataclass(frozen=True)
class Call(Generic[Query, Body]):
    """One request, checked; `caller` is who the connection or the token says."""

    services: Services
    request: Request
    caller: Caller
    query: Query
    body: Body

    @property
    def path(self) -> Mapping[str, str]:
        """What stood in the path's places."""
        return self.request.path_params

    def header(self, name: str) -> str:
        """Return a header, empty if it is missing."""
        found: str = self.request.headers.get(name, "")
        return found


Handler = Callable[[Call[Any, Any]], Awaitable[Response]]
Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Route:
    """One method on one path.

    `is_open` routes ask nobody who he is. `answer` is the model of the JSON document.
    """

    method: Literal["GET", "POST"]
    path: str
    handler: Handler
    summary: str
    answer: type[BaseModel] | None
    query: type[Model] = NoQuery
    body: type[Model] = NoBody
    media: str = JSON
    is_open: bool = False
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """Its name in the OpenAPI document and in the metrics."""
        return f"{self.method} {self.path}"


def route(
    method: Literal["GET", "POST"],
    path: str,
    summary: str,
    answer: type[BaseModel] | None = None,
    **further: Any,
) -> Callable[[Handler], Route]:
    """Return what makes a route of its handler.

    `further` are the other fields of `Route`. The name of the handler is that of its operation in
    OpenAPI, which programs know: it stays.
    """
    return lambda handler: Route(method, path, handler, summary, answer, **further)


def json_answer(document: object, status: int = 200) -> Response:
    """Return a document as the answer."""
    return Response(orjson.dumps(document), status, media_type=JSON)


def application(routes: Iterable[Route], services: Services) -> ASGIApp:
    """Return what uvicorn runs: the host guard, the routes, and what errors become."""
    by_path: dict[str, dict[str, Endpoint]] = {}
    for route in routes:
        by_path.setdefault(route.path, {})[route.method] = endpoint(route, services)
    app = Starlette(
        routes=[
            StarletteRoute(path, _of_method(endpoints), methods=list(endpoints))
            for path, endpoints in by_path.items()
        ],
        exception_handlers={
            ShunterError: our_problem,
            HTTPException: http_problem,
            ClientDisconnect: client_left,
            Exception: internal_problem,
        },
    )
    server = services.site.config.server
    return HostGuard(app, server.hosts, server.body_bytes_most)


def _of_method(endpoints: Mapping[str, Endpoint]) -> Endpoint:
    """Return what answers on a path: a wrong method is told all right ones."""

    async def answer(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await endpoints[method](request)

    return answer


def endpoint(route: Route, services: Services) -> Endpoint:
    """Return what Starlette calls for a route."""

    async def answer(request: Request) -> Response:
        began, status = clock.monotonic_s(), "error"
        try:
            response = await _answer(route, services, request)
            status = f"{response.status_code // 100}xx"
        finally:
            services.metrics.answered(route.name, status, clock.monotonic_s() - began)
        return response

    return answer


async def _answer(route: Route, services: Services, request: Request) -> Response:
    caller = (
        Caller("") if route.is_open else services.callers.caller(request.scope, request.headers)
    )
    query, body = _query(route, request), await _body(route, request)
    _check_path(request)
    return await route.handler(Call(services, request, caller, query, body))


def _check_path(request: Request) -> None:
    job_id = request.path_params.get("job_id")
    if job_id is not None and not re.fullmatch(job_id_pattern, job_id):
        raise UsageError("this is no job's id: expected letters, digits, '.', '_' and '-'")


def _query(route: Route, request: Request) -> Model:
    pairs = request.query_params.multi_items()
    given = dict(pairs)
    if len(given) != len(pairs):
        raise UsageError("the query is wrong: a name stands there twice")
    try:
        return route.query.model_validate_strings(given)
    except ValidationError as error:
        raise usage_error(error, "query") from error


async def _body(route: Route, request: Request) -> Model:
    if request.method == "GET":
        return NoBody()
    raw = await request.body()
    if not raw and route.body is NoBody:
        return NoBody()
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != JSON:
        raise UsageError(f"the body is {media or 'of no type'!r}: expected {JSON}")
    try:
        return route.body.model_validate_json(raw)
    except ValidationError as error:
        raise usage_error(error, "body") from error
