"""Changes of CPUs and memory that stand together in a plan, checked and carried out together.

What one job gives up another may get, in both resources and in a circle; so all are taken first,
and looked at afterwards. If one server has too little for them, none of them happens.
"""

from collections.abc import Sequence

from shunter.core.cluster import Server
from shunter.core.planning.draft import Draft
from shunter.core.planning.plan import Reshape
from shunter.core.state import Job, State
from shunter.events.values.allocation import Allocation, Share
from shunter.events.values.ids import JobId, NodeName
from shunter.events.values.reasons import Reason
from shunter.events.values.resources import Resources

Refusal = tuple[Reason, str]


def reshape_together(
    draft: Draft, state: State, changes: Sequence[Reshape]
) -> dict[JobId, Refusal]:
    """Carry changes of shares out in a draft; return refusals by job.

    Those that could not be allowed on any server are refused alone, the others all or none.
    """
    servers = state.cluster.servers
    refused: dict[JobId, Refusal] = {}
    mark, more = draft.mark, dict[NodeName, Resources]()
    for change in changes:
        job = state.jobs[change.job_id]
        refusal = refused_shape(job, change.allocation)
        if refusal is not None:
            refused[job.job_id] = refusal
            continue
        draft.reshape(job.allocation, change.allocation)
        for old, new in zip(job.allocation.shares, change.allocation.shares, strict=True):
            more[new.node] = more.get(new.node, Resources()) + (new.beside - old.beside)
    short = next((node for node in more if not _fits(draft, servers[node], more[node])), None)
    if short is not None:
        draft.rollback(mark)
        why = Reason.cpu_or_memory_short, f"node {short} has too little CPU or memory left"
        refused |= {change.job_id: why for change in changes if change.job_id not in refused}
    return refused


def refused_shape(job: Job, target: Allocation) -> Refusal | None:
    """Return why a job cannot have such shares, whatever its servers have left."""
    before = job.allocation
    if job.is_of_one_size:
        return Reason.refused, "its attempt refused other CPUs or memory before"
    if not before.shares:
        return Reason.refused, f"the job is {job.phase} and has no shares to change"
    if target.sharing is not before.sharing or not target.is_on_gpus_of(before):
        return Reason.refused, "a job that is reshaped keeps its GPUs"
    if any(share.cpus_milli < 0 or share.memory_mb < 0 for share in target.shares):
        return Reason.refused, "an allocation cannot take less than nothing"
    asked = Resources(0, job.spec.cpus_milli, job.spec.memory_mb)
    if not asked.fit_beside(sum([share.beside for share in target.shares], Resources())):
        return Reason.cpu_or_memory_short, "less CPU or memory than the job asks for"
    return None


def _fits(draft: Draft, server: Server, more: Resources) -> bool:
    """Say whether a server has what was taken of it.

    A draft knows only those that are up.
    """
    if server.is_up:
        return draft.has_beside(Share(server.name, 0))
    return more.fit_beside(server.beside_free)
