"""The cluster as documents: servers with who is on each GPU, and the whole state at a point."""

from collections.abc import Callable, Collection
from typing import Final

from shunter.api.documents.queue import Dated, in_order, job_row
from shunter.api.documents.turn_shares import TurnShares
from shunter.core.cluster import Health, Server
from shunter.core.state import State
from shunter.events.values import Allocation, JobId, NodeName, gpu_numbers

Places = dict[NodeName, dict[int, list[JobId]]]
"""By server and GPU, the jobs there; a job without GPUs stands at -1."""

NO_GPU = -1


STATES: Final = ("up", "drained", "not held", "unreachable", "lost")
"""The states of a server; only what is lost or unreachable should answer and does not."""


def server_state(server: Server, unheld: Collection[NodeName] = ()) -> str:
    """Return the state of a server; of those unheld nobody expects an answer."""
    if server.health is not Health.up:
        return "not held" if server.name in unheld else server.health.value
    return "drained" if server.drained else "up"


def nodes_of(state: State) -> list[dict[str, object]]:
    """Return every server that has not left, with its GPUs and jobs."""
    decided = _places(state, lambda job_id: state.jobs[job_id].allocation)
    held = _places(state, lambda job_id: state.jobs[job_id].held)
    return [
        _node(server, decided.get(server.name, {}), held.get(server.name, {}))
        for server in state.cluster.servers.values()
        if server.health is not Health.removed
    ]


def queues_of(state: State) -> list[dict[str, object]]:
    """Return the queues that were configured or used."""
    return [
        {
            "name": queue.name,
            "quota_gpus": queue.quota_gpus,
            "weight": queue.weight,
            "users": list(queue.users),
            "gpus": queue.gpus,
        }
        for _, queue in sorted(state.queues.items())
    ]


def state_document(state: State, dated: Dated) -> dict[str, object]:
    """Return what is true after the last event of a state, whatever time it is."""
    turns = TurnShares(state, state.now_us)
    return {
        "schema_version": 1,
        "seq": state.seq,
        "at": dated(state.now_us),
        "at_us": state.now_us,
        "term": state.term,
        "policy": state.policy,
        "rounds_planned": state.rounds_planned,
        "ended": {outcome.value: count for outcome, count in sorted(state.outcomes.items())},
        "queues": queues_of(state),
        "nodes": nodes_of(state),
        "jobs": [
            job_row(job, state, dated, turns=turns) for job in in_order(state.jobs.values(), {})
        ],
    }


def _places(state: State, allocation: Callable[[JobId], Allocation]) -> Places:
    places: Places = {}
    for job_id in state.jobs:
        for share in allocation(job_id).shares:
            there = places.setdefault(share.node, {})
            for bit in gpu_numbers(share.gpu_mask) or [NO_GPU]:
                there.setdefault(bit, []).append(job_id)
    return places


def _node(
    server: Server, decided: dict[int, list[JobId]], held: dict[int, list[JobId]]
) -> dict[str, object]:
    what = server.configuration
    jobs = dict.fromkeys(
        job_id for there in (held, decided) for on in there.values() for job_id in on
    )
    return {
        "name": server.name,
        "state": server_state(server),
        "gpu_type": what.gpu_type,
        "device": what.device,
        "gpus": [
            {
                "index": index,
                "state": _gpu_state(server, index, decided, held),
                "jobs": list(dict.fromkeys((*held.get(index, ()), *decided.get(index, ())))),
            }
            for index in range(what.gpus)
        ],
        "cpus": what.cpus_milli / 1000,
        "cpus_free": max(0, server.beside_free.cpus_milli) / 1000,
        "cpus_taken": server.taken_cpus_milli / 1000,
        "memory_mb": what.memory_mb,
        "memory_mb_free": max(0, server.beside_free.memory_mb),
        "memory_mb_taken": server.taken_memory_mb,
        "rack": what.rack,
        "domain": what.domain,
        "levels": [
            {"level": groups.level.value, "groups": [gpu_numbers(mask) for mask in groups.masks]}
            for groups in what.levels
        ],
        "links": [gpu_numbers(mask) for mask in what.links],
        "jobs": list(jobs),
    }


def _gpu_state(
    server: Server, index: int, decided: dict[int, list[JobId]], held: dict[int, list[JobId]]
) -> str:
    """Return what a GPU does; its next owner is decided before the last one leaves."""
    if held.get(index):
        stays = any(job_id in decided.get(index, ()) for job_id in held[index])
        return "used" if stays else "leaving"
    if decided.get(index):
        return "promised"
    if server.taken >> index & 1:
        return "taken"
    return "quarantined" if server.quarantined >> index & 1 else "free"
