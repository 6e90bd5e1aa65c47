"""Reading the cluster: its state now or at a past point, servers, metrics, the daemon itself."""

from hashlib import blake2b

import orjson
from starlette.responses import Response

from shunter import __version__
from shunter.api.documents.cluster_state import nodes_of, server_state, state_document
from shunter.api.handlers.queries import AtQuery
from shunter.api.metrics import METRICS_MEDIA
from shunter.api.routing import Call, NoBody, NoQuery, json_answer
from shunter.ask.log_reading import place_of, state_at
from shunter.core.cluster import Server
from shunter.daemon.gpu_maps import ServerMap
from shunter.daemon.site import Planning
from shunter.errors import UnreachableError
from shunter.events.log import LogReader
from shunter.events.values import NodeName, gpu_numbers

NOTED_S = 0.5
"""A policy that is at work for less is not worth a word."""


async def state(call: Call[AtQuery, NoBody]) -> Response:
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


async def nodes(call: Call[NoQuery, NoBody]) -> Response:
    """Answer with all servers."""
    site, state = call.services.site, call.services.site.state
    document: dict[str, object] = {"schema_version": 1, "seq": state.seq, "now": call.services.now}
    causes, unheld, servers = site.node_causes, site.unheld, state.cluster.servers
    document["nodes"] = [
        {
            **node,
            "state": server_state(servers[name], unheld),
            "cause": causes.get(name, ""),
            "quarantined": _quarantined(servers[name]),
            **_map_of(site.maps.get(name)),
        }
        for node in nodes_of(state)
        for name in [NodeName(str(node["name"]))]
    ]
    await call.services.durable(state.seq)
    return json_answer(document)


def _quarantined(server: Server) -> list[dict[str, object]]:
    """Return the GPUs of a server that take no jobs, each with why."""
    causes = server.quarantine_causes
    return [{"gpu": gpu, "cause": causes.get(gpu, "")} for gpu in gpu_numbers(server.quarantined)]


def _map_of(told: ServerMap | None) -> dict[str, object]:
    """Return what is said of a server's map: by whom, what is amiss, CPUs."""
    if told is None:  # it is in the log alone
        return {"map_by": "", "map_notes": [], "place_by": "", "sockets": []}
    sockets = [{"gpus": gpu_numbers(mask), "cpus": list(cpus)} for mask, cpus in told.sockets]
    by = {"map_by": told.by, "place_by": told.place_by}
    return {**by, "map_notes": list(told.notes), "sockets": sockets}


async def daemon(call: Call[NoQuery, NoBody]) -> Response:
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


async def metrics(call: Call[NoQuery, NoBody]) -> Response:
    """Answer with the page Prometheus reads."""
    page = call.services.metrics.page(call.services.stream.followers)
    return Response(page, headers={"Content-Type": METRICS_MEDIA})


async def health(call: Call[NoQuery, NoBody]) -> Response:
    """Answer at all: the process lives."""
    return json_answer(_status("alive"))


async def ready(call: Call[NoQuery, NoBody]) -> Response:
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


async def openapi(call: Call[NoQuery, NoBody]) -> Response:
    """Answer with the OpenAPI document of this API."""
    return Response(call.services.openapi(), media_type="application/json")
