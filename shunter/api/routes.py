"""The table of routes: what is served, documented, counted and tested; and OpenAPI made of it.

The name of a handler is that of its operation in OpenAPI, which programs know: it stays.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from shunter import __version__
from shunter.api.answer_models import (
    DaemonDocument,
    DecisionDocument,
    EventPage,
    ForecastDocument,
    GroupsDocument,
    GroupToldDocument,
    HealthDocument,
    HistoryDocument,
    JobDocument,
    JobsToldDocument,
    NodesDocument,
    ProposalDocument,
    QueueDocument,
    StartsIfDocument,
    StateDocument,
    SubmittedDocument,
    ToldDocument,
    ViewDocument,
)
from shunter.api.cluster import (
    log_decision,
    log_events,
    log_stream,
    status_daemon,
    status_health,
    status_metrics,
    status_nodes,
    status_openapi,
    status_ready,
    status_state,
)
from shunter.api.cluster_state import METRICS_MEDIA
from shunter.api.commands import (
    commands_cancel,
    commands_cancel_jobs,
    commands_discard_checkpoint,
    commands_drain,
    commands_priority,
    commands_quarantine,
    commands_release_gpu,
    commands_resize,
    commands_restore,
    commands_resume,
    commands_set_aside,
    commands_submit,
    commands_suspend,
    commands_suspend_jobs,
    forecasts_of_changes,
    forecasts_of_queue,
    forecasts_of_submission,
    proposals_propose,
    proposals_view,
)
from shunter.api.jobs import (
    groups_cancel,
    groups_groups,
    groups_priority,
    jobs_history,
    jobs_job,
    jobs_queue,
    jobs_why,
)
from shunter.api.output import output_logs
from shunter.api.problems import PROBLEM, STATUSES, ProblemDocument
from shunter.api.request_models import (
    AtQuery,
    EventsQuery,
    ForecastQuery,
    GroupBody,
    GroupPriorityBody,
    GroupsQuery,
    HistoryQuery,
    JobQuery,
    JobsBody,
    LogsQuery,
    PriorityBody,
    ProposalBody,
    QueueQuery,
    ResizeBody,
    StreamQuery,
    SubmitBody,
)
from shunter.api.routing import BYTES, JSON, SSE, NoBody, NoQuery, Route

V1 = "/api/v1"
_JOB = V1 + "/jobs/{job_id}"
_NODE = V1 + "/nodes/{node}"
_GPU = _NODE + "/gpus/{gpu}"
_KEY = (("Idempotency-Key", "submits once, however often it is sent"),)
_SEEN = (("Last-Event-ID", "the last event seen; the stream goes on after it"),)
_TAG = (("If-None-Match", "the ETag of an answer; 304 if nothing has changed"),)

ROUTES = (
    Route("GET", V1 + "/daemon", status_daemon, "Who answers, and as whom", DaemonDocument),
    Route(
        *("GET", V1 + "/state", status_state, "What is true, now or at a past point"),
        StateDocument,
        query=AtQuery,
        headers=_TAG,
    ),
    Route("GET", V1 + "/events", log_events, "Events by number", EventPage, query=EventsQuery),
    Route(
        *("GET", V1 + "/stream", log_stream, "Events as they become durable", None),
        query=StreamQuery,
        media=SSE,
        headers=_SEEN,
    ),
    Route("GET", V1 + "/decisions/{seq}", log_decision, "One decision", DecisionDocument),
    Route(
        *("GET", V1 + "/jobs", jobs_queue, "The jobs that have not ended", QueueDocument),
        query=QueueQuery,
    ),
    Route(
        *("POST", V1 + "/jobs", commands_submit, "Submit a job or an array", SubmittedDocument),
        body=SubmitBody,
        headers=_KEY,
    ),
    Route(
        *("GET", V1 + "/history", jobs_history, "Jobs that have ended", HistoryDocument),
        query=HistoryQuery,
    ),
    Route(
        *("GET", V1 + "/forecast", forecasts_of_queue, "When jobs start and end"),
        ForecastDocument,
        query=ForecastQuery,
    ),
    Route(
        *("POST", V1 + "/forecast", forecasts_of_submission),
        *("When a job would start and end", ForecastDocument),
        body=SubmitBody,
    ),
    Route("GET", _JOB, jobs_job, "One job with its attempts", JobDocument, query=JobQuery),
    Route("GET", _JOB + "/why", jobs_why, "Why it is where it is", None, query=AtQuery),
    Route(
        *("GET", _JOB + "/counterfactuals", forecasts_of_changes),
        *("What would make it start", StartsIfDocument),
        query=AtQuery,
    ),
    Route(
        *("GET", _JOB + "/logs", output_logs, "What it printed", None),
        query=LogsQuery,
        media=BYTES,
    ),
    Route("POST", _JOB + "/cancel", commands_cancel, "End it", ToldDocument),
    Route("POST", _JOB + "/suspend", commands_suspend, "Save it, and hold it", ToldDocument),
    Route(
        *("POST", V1 + "/jobs/cancel", commands_cancel_jobs, "End some in one step"),
        JobsToldDocument,
        body=JobsBody,
    ),
    Route(
        *("POST", V1 + "/jobs/suspend", commands_suspend_jobs, "Suspend some in one step"),
        JobsToldDocument,
        body=JobsBody,
    ),
    Route("POST", _JOB + "/resume", commands_resume, "Let it start again", ToldDocument),
    Route(
        *("POST", _JOB + "/discard-checkpoint", commands_discard_checkpoint),
        *("Give up what it saved on servers that do not answer", ToldDocument),
    ),
    Route(
        *("POST", _JOB + "/set-aside", commands_set_aside),
        *("End its attempt, whatever that tells, and hold it", ToldDocument),
    ),
    Route(
        *("POST", _JOB + "/priority", commands_priority, "Change its priority", ToldDocument),
        body=PriorityBody,
    ),
    Route(
        *("POST", _JOB + "/resize", commands_resize, "Change the size of its gang", ToldDocument),
        body=ResizeBody,
    ),
    Route(
        *("GET", V1 + "/groups", groups_groups, "Multi-jobs with their members", GroupsDocument),
        query=GroupsQuery,
    ),
    Route(
        *("POST", V1 + "/groups/cancel", groups_cancel, "End all of a group", GroupToldDocument),
        body=GroupBody,
    ),
    Route(
        *("POST", V1 + "/groups/priority", groups_priority),
        *("Change the priority of all of a group", GroupToldDocument),
        body=GroupPriorityBody,
    ),
    Route("GET", V1 + "/view", proposals_view, "What is free, for schedulers", ViewDocument),
    Route(
        *("POST", V1 + "/proposals", proposals_propose, "Propose a gang", ProposalDocument),
        body=ProposalBody,
    ),
    Route("GET", V1 + "/nodes", status_nodes, "The servers", NodesDocument),
    Route("POST", _NODE + "/drain", commands_drain, "Start nothing new there", ToldDocument),
    Route("POST", _NODE + "/restore", commands_restore, "Put it back to work", ToldDocument),
    Route(
        *("POST", _GPU + "/quarantine", commands_quarantine),
        *("Start nothing new on this GPU", ToldDocument),
    ),
    Route("POST", _GPU + "/release", commands_release_gpu, "Put it back to work", ToldDocument),
    Route(
        "GET", V1 + "/openapi.json", status_openapi, "This table, for programs", None, is_open=True
    ),
    Route("GET", "/metrics", status_metrics, "For Prometheus", None, media=METRICS_MEDIA),
    Route("GET", "/healthz", status_health, "It lives", HealthDocument, is_open=True),
    Route("GET", "/readyz", status_ready, "It takes commands", HealthDocument, is_open=True),
)


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
