"""Writes the reference of the HTTP API from its table of routes: `python -m docs.http_page`.

A test compares the page with what this would write, so it cannot fall behind.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shunter.api import ROUTES, STATUSES, Route, openapi_document

PAGE = Path(__file__).with_name("reference") / "http-api.md"

HEAD = """\
# HTTP API

`shunter serve` answers on a unix socket, and over TCP where `[server]` says so. The command line
and the Python client (`shunter.client`) use nothing else. The same table for programs is at
`/api/v1/openapi.json`.

**Who calls** is known from the connection, never from a request: on the socket the kernel names the
user, over TCP a bearer token does (`Authorization: Bearer TOKEN`, a line of `server.token_file`).
Everybody who is let in sees the queue; jobs are changed, and their output is read, by their owner
and by admins; servers are drained by admins. A daemon that is not root's serves its own user only.

**Bodies** are JSON, with `Content-Type: application/json`. Unknown fields and parameters are
errors. Requests of pages of other sites (`Origin`) and for other hosts (`Host`) are refused; known
are `localhost`, `shunter`, and the names in `server.hosts`.

**Answers** are JSON with a `schema_version`. What an answer tells is durable: it is in the log.
Dates are ISO 8601 with offset. A point of the log (`at`) is an event (`20871` or `e20871`),
`T+03:12:40` since the log began, or a date; one without offset is in the time zone of the daemon.

**Errors** are one document, `application/problem+json` (RFC 9457): `{"type", "title", "status",
"detail", "code", "exit_code", "faults"}`. A program tells them by `code`; `detail` says what is
wrong and what to do.

    curl --unix-socket /run/shunter/shunter.sock http://localhost/api/v1/jobs

This page is made from the table of routes by `python -m docs.http_page`.
"""


def http_page() -> str:
    """Return the page."""
    document = openapi_document(ROUTES)
    schemas = document["components"]["schemas"]
    parts = [HEAD, *_errors(), *_table()]
    for route in ROUTES:
        parts += _route(route, document["paths"][route.path][route.method.lower()], schemas)
    parts += ["## Documents\n"]
    for name, schema in sorted(schemas.items()):
        parts += _model(name, schema)
    return "\n".join(parts).rstrip("\n") + "\n"


def _errors() -> Iterator[str]:
    yield "| code | status | exit code of the command line |\n|---|---|---|"
    for code, (status, exit_code) in STATUSES.items():
        yield f"| `{code}` | {status} | {exit_code} |"
    yield ""


def _table() -> Iterator[str]:
    yield "## Routes\n"
    yield "| route | what it is for |\n|---|---|"
    for route in ROUTES:
        who = " (anybody)" if route.is_open else ""
        yield f"| `{route.name}` | {route.summary}{who} |"
    yield ""


def _route(route: Route, operation: dict[str, Any], schemas: dict[str, Any]) -> Iterator[str]:
    yield f"### `{route.name}`\n"
    yield f"{operation['description']}\n"
    if operation["parameters"]:
        yield "| parameter | type | meaning |\n|---|---|---|"
        for found in operation["parameters"]:
            where = "" if found["in"] == "query" else f" ({found['in']})"
            meaning = found.get("description", "").replace("|", "\\|")
            yield f"| `{found['name']}`{where} | {_kind(found['schema'])} | {meaning} |"
        yield ""
    if "requestBody" in operation:
        [content] = operation["requestBody"]["content"].values()
        yield f"Body: {_kind(content['schema'])}\n"
    if route.answer is not None:
        yield f"Answer: `{route.answer.__name__}`\n"
    else:
        yield f"Answer: `{route.media.partition(';')[0]}`\n"


def _model(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f"### {name}\n"
    if schema.get("description"):
        yield f"{schema['description']}\n"
    if "enum" in schema:
        yield ", ".join(f"`{value}`" for value in schema["enum"]) + "\n"
        return
    required = schema.get("required", ())
    yield "| field | type | default | meaning |\n|---|---|---|---|"
    for field, found in schema.get("properties", {}).items():
        default = "required" if field in required else f"`{json.dumps(found.get('default'))}`"
        meaning = found.get("description", "").replace("|", "\\|")
        yield f"| `{field}` | {_kind(found)} | {default} | {meaning} |"
    yield ""


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return f"`{schema['$ref'].rpartition('/')[2]}`"
    if "anyOf" in schema:
        return " or ".join(_kind(option) for option in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        items = schema.get("items") or (schema.get("prefixItems") or [{}])[0]
        return f"list of {_kind(items)}" if items else "list"
    names = {
        "integer": "whole number",
        "number": "number",
        "string": "text",
        "boolean": "true or false",
        "object": "object",
        "null": "null",
    }
    return names.get(str(schema.get("type")), "value") + _bounds(schema)


def _bounds(schema: dict[str, Any]) -> str:
    if "minimum" in schema and "maximum" in schema:
        return f", {schema['minimum']:,} to {schema['maximum']:,}"
    if "minimum" in schema:
        return f", {schema['minimum']:,} or more"
    if "maxLength" in schema:
        return f", {schema['maxLength']:,} characters at most"
    return ""


if __name__ == "__main__":
    PAGE.write_text(http_page(), encoding="utf-8")
