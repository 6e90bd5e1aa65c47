import asyncio
from collections import Counter

from pydantic import BaseModel

from docs.http_page import PAGE, http_page
from shunter.api import ROUTES, JobRow, NoBody, openapi_document


def test_no_route_stands_there_twice() -> None:
    assert max(Counter(route.name for route in ROUTES).values()) == 1
    ids = [
        operation["operationId"]
        for operations in openapi_document(ROUTES)["paths"].values()
        for operation in operations.values()
    ]
    assert len(set(ids)) == len(ROUTES)


def test_only_routes_that_tell_nothing_are_open() -> None:
    open_ones = {route.path for route in ROUTES if route.is_open}
    assert open_ones == {"/healthz", "/readyz", "/api/v1/openapi.json"}


def test_what_changes_something_is_posted_and_never_open() -> None:
    assert all(not route.is_open for route in ROUTES if route.method == "POST")
    assert all(route.body is NoBody for route in ROUTES if route.method == "GET")


def test_every_handler_is_awaited_and_says_what_it_answers() -> None:
    for route in ROUTES:
        assert asyncio.iscoroutinefunction(route.handler)
        assert (route.handler.__doc__ or "").strip()


def test_models_are_strict_and_closed() -> None:
    models: list[type[BaseModel]] = [route.answer for route in ROUTES if route.answer is not None]
    models += [route.body for route in ROUTES] + [route.query for route in ROUTES] + [JobRow]
    for model in models:
        assert model.model_config.get("extra") == "forbid", model
        assert model.model_config.get("strict"), model


def test_reference_page_is_what_the_table_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == http_page(), "run python -m docs.http_page"
