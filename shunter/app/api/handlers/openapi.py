"""The table of routes as an OpenAPI document, made once."""

from functools import cache

import orjson
from starlette.responses import Response

from shunter.app.api.routing import Call, NoBody, NoQuery

__all__ = ["openapi"]


async def openapi(call: Call[NoQuery, NoBody]) -> Response:
    """Answer with the OpenAPI document of this API."""
    return Response(_document(), media_type="application/json")


@cache
def _document() -> bytes:
    # The table names this handler, so it can be looked at only once it is whole.
    from shunter.app.api.openapi import openapi_document
    from shunter.app.api.routes import ROUTES

    return orjson.dumps(openapi_document(ROUTES))
