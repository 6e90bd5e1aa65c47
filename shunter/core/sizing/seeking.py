"""Better places for those that start: where there is all that makes them fastest.

Who starts is settled before, by what is guaranteed. So nobody loses a place by this: one after the
other, in order, gives its GPUs back and takes those of a server that has what it can use, if that
spreads it over no more servers, or else the very ones it had.
"""

from collections.abc import Iterable, Mapping

from shunter.core.placement import Placement
from shunter.core.planning.draft import Draft
from shunter.core.sizing.guarantees import Guarantees, with_shares
from shunter.core.state import Job
from shunter.events.values.allocation import Share
from shunter.events.values.fact import replace
from shunter.events.values.ids import JobId
from shunter.events.values.job_spec import Demand


def seek(
    guarantees: Guarantees,
    draft: Draft,
    placement: Placement,
    starts: Iterable[tuple[Job, Demand, str]],
    placed: Mapping[JobId, tuple[Share, ...]],
) -> dict[JobId, tuple[Share, ...]]:
    """Return where jobs start.

    Args:
        guarantees: what they are guaranteed, and could use.
        draft: what is free, without what they were placed on.
        placement: which servers are preferred.
        starts: jobs, what their classes demand, and their pools, in order.
        placed: where they were placed.
    """
    found = dict(placed)
    for job, demand, pool in starts:
        if not demand.gpus:
            continue
        best = guarantees.bounds(job, pool).sought
        if best is None:
            continue
        before = placed[job.job_id]
        for share in before:
            draft.give(share)
        mark = draft.mark
        wanted = replace(
            demand, cpus_milli=best.cpus_milli * demand.gpus, memory_mb=best.memory_mb * demand.gpus
        )
        better = draft.place(placement, pool, wanted)
        if isinstance(better, tuple) and len(better) <= len(before):
            found[job.job_id] = better
        else:
            draft.rollback(mark)
            for share in with_shares(before, guarantees.per_gpu(job, pool)):
                draft.take(share)
    return found
