"""Jobs whose last attempts failed at once start on other GPUs than these had, if any are left.

What fails within its first seconds may fail of where it is: a broken GPU, a folder that is not
mounted. The policy decides who starts and with how much; where, it knows nothing of that. So its
plan is carried out as it is, and then such a job is put on a server that none of its early failures
was on, else on other GPUs; where nothing else is left that meets its demand, it stays.

In the same way a job whose checkpoint is too large to be copied starts on the server that has it,
or not in this round: elsewhere its launch would fail.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from shunter.core.cluster import Pool, Server
from shunter.core.fold.checkpoints import home_of
from shunter.core.placement import Consolidated
from shunter.core.placement.fitting import find
from shunter.core.planning.plan import Plan, Start, Suspend
from shunter.core.state import Job, State
from shunter.events.values.allocation import Allocation, Share, Sharing
from shunter.events.values.ids import NodeName

_PLACEMENT: Final = Consolidated()


def elsewhere(plan: Plan, state: State) -> Plan:
    """Return a plan whose starts avoid where their jobs failed at once."""
    if plan.proposals or state.proposals.reserved:
        return plan  # places are proposed, and kept, GPU by GPU
    found = {
        number: other
        for number, change in enumerate(plan.changes)
        if type(change) is Start
        and (job := state.jobs.get(change.job_id)) is not None
        and job.failed_on
        and (other := _other_place(job, change.allocation, plan, state)) is not None
    }
    for number, other in found.items():
        changes, start = [*plan.changes], plan.changes[number]
        changes[number] = Start(start.job_id, other, start.because)
        plan = replace(plan, changes=tuple(changes), is_drafted=False)
    return plan


def at_home(plan: Plan, state: State) -> Plan:
    """Return a plan whose starts are where their jobs can go on from what they saved."""
    homes = {
        number: home
        for number, change in enumerate(plan.changes)
        if type(change) is Start
        and (job := state.jobs.get(change.job_id)) is not None
        and job.stays_on is not None
        and (home := home_of(job, state.cluster)) is not None
        and [share.node for share in change.allocation.shares] != [home.name]
    }
    for number in sorted(homes, reverse=True):  # so that those before keep their numbers
        changes, start, home = [*plan.changes], plan.changes[number], homes[number]
        others = [(name, -1) for name in state.cluster.servers if name != home.name]
        place = _place(state.jobs[start.job_id], start.allocation, home, others, plan, state)
        changes[number : number + 1] = (
            [] if place is None else [Start(start.job_id, place, start.because)]
        )
        plan = replace(plan, changes=tuple(changes), is_drafted=False)
    return plan


def _other_place(job: Job, given: Allocation, plan: Plan, state: State) -> Allocation | None:
    """Return another place of the same size for a job; None: it may stay, or must."""
    servers = state.cluster.servers
    known = [share.node in servers for share in given.shares]
    if not given.gpus or given.sharing is not Sharing.exclusive or not all(known):
        return None
    failed = {share.node for share in job.failed_on}
    if not any(share.node in failed for share in given.shares):
        return None
    return next(
        (
            place
            for avoided in _avoided(job.failed_on)
            if (place := _place(job, given, servers[given.shares[0].node], avoided, plan, state))
        ),
        None,
    )


def _place(
    job: Job,
    given: Allocation,
    among: Server,
    avoided: Iterable[tuple[NodeName, int]],
    plan: Plan,
    state: State,
) -> Allocation | None:
    """Return a place for a job that a plan leaves free on servers of one type.

    Args:
        job: whose start it is.
        given: where the plan has it start.
        among: a server of that type.
        avoided: GPUs that are not to be used, as masks of servers.
        plan: what else is done.
        state: of the cluster, before that.
    """
    scratch = state.cluster.pools[among.configuration.gpu_type].copied()
    for change in plan.changes:
        if change.job_id != job.job_id and not isinstance(change, Suspend):
            for share in change.allocation.shares:
                if (position := _position(scratch, state, share.node)) is not None:
                    scratch.take(position, share)
    demand = replace(
        job.demand,
        cpus_milli=sum(share.cpus_milli for share in given.shares),
        memory_mb=sum(share.memory_mb for share in given.shares),
    )
    for node, mask in avoided:
        if (position := _position(scratch, state, node)) is not None:
            scratch.set_free(position, scratch.free[position] & ~mask)
    places = find(_PLACEMENT, scratch, demand)
    if isinstance(places, list) and len(places) <= len(given.shares):
        return Allocation(tuple([share for _, share in places]))
    return None


def _avoided(failed_on: Sequence[Share]) -> Iterator[list[tuple[NodeName, int]]]:
    """Yield what to avoid: servers, then GPUs, of all failures, then of less.

    The mask of a server that is avoided as a whole has every bit.
    """
    for first in range(len(failed_on)):
        yield [(share.node, -1) for share in failed_on[first:]]
        yield [(share.node, share.gpu_mask) for share in failed_on[first:]]


def _position(pool: Pool, state: State, node: NodeName) -> int | None:
    """Return where a server is in a pool; None: in another one, or gone."""
    server = state.cluster.servers.get(node)
    if server is None or server.position >= len(pool.servers):
        return None
    return server.position if pool.servers[server.position] is server else None
