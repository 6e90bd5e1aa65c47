"""Reading the log: events by number, a stream of new ones, and single decisions."""

from collections.abc import AsyncIterator, Callable

import orjson
from starlette.responses import Response

from shunter.api.documents.decisions import decision_document, find_decision
from shunter.api.event_stream import event_object
from shunter.api.handlers.queries import EventsQuery, StreamQuery
from shunter.api.numbers import whole_number
from shunter.api.routing import JSON_LINES, Call, NoBody, NoQuery, json_answer
from shunter.ask.log_reading import seq_of, state_at
from shunter.errors import UsageError
from shunter.events.facts import KINDS, Event
from shunter.events.log import LogReader

LOOKED_AT_MOST = 200_000
"""Events one answer looks through; where more may follow, `next` is less than `head`."""


async def events(call: Call[EventsQuery, NoBody]) -> Response:
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


async def stream(call: Call[StreamQuery, NoBody]) -> Response:
    """Answer with events as they become durable, from a number on."""
    query, services = call.query, call.services
    after = _last_seen(call.header("last-event-id"), query.after, services.site.committed)
    return services.stream.answer(call.caller.user, after, _chosen(query))


async def decision(call: Call[NoQuery, NoBody]) -> Response:
    """Answer with the decision an event belongs to."""
    services = call.services

    async def read(reader: LogReader) -> dict[str, object]:
        seq = seq_of(call.path["seq"], (await reader.head()).seq)
        facts = await find_decision(reader, seq)
        decided = await state_at(reader, facts[0][0])
        return decision_document(facts, decided.policy, services.dated)

    return json_answer(await services.past.read(read))


def _kinds(text: str | None) -> frozenset[str]:
    """Return the kinds that are named.

    Raises:
        UsageError: one is no kind of event.
    """
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
    """Return after which event to go on.

    Raises:
        UsageError: it is no event of this log.
    """
    seen = committed if after is None else after
    if header:
        found = whole_number(header)
        if found is None:
            raise UsageError(f"Last-Event-ID {header[:32]!r} is no event number")
        seen = found
    if seen > committed:
        raise UsageError(f"event {seen} does not exist: the log ends at {committed}")
    return seen
