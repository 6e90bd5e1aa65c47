"""All routes, each of which stands at its handler; and OpenAPI made of them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from shunter import __version__
from shunter.api import cluster, commands, jobs, output
from shunter.api.problems import PROBLEM, STATUSES, ProblemDocument
from shunter.api.routing import JSON, NoBody, NoQuery, Route

ROUTES = tuple(
    found
    for module in (cluster, jobs, output, commands)
    for found in vars(module).values()
    if isinstance(found, Route)
)
"""What is served, documented, counted and tested."""

_REFERENCE = "#/components/schemas/{model}"
_PLACE = re.compile(r"\{(\w+)\}")


def openapi_document(routes: Iterable[Route]) -> dict[str, Any]:
    """Return the document that describes routes, in OpenAPI 3.1."""
    table = [*routes]
    models = [*dict.fromkeys(_models(table))]
    keys, schema = models_json_schema(
        [(model, "validation") for model in models], ref_template=_REFERENCE
    )
    references = {model: keys[model, "validation"] for model in models}
    paths: dict[str, dict[str, object]] = {}
    for route in table:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, references)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Shunter",
            "version": __version__,
            "description": "A live cluster: on a unix socket the kernel says who calls, "
            "over TCP a bearer token does.",
        },
        "paths": paths,
        "components": {
            "schemas": schema["$defs"],
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _models(routes: Iterable[Route]) -> Iterator[type[BaseModel]]:
    yield ProblemDocument
    for route in routes:
        if route.answer is not None:
            yield route.answer
        if route.body is not NoBody:
            yield route.body


def _operation(route: Route, references: Mapping[type[BaseModel], object]) -> dict[str, object]:
    status = "201" if route.method == "POST" and route.path.endswith("/jobs") else "200"
    schema: object = {"type": "string"}
    if route.answer is not None:
        schema = references[route.answer]
    elif route.media == JSON:
        schema = {"type": "object"}
    operation: dict[str, object] = {
        "operationId": getattr(route.handler, "__name__", "route"),
        "summary": route.summary,
        "description": (route.handler.__doc__ or "").strip(),
        "security": [] if route.is_open else [{"token": []}, {}],
        "parameters": [
            *_path_parameters(route),
            *_query_parameters(route),
            *_header_parameters(route),
        ],
        "responses": {
            status: {"description": route.summary, "content": {route.media: {"schema": schema}}},
            **_problems(references[ProblemDocument]),
        },
    }
    if route.body is not NoBody:
        content = {JSON: {"schema": references[route.body]}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _path_parameters(route: Route) -> Iterator[dict[str, object]]:
    for name in _PLACE.findall(route.path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _query_parameters(route: Route) -> Iterator[dict[str, object]]:
    if route.query is NoQuery:
        return
    schema = route.query.model_json_schema(ref_template=_REFERENCE)
    for name, field in schema["properties"].items():
        said = {key: value for key, value in field.items() if key not in ("title", "description")}
        parameter = {"name": name, "in": "query", "required": False, "schema": said}
        if "description" in field:
            parameter["description"] = field["description"]
        yield parameter


def _header_parameters(route: Route) -> Iterator[dict[str, object]]:
    for name, what in route.headers:
        yield {
            "name": name,
            "in": "header",
            "required": False,
            "description": what,
            "schema": {"type": "string"},
        }


def _problems(reference: object) -> dict[str, object]:
    return {
        str(status): {"description": code, "content": {PROBLEM: {"schema": reference}}}
        for code, (status, _) in STATUSES.items()
    }
