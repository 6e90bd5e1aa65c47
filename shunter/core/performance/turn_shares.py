"""Which part of the time each job gets of GPUs that it shares in turns, by weights.

It is weighted max-min fairness over the jobs of a server, what the rotation comes to for gangs of
one size that may be on any of its GPUs. Jobs that are packed have the turns of all of their pack.
Gangs over several servers have what their slots say (`gang_slots`), the others share the rest.
"""

from collections.abc import Iterable, Sequence

from shunter.core.performance.gang_slots import Tenant, gang_slots
from shunter.core.state import Job
from shunter.events.values.ids import JobId, NodeName


def turn_shares(jobs: Iterable[Job]) -> dict[JobId, float]:
    """Return the part of the time, 0 to 1, of each of the jobs that take turns now."""
    rotations: dict[NodeName, list[Job]] = {}
    masks: dict[NodeName, int] = {}
    tenants: dict[JobId, Tenant] = {}
    for job in jobs:
        tenants[job.job_id] = Tenant(job.held.shares, job.turn_weight)
        for here in job.held.shares:
            masks[here.node] = masks.get(here.node, 0) | here.gpu_mask
        if not job.is_spread:
            rotations.setdefault(job.held.shares[0].node, []).append(job)
    found = {job_id: slot.part for job_id, slot in gang_slots(tenants).items()}
    taken: dict[NodeName, float] = {}
    for job_id, part in found.items():
        for here in tenants[job_id].shares:
            taken[here.node] = taken.get(here.node, 0.0) + part * here.gpus
    for node, there in rotations.items():
        packs: dict[JobId, list[Job]] = {}
        for job in there:
            packs.setdefault(job.pack_id, []).append(job)
        members = [
            (sum(job.turn_weight for job in pack), pack[0].held.gpus) for pack in packs.values()
        ]
        shares = fair_shares(members, masks[node].bit_count(), taken.get(node, 0.0))
        for pack, share in zip(packs.values(), shares, strict=True):
            found.update({job.job_id: share for job in pack})
    return found


def fair_shares(members: Sequence[tuple[float, int]], gpus: int, taken: float = 0.0) -> list[float]:
    """Return the part of the time of each job, in the order given.

    Args:
        members: the weight of each and the size of its gang, both above 0.
        gpus: how many GPUs they take turns on.
        taken: how much of these gangs over several servers have, in GPUs.
    Returns:
        parts from 0 to 1, proportional to the weights unless that is more than 1; together they
        take all GPUs that gangs of their size can be on at once, or less if there are few jobs.
    """
    sizes = {size for _, size in members}
    left = (gpus - gpus % sizes.pop() if len(sizes) == 1 else gpus) - taken
    weight = sum(weight * size for weight, size in members)
    shares = [0.0] * len(members)
    for place in sorted(range(len(members)), key=lambda place: (-members[place][0], place)):
        own, size = members[place]
        shares[place] = share = min(1.0, own * left / weight)
        left, weight = max(0.0, left - share * size), weight - own * size
    return shares
