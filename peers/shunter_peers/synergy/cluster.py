"""Shunter's servers and allocations as the simulator's, which knows servers by number only."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from shunter.core import Job
from shunter.errors import ConfigError
from shunter.events import Allocation, ConfigurationSet, JobId, NodeName, Share
from shunter_peers.synergy.jobs import Server
from shunter_peers.synergy.rounds import Rounds, Seat

DEFAULT = Server()


def rounds_of(servers: Iterable[ConfigurationSet]) -> Rounds:
    """Return the simulator at its beginning, on those servers that have GPUs.

    Where they say nothing of CPUs or memory, each GPU has 3 cores and 62.5 GB.

    Raises:
        ConfigError: there are none, or they are not alike.
    """
    alike = [(where.gpus, where.cpus_milli, where.memory_mb) for where in servers if where.gpus]
    if not alike:
        raise ConfigError("synergy_peer: the cluster has no server with GPUs")
    if any(each != alike[0] for each in alike):
        raise ConfigError(
            "synergy_peer: the public simulator knows one kind of server: expected all servers "
            "with GPUs to have equal GPUs, CPUs and memory"
        )
    gpus, cpus_milli, memory_mb = alike[0]
    each = Server(
        gpus,
        cpus_milli / 1000 if cpus_milli else DEFAULT.cpus_per_gpu * gpus,
        memory_mb / 1000 if memory_mb else DEFAULT.memory_gb_per_gpu * gpus,
    )
    return Rounds(len(alike), each)


def allocations(
    seats: Mapping[JobId, Seat],
    nodes: Sequence[NodeName],
    of: Mapping[NodeName, ConfigurationSet],
    jobs: Mapping[JobId, Job],
) -> dict[JobId, Allocation]:
    """Return the allocation of each job that has a seat.

    A job that stays on a server keeps its GPUs there, and one with all it had its allocation; the
    others get the lowest GPUs that are free. CPUs and memory are written down, rounded down, where
    servers say that they have any.

    Args:
        seats: GPUs by server, or by none, and what there is beside each.
        nodes: the servers' names by number.
        of: what is in each.
        jobs: those of the view.
    """
    free = {node: (1 << of[node].gpus) - 1 for node in nodes}
    kept: dict[JobId, dict[NodeName, int]] = {}
    for job_id, seat in seats.items():
        before = {share.node: share.gpu_mask for share in jobs[job_id].allocation.shares}
        kept[job_id] = mine = {}
        for node, gpus in _on_servers(seat, nodes, before):
            mask = mine[node] = _lowest(before.get(node, 0) & free[node], gpus)
            free[node] &= ~mask
    found: dict[JobId, Allocation] = {}
    for job_id, seat in seats.items():
        mine = kept[job_id]
        for node, gpus in _on_servers(seat, nodes, mine):
            mask = _lowest(free[node], gpus - mine.get(node, 0).bit_count())
            free[node] &= ~mask
            mine[node] = mine.get(node, 0) | mask
        if not seat.parts:
            _spread(mine, seat.gpus, free)
        shares = tuple(_share(node, mask, seat, of[node]) for node, mask in mine.items() if mask)
        now = jobs[job_id].allocation
        found[job_id] = now if now.shares == shares else Allocation(shares)
    return found


def _on_servers(
    seat: Seat, nodes: Sequence[NodeName], before: Mapping[NodeName, int]
) -> Iterator[tuple[NodeName, int]]:
    """Yield the servers of a seat with the GPUs there; else those of before."""
    if seat.parts:
        yield from ((nodes[number], gpus) for number, gpus in seat.parts)
    else:
        yield from ((node, mask.bit_count()) for node, mask in before.items())


def _spread(mine: dict[NodeName, int], gpus: int, free: dict[NodeName, int]) -> None:
    """Give a job that may be anywhere the first GPUs that are free."""
    left = gpus - sum(mask.bit_count() for mask in mine.values())
    for node, there in free.items():
        mask = _lowest(there, left)
        if mask:
            mine[node] = mine.get(node, 0) | mask
            free[node] &= ~mask
            left -= mask.bit_count()


def _lowest(mask: int, count: int) -> int:
    """Return the lowest bits of a mask, so many at most."""
    found = 0
    while mask and count > 0:
        bit = mask & -mask
        found |= bit
        mask ^= bit
        count -= 1
    return found


def _share(node: NodeName, mask: int, seat: Seat, of: ConfigurationSet) -> Share:
    """Return a share with what is beside its GPUs: nothing, if there is no place."""
    gpus = mask.bit_count() if seat.parts else 0
    return Share(
        node,
        mask,
        int(seat.cpus * gpus * 1000 + 1e-6) if of.cpus_milli else 0,
        int(seat.memory_gb * gpus * 1000 + 1e-6) if of.memory_mb else 0,
    )
