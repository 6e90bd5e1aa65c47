"""The view that schedulers of others look into: free GPUs by server, and who may be proposed."""

from collections.abc import Iterable

from shunter.api.documents.queue import Dated
from shunter.core.cluster import Server
from shunter.core.state import Job, State
from shunter.events.values import Share


def view_document(state: State, dated: Dated) -> dict[str, object]:
    """Return what is free after the last event of a state."""
    return {
        "schema_version": 1,
        "version": state.seq,
        "at": dated(state.now_us),
        "servers": [_server(each) for each in state.cluster.servers.values() if each.is_up],
        "admitted": [_admitted(state.jobs[job_id], state) for job_id in state.proposals.admitted],
    }


def _server(server: Server) -> dict[str, object]:
    where = server.configuration
    return {
        "name": server.name,
        "gpu_type": where.gpu_type,
        "gpus": where.gpus,
        "free": server.offered,
        "cpus_free": max(0, server.beside_free.cpus_milli) / 1000,
        "memory_mb_free": max(0, server.beside_free.memory_mb),
        "rack": where.rack,
        "domain": where.domain,
        "levels": {groups.level.value: list(groups.masks) for groups in where.levels},
        "links": list(where.links),
    }


def _admitted(job: Job, state: State) -> dict[str, object]:
    demand, level = job.demand, job.demand.max_level
    return {
        "job_id": job.job_id,
        "user": job.spec.user,
        "queue": job.spec.queue,
        "gpus": demand.gpus,
        "gpu_types": list(demand.gpu_types),
        "cpus": demand.cpus_milli / 1000,
        "memory_mb": demand.memory_mb,
        "max_level": None if level is None else level.value,
        "shapes": [list(shape) for shape in demand.shapes],
        "rejected": state.proposals.rejected_in_a_row(job.job_id),
        "kept": masks_of(state.proposals.reserved.get(job.job_id, ())),
    }


def masks_of(shares: Iterable[Share]) -> dict[str, int]:
    """Return the masks of shares by server."""
    return {share.node: share.gpu_mask for share in shares}
