"""Reading the cluster and its log: the state, servers, the daemon itself; events and decisions."""

from collections.abc import AsyncIterator, Callable, Sequence
from hashlib import blake2b

import orjson
from starlette.responses import Response

from shunter import __version__
from shunter.api.access import whole_number
from shunter.api.answer_models import (
    DaemonDocument,
    DecisionDocument,
    EventPage,
    HealthDocument,
    NodesDocument,
    StateDocument,
)
from shunter.api.cluster_state import METRICS_MEDIA, nodes_of, server_state, state_document
from shunter.api.event_stream import event_object
from shunter.api.job_rows import with_dates
from shunter.api.request_models import AtQuery, EventsQuery, StreamQuery
from shunter.api.routing import JSON_LINES, SSE, V1, Call, NoBody, NoQuery, json_answer, route
from shunter.ask import Dated, fact_in_words, is_part, place_of, seq_of, state_at
from shunter.daemon import Planning, ServerMap
from shunter.errors import NotFoundError, UnreachableError, UsageError
from shunter.events import (
    KINDS,
    TRIALS,
    ClassWait,
    Event,
    NodeName,
    encode_payload,
    facts,
    gpu_numbers,
    to_object,
)
from shunter.events.log import LogReader

NOTED_S = 0.5
"""A policy that is at work for less is not worth a word."""


@route(
    "GET",
    V1 + "/state",
    "What is true, now or at a past point",
    StateDocument,
    query=AtQuery,
    headers=(("If-None-Match", "the ETag of an answer; 304 if nothing has changed"),),
)
async def status_state(call: Call[AtQuery, NoBody]) -> Response:
    """Answer with the whole state; its ETag is event number and digest."""
    services = call.services
    if call.query.at is None:
        seq, body = services.state_now()
        await services.durable(seq)
    else:
        at, origin = call.query.at, services.site.origin.isoformat()

        async def read(reader: LogReader) -> tuple[int, bytes]:
            seq, _ = await place_of(reader, at, origin, services.site.now_us())
            past = await state_at(reader, seq)
            return seq, orjson.dumps(state_document(past, services.dated))

        seq, body = await services.past.read(read)
    tag = f'"e{seq}-{blake2b(body, digest_size=8).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if tag in call.header("if-none-match"):
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type="application/json")


@route("GET", V1 + "/nodes", "The servers", NodesDocument)
async def status_nodes(call: Call[NoQuery, NoBody]) -> Response:
    """Answer with all servers."""
    site, state = call.services.site, call.services.site.state
    document: dict[str, object] = {"schema_version": 1, "seq": state.seq, "now": call.services.now}
    causes, unheld, servers = site.node_causes, site.unheld, state.cluster.servers
    document["nodes"] = [
        {
            **node,
            "state": server_state(servers[name], unheld),
            "cause": causes.get(name, ""),
            "quarantined": [
                {"gpu": gpu, "cause": servers[name].quarantine_causes.get(gpu, "")}
                for gpu in gpu_numbers(servers[name].quarantined)
            ],
            **_map_of(site.maps.get(name)),
        }
        for node in nodes_of(state)
        for name in [NodeName(str(node["name"]))]
    ]
    await call.services.durable(state.seq)
    return json_answer(document)


def _map_of(told: ServerMap | None) -> dict[str, object]:
    """Return what is said of a server's map: by whom, what is amiss, CPUs."""
    if told is None:  # it is in the log alone
        return {"map_by": "", "map_notes": [], "place_by": "", "sockets": []}
    sockets = [{"gpus": gpu_numbers(mask), "cpus": list(cpus)} for mask, cpus in told.sockets]
    by = {"map_by": told.by, "place_by": told.place_by}
    return {**by, "map_notes": list(told.notes), "sockets": sockets}


@route("GET", V1 + "/daemon", "Who answers, and as whom", DaemonDocument)
async def status_daemon(call: Call[NoQuery, NoBody]) -> Response:
    """Answer with who this daemon is, and whom it takes the caller for."""
    services, site = call.services, call.services.site
    return json_answer(
        {
            "schema_version": 1,
            "version": __version__,
            "cluster_id": site.cluster_id,
            "term": site.term,
            "policy": site.policy,
            "policy_fault": site.state.policy_fault,
            "planning": _planning(site.planning),
            "seq": site.committed,
            "now": services.now,
            "backend": site.config.backend.kind,
            "config": site.config_file,
            "log": site.config.log.url,
            "user": call.caller.user,
            "is_admin": call.caller.is_admin,
            "serves": services.callers.serves,
        }
    )


@route("GET", "/metrics", "For Prometheus", media=METRICS_MEDIA)
async def status_metrics(call: Call[NoQuery, NoBody]) -> Response:
    """Answer with the page Prometheus reads."""
    page = call.services.metrics.page(call.services.stream.followers)
    return Response(page, headers={"Content-Type": METRICS_MEDIA})


@route("GET", "/healthz", "It lives", HealthDocument, is_open=True)
async def status_health(call: Call[NoQuery, NoBody]) -> Response:
    """Answer at all: the process lives."""
    return json_answer(_status("alive"))


@route("GET", "/readyz", "It takes commands", HealthDocument, is_open=True)
async def status_ready(call: Call[NoQuery, NoBody]) -> Response:
    """Answer whether the loop is at work, so that a command would be taken."""
    if not call.services.is_ready:
        raise UnreachableError("the scheduler is not at work")
    return json_answer(_status("ready"))


def _planning(planning: Planning) -> dict[str, object] | None:
    """Return what the policy is at, if it takes long enough for somebody to wait."""
    if planning.since_s < NOTED_S:
        return None
    return {
        "hook": planning.hook,
        "since_s": round(planning.since_s, 1),
        "limit_s": planning.limit_s,
    }


def _status(status: str) -> dict[str, object]:
    return {"schema_version": 1, "status": status}


@route("GET", V1 + "/openapi.json", "This table, for programs", is_open=True)
async def status_openapi(call: Call[NoQuery, NoBody]) -> Response:
    """Answer with the OpenAPI document of this API."""
    return Response(call.services.openapi(), media_type="application/json")


# The log.

LOOKED_AT_MOST = 200_000
"""Events one answer looks through; where more may follow, `next` is less than `head`."""


@route("GET", V1 + "/events", "Events by number", EventPage, query=EventsQuery)
async def log_events(call: Call[EventsQuery, NoBody]) -> Response:
    """Answer with a page of events: one document, or a line for each."""
    query, dated = call.query, call.services.dated
    wanted = _chosen(query)
    found: list[dict[str, object]] = []

    async def read(reader: LogReader) -> tuple[int, int]:
        head = (await reader.head()).seq
        seq = upto = head if query.job else min(head, query.after + LOOKED_AT_MOST)
        async for number, event in _numbered(reader, query, upto):
            if wanted(event):
                found.append(event_object(number, event, dated))
                if len(found) == query.limit:
                    seq = number
                    break
        return seq, head

    seq, head = await call.services.past.read(read)
    if JSON_LINES in call.header("accept"):
        lines = b"".join(orjson.dumps(one) + b"\n" for one in found)
        return Response(lines, headers={"X-Next": str(seq)}, media_type=JSON_LINES)
    return json_answer({"schema_version": 1, "events": found, "next": seq, "head": head})


async def _numbered(
    reader: LogReader, query: EventsQuery, upto: int
) -> AsyncIterator[tuple[int, Event]]:
    """Yield the events to look at, numbered; a job's own are found by the index."""
    if query.job is not None:
        for seq, event in await reader.job_events(query.job):
            if query.after < seq <= upto:
                yield seq, event
        return
    seq = query.after
    async for event in reader.events(query.after, upto):
        seq += 1
        yield seq, event


@route(
    "GET",
    V1 + "/stream",
    "Events as they become durable",
    query=StreamQuery,
    media=SSE,
    headers=(("Last-Event-ID", "the last event seen; the stream goes on after it"),),
)
async def log_stream(call: Call[StreamQuery, NoBody]) -> Response:
    """Answer with events as they become durable, from a number on."""
    query, services = call.query, call.services
    after = _last_seen(call.header("last-event-id"), query.after, services.site.committed)
    return services.stream.answer(call.caller.user, after, _chosen(query))


@route("GET", V1 + "/decisions/{seq}", "One decision", DecisionDocument)
async def log_decision(call: Call[NoQuery, NoBody]) -> Response:
    """Answer with the decision an event belongs to."""
    services = call.services

    async def read(reader: LogReader) -> dict[str, object]:
        seq = seq_of(call.path["seq"], (await reader.head()).seq)
        numbered = await find_decision(reader, seq)
        decided = await state_at(reader, numbered[0][0])
        return decision_document(numbered, decided.policy, services.dated)

    return json_answer(await services.past.read(read))


def _kinds(text: str | None) -> frozenset[str]:
    """Return the kinds that are named; UsageError: one is no kind of event."""
    kinds = frozenset(part.strip() for part in (text or "").split(",") if part.strip())
    unknown = sorted(kinds - KINDS.keys())
    if unknown:
        raise UsageError(f"kind: there are no events {', '.join(unknown)}; see the events page")
    return kinds


def _chosen(query: EventsQuery | StreamQuery) -> Callable[[Event], bool]:
    """Return what says of an event whether it was asked for."""
    kinds = _kinds(query.kind)

    def wanted(event: Event) -> bool:
        return (
            (not kinds or type(event).__name__ in kinds)
            and (query.job is None or getattr(event, "job_id", None) == query.job)
            and (query.node is None or getattr(event, "node", None) == query.node)
        )

    return wanted


def _last_seen(header: str, after: int | None, committed: int) -> int:
    """Return after which event to go on; UsageError: it is none of this log."""
    seen = committed if after is None else after
    if header:
        found = whole_number(header)
        if found is None:
            raise UsageError(f"Last-Event-ID {header[:32]!r} is no event number")
        seen = found
    if seen > committed:
        raise UsageError(f"event {seen} does not exist: the log ends at {committed}")
    return seen


# The facts of one decision follow each other in the log and have one instant: `RoundPlanned` (after
# `TargetsSet` or `SizesSet` where anything was solved for), then what came of it.

FACTS_MOST = 100_000
WINDOW = 512

Found = list[tuple[int, Event]]
"""The facts of one decision with their numbers, its round first."""


async def find_decision(reader: LogReader, seq: int) -> Found:
    """Return the decision that an event belongs to, or the last one before it.

    Raises:
        NotFoundError: nothing was decided up to there.
    """
    head = (await reader.head()).seq
    if not 0 < seq <= head:
        raise NotFoundError(f"there is no event {seq}: the log ends at {head}")
    upto, found = seq, None
    while found is None and upto > max(0, seq - FACTS_MOST):
        after = max(0, upto - WINDOW)
        number = after
        async for event in reader.events(after, upto):
            number += 1
            if isinstance(event, facts.RoundPlanned):
                found = number
        upto = after
    if found is None:
        raise NotFoundError(f"nothing was decided among the last {FACTS_MOST:,} events up to {seq}")
    numbered: Found = []
    number = found - 1
    async for event in reader.events(found - 1, min(head, found + FACTS_MOST)):
        number += 1
        if numbered and not is_part(event):
            break
        numbered.append((number, event))
    return numbered


_CHANGES = (
    facts.AllocationChanged,
    facts.JobReshaped,
    facts.ReservationSet,
    *TRIALS,
    facts.GangProposed,
    facts.GangApproved,
)


def decision_document(numbered: Found, policy: str, dated: Dated) -> dict[str, object]:
    """Return a decision with everything it says."""
    seq, planned = numbered[0]
    assert isinstance(planned, facts.RoundPlanned), "a decision begins with its round"
    parts = numbered[1:]
    waits = [to_object_of(entry) for entry in planned.waits]
    return {
        "schema_version": 1,
        "seq": seq,
        "at": dated(planned.at_us),
        "round": planned.number,
        "trigger": planned.trigger.value,
        "seen": planned.seen,
        "policy": policy,
        "last_seq": numbered[-1][0],
        "changes": _named(parts, _CHANGES),
        "refused": _named(parts, (facts.PlanRejected, facts.GangRejected)),
        "waits": [*waits, *_named(parts, (facts.WaitReasonChanged,))],
        "words": with_dates([fact_in_words(event) for _, event in numbered], dated),
        "digest": blake2b(
            encode_payload([event for _, event in numbered]), digest_size=16
        ).hexdigest(),
    }


def to_object_of(entry: ClassWait) -> dict[str, object]:
    """Return what a class of equal jobs waits for, with its fields by name."""
    wait = entry.wait
    return {
        "gpus": entry.demand.gpus,
        "queue": entry.demand.queue,
        "reason": None if wait is None else wait.reason.value,
        "needed": 0 if wait is None else wait.needed,
        "free": 0 if wait is None else wait.free,
        "blockers": [] if wait is None else list(wait.blockers),
    }


def _named(parts: Sequence[tuple[int, Event]], kinds: tuple[type[Event], ...]) -> list[object]:
    return [{"seq": seq, **to_object(event)} for seq, event in parts if isinstance(event, kinds)]
