"""The ASGI application: the host guard, then the table of routes, then what errors become."""

from collections.abc import Awaitable, Callable, Mapping

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp

from shunter.app.api.access.host_guard import HostGuard
from shunter.app.api.problems import (
    client_left,
    http_problem,
    internal_problem,
    our_problem,
)
from shunter.app.api.routes import ROUTES
from shunter.app.api.routing import endpoint
from shunter.app.api.services import Services
from shunter.errors import ShunterError

__all__ = ["application"]


Endpoint = Callable[[Request], Awaitable[Response]]


def application(services: Services) -> ASGIApp:
    """Return what uvicorn runs."""
    by_path: dict[str, dict[str, Endpoint]] = {}
    for route in ROUTES:
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
