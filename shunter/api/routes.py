"""The table of routes: what is served, documented, counted and tested."""

from shunter.api.handlers import (
    commands,
    forecasts,
    groups,
    jobs,
    log,
    output,
    proposals,
    status,
)
from shunter.api.handlers.queries import (
    AtQuery,
    EventsQuery,
    ForecastQuery,
    GroupsQuery,
    HistoryQuery,
    JobQuery,
    LogsQuery,
    QueueQuery,
    StreamQuery,
)
from shunter.api.metrics import METRICS_MEDIA
from shunter.api.models.cluster_documents import (
    DaemonDocument,
    DecisionDocument,
    EventPage,
    HealthDocument,
    NodesDocument,
    StateDocument,
)
from shunter.api.models.forecast_documents import ForecastDocument, StartsIfDocument
from shunter.api.models.group_documents import GroupsDocument, GroupToldDocument
from shunter.api.models.job_documents import (
    HistoryDocument,
    JobDocument,
    JobsToldDocument,
    QueueDocument,
    SubmittedDocument,
    ToldDocument,
)
from shunter.api.models.proposal_documents import (
    ProposalBody,
    ProposalDocument,
    ViewDocument,
)
from shunter.api.models.submission import (
    GroupBody,
    GroupPriorityBody,
    JobsBody,
    PriorityBody,
    ResizeBody,
    SubmitBody,
)
from shunter.api.routing import BYTES, SSE, Route

V1 = "/api/v1"
_JOB = V1 + "/jobs/{job_id}"
_NODE = V1 + "/nodes/{node}"
_GPU = _NODE + "/gpus/{gpu}"
_KEY = (("Idempotency-Key", "submits once, however often it is sent"),)
_SEEN = (("Last-Event-ID", "the last event seen; the stream goes on after it"),)
_TAG = (("If-None-Match", "the ETag of an answer; 304 if nothing has changed"),)

ROUTES = (
    Route("GET", V1 + "/daemon", status.daemon, "Who answers, and as whom", DaemonDocument),
    Route(
        *("GET", V1 + "/state", status.state, "What is true, now or at a past point"),
        StateDocument,
        query=AtQuery,
        headers=_TAG,
    ),
    Route("GET", V1 + "/events", log.events, "Events by number", EventPage, query=EventsQuery),
    Route(
        *("GET", V1 + "/stream", log.stream, "Events as they become durable", None),
        query=StreamQuery,
        media=SSE,
        headers=_SEEN,
    ),
    Route("GET", V1 + "/decisions/{seq}", log.decision, "One decision", DecisionDocument),
    Route(
        *("GET", V1 + "/jobs", jobs.queue, "The jobs that have not ended", QueueDocument),
        query=QueueQuery,
    ),
    Route(
        *("POST", V1 + "/jobs", commands.submit, "Submit a job or an array", SubmittedDocument),
        body=SubmitBody,
        headers=_KEY,
    ),
    Route(
        *("GET", V1 + "/history", jobs.history, "Jobs that have ended", HistoryDocument),
        query=HistoryQuery,
    ),
    Route(
        *("GET", V1 + "/forecast", forecasts.of_queue, "When jobs start and end"),
        ForecastDocument,
        query=ForecastQuery,
    ),
    Route(
        *("POST", V1 + "/forecast", forecasts.of_submission),
        *("When a job would start and end", ForecastDocument),
        body=SubmitBody,
    ),
    Route("GET", _JOB, jobs.job, "One job with its attempts", JobDocument, query=JobQuery),
    Route("GET", _JOB + "/why", jobs.why, "Why it is where it is", None, query=AtQuery),
    Route(
        *("GET", _JOB + "/counterfactuals", forecasts.of_changes),
        *("What would make it start", StartsIfDocument),
        query=AtQuery,
    ),
    Route(
        *("GET", _JOB + "/logs", output.logs, "What it printed", None),
        query=LogsQuery,
        media=BYTES,
    ),
    Route("POST", _JOB + "/cancel", commands.cancel, "End it", ToldDocument),
    Route("POST", _JOB + "/suspend", commands.suspend, "Save it, and hold it", ToldDocument),
    Route(
        *("POST", V1 + "/jobs/cancel", commands.cancel_jobs, "End some in one step"),
        JobsToldDocument,
        body=JobsBody,
    ),
    Route(
        *("POST", V1 + "/jobs/suspend", commands.suspend_jobs, "Suspend some in one step"),
        JobsToldDocument,
        body=JobsBody,
    ),
    Route("POST", _JOB + "/resume", commands.resume, "Let it start again", ToldDocument),
    Route(
        *("POST", _JOB + "/discard-checkpoint", commands.discard_checkpoint),
        *("Give up what it saved on servers that do not answer", ToldDocument),
    ),
    Route(
        *("POST", _JOB + "/set-aside", commands.set_aside),
        *("End its attempt, whatever that tells, and hold it", ToldDocument),
    ),
    Route(
        *("POST", _JOB + "/priority", commands.priority, "Change its priority", ToldDocument),
        body=PriorityBody,
    ),
    Route(
        *("POST", _JOB + "/resize", commands.resize, "Change the size of its gang", ToldDocument),
        body=ResizeBody,
    ),
    Route(
        *("GET", V1 + "/groups", groups.groups, "Multi-jobs with their members", GroupsDocument),
        query=GroupsQuery,
    ),
    Route(
        *("POST", V1 + "/groups/cancel", groups.cancel, "End all of a group", GroupToldDocument),
        body=GroupBody,
    ),
    Route(
        *("POST", V1 + "/groups/priority", groups.priority),
        *("Change the priority of all of a group", GroupToldDocument),
        body=GroupPriorityBody,
    ),
    Route("GET", V1 + "/view", proposals.view, "What is free, for schedulers", ViewDocument),
    Route(
        *("POST", V1 + "/proposals", proposals.propose, "Propose a gang", ProposalDocument),
        body=ProposalBody,
    ),
    Route("GET", V1 + "/nodes", status.nodes, "The servers", NodesDocument),
    Route("POST", _NODE + "/drain", commands.drain, "Start nothing new there", ToldDocument),
    Route("POST", _NODE + "/restore", commands.restore, "Put it back to work", ToldDocument),
    Route(
        *("POST", _GPU + "/quarantine", commands.quarantine),
        *("Start nothing new on this GPU", ToldDocument),
    ),
    Route("POST", _GPU + "/release", commands.release_gpu, "Put it back to work", ToldDocument),
    Route(
        "GET", V1 + "/openapi.json", status.openapi, "This table, for programs", None, is_open=True
    ),
    Route("GET", "/metrics", status.metrics, "For Prometheus", None, media=METRICS_MEDIA),
    Route("GET", "/healthz", status.health, "It lives", HealthDocument, is_open=True),
    Route("GET", "/readyz", status.ready, "It takes commands", HealthDocument, is_open=True),
)
