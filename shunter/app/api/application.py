"""The ASGI application: the door, then the table of routes, then what errors become."""

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp

from shunter.app.api.access.door import Door
from shunter.app.api.problems import http_problem, internal_problem, our_problem
from shunter.app.api.routes import ROUTES
from shunter.app.api.routing import endpoint
from shunter.app.api.served import Served
from shunter.errors import ShunterError

__all__ = ["application"]


def application(served: Served) -> ASGIApp:
    """Return what uvicorn runs."""
    routes = [
        StarletteRoute(route.path, endpoint(route, served), methods=[route.method], name=route.name)
        for route in ROUTES
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={
            ShunterError: our_problem,
            HTTPException: http_problem,
            Exception: internal_problem,
        },
    )
    server = served.site.config.server
    return Door(app, server.hosts, server.body_bytes_most)
