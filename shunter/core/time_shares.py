"""Which part of the time each job gets of GPUs that it shares in turns, by weights.

Jobs of one server have weighted max-min fairness, which the rotation gives gangs of one size that
may be on any of its GPUs. Packed jobs have the turns of all of their pack. Gangs over several
servers have what their slots say (`gang_slots`), the others share the rest.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from shunter.core.cluster import Gpu, gpus_of
from shunter.core.state import Job
from shunter.events import JobId, NodeName, Share, fact

# A gang gets what its weight gives it on the GPU where that is least. All gangs that meet, also by
# way of others, have one period. Where they do not fit into it, each has less than its part.

LEAST_PART = 1 / 16
"""No gang has less of the time: others, whose turns are as much longer, would wait for hours."""


@fact
class Tenant:
    """What a job shares in turns, and its weight, above 0."""

    shares: tuple[Share, ...]
    weight: float


@fact
class Slot:
    """When a gang has its turn, in parts of a period; the least part of any."""

    begins: float
    ends: float
    least: float

    @property
    def part(self) -> float:
        """The part of the time that it has, 0 to 1."""
        return self.ends - self.begins


@dataclass(slots=True)
class _Gang:
    """A gang: its GPUs, its part of the time, where that begins."""

    job_id: JobId
    gpus: Set[Gpu]
    part: float
    begins: float = 0.0

    @property
    def ends(self) -> float:
        return self.begins + self.part


def gang_slots(tenants: Mapping[JobId, Tenant]) -> dict[JobId, Slot]:
    """Return when each gang over several servers has its turns.

    Args:
        tenants: all jobs that share GPUs in turns.
    """
    if all(len(tenant.shares) < 2 for tenant in tenants.values()):
        return {}
    weights: dict[Gpu, float] = {}
    gangs = list[_Gang]()
    given = {name: _gpus(tenants[name]) for name in sorted(tenants)}  # as floats are summed up
    for name, gpus in given.items():
        for gpu in gpus:
            weights[gpu] = weights.get(gpu, 0.0) + tenants[name].weight
    for name, gpus in given.items():
        if len(tenants[name].shares) > 1:
            part = min(tenants[name].weight / weights[gpu] for gpu in gpus)
            part = max(part, LEAST_PART)
            gangs.append(_Gang(name, gpus, part))
    found: dict[JobId, Slot] = {}
    for group in _groups(gangs):
        found.update(_of_group(group))
    return found


def _of_group(group: list[_Gang]) -> dict[JobId, Slot]:
    """Return the slots of gangs that meet."""
    for upto, gang in enumerate(group):
        _fit(gang, [other for other in group[:upto] if other.gpus & gang.gpus])
    whole = max(1.0, *(gang.ends for gang in group))
    least = min(gang.part for gang in group) / whole
    return {gang.job_id: Slot(gang.begins / whole, gang.ends / whole, least) for gang in group}


def _fit(gang: _Gang, others: list[_Gang]) -> None:
    """Let a gang begin as early as none of the others has its turn."""
    for begins in sorted({0.0, *(other.ends for other in others)}):
        gang.begins = begins
        if all(gang.ends <= other.begins or other.ends <= begins for other in others):
            return


def _groups(gangs: list[_Gang]) -> list[list[_Gang]]:
    """Return gangs by who meets, directly or by way of others."""
    groups: list[tuple[Set[Gpu], list[_Gang]]] = []
    for gang in gangs:
        gpus, members, apart = gang.gpus, [gang], []
        for group in groups:
            if group[0] & gang.gpus:
                gpus, members = gpus | group[0], [*group[1], *members]
            else:
                apart.append(group)
        groups = [*apart, (gpus, members)]
    return [sorted(members, key=lambda gang: gang.job_id) for _, members in groups]


def _gpus(tenant: Tenant) -> frozenset[Gpu]:
    return frozenset(gpu for share in tenant.shares for gpu in gpus_of(share))


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
