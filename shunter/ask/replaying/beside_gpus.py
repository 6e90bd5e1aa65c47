"""What a waiting job needs beside its GPUs, and what the servers have for it.

What counts is what planning looks at: with `policy.sizing` a job needs the share that it is
guaranteed, and others have no more than theirs, for what they have above it they give up, unless
their servers have refused that.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from shunter.ask.replaying.formatting import gpus_in_words
from shunter.core.cluster import Pool
from shunter.core.sizing import Sizing
from shunter.core.sizing.mechanism import Whole, counts_as_it_is, whole_of
from shunter.core.state import Job, State
from shunter.counting import counted
from shunter.events.values.ids import JobId, NodeName
from shunter.events.values.job_spec import Demand
from shunter.events.values.resources import Resources

SERVERS_NAMED = 4


@dataclass(frozen=True)
class Beside:
    """A job's need on the servers of one GPU type, and what these have for it.

    The servers are those with GPUs for it, the roomiest first. They are counted as if jobs that it
    may make leave had left (`counts_behind`: some would), and as if others had given up what they
    have above their shares (`counts_above`: some would).
    """

    needed: Resources
    servers: tuple[tuple[NodeName, Resources], ...]
    counts_behind: bool = False
    counts_above: bool = False

    def words(self) -> str:
        """Say what is needed and where how much there is."""
        gpus, needed = self.needed.gpus, self._named(self.needed)
        there = ", ".join(
            f"{node} has {self._named(has)}"
            + (f" beside {gpus_in_words(has.gpus)}" if gpus else "")
            for node, has in self.servers[:SERVERS_NAMED]
        )
        hidden = len(self.servers) - SERVERS_NAMED
        more = f" and {hidden} more" if hidden > 0 else ""
        each = f" ({self._named(self._each)} each)" if gpus > 1 else ""
        which = f" that it needs beside {'it' if gpus == 1 else 'them'}" if gpus else ""
        return f"the {needed}{which}{each}: {there or 'no server is up'}{more}{self._counted()}"

    def document(self) -> dict[str, object]:
        """Return the numbers by name."""
        return {
            "needed": _amounts(self.needed),
            "servers": [{"node": node, **_amounts(has)} for node, has in self.servers],
            "counts_jobs_behind": self.counts_behind,
            "counts_shares_above": self.counts_above,
        }

    @property
    def _each(self) -> Resources:
        gpus = self.needed.gpus
        return Resources(1, self.needed.cpus_milli // gpus, self.needed.memory_mb // gpus)

    def _named(self, has: Resources) -> str:
        """Return amounts of what is needed at all."""
        parts = []
        if self.needed.cpus_milli:
            parts.append(counted(has.cpus_milli / 1000, "CPU"))
        if self.needed.memory_mb:
            parts.append(f"{has.memory_mb} MB")
        return " and ".join(parts) or "nothing"

    def _counted(self) -> str:
        counted = [
            words
            for is_so, words in (
                (self.counts_behind, "jobs that it may preempt as gone"),
                (self.counts_above, "others at their shares"),
            )
            if is_so
        ]
        return f" (counting {' and '.join(counted)})" if counted else ""


def beside_of(
    demand: Demand,
    job: Job,
    state: State,
    sizing: Sizing | None,
    behind: Mapping[JobId, None],
) -> Beside | None:
    """Return what a job needs beside its GPUs where the most of these are for it.

    None: it needs nothing beside them.

    Args:
        demand: that of the job's class.
        job: which job.
        state: what is true.
        sizing: how the policy sizes jobs, if it does.
        behind: the running jobs that it may make leave.
    """
    pools = state.cluster.pools
    if not demand.gpus:
        return _in_pools(list(pools.values()), demand, job, state, sizing, behind)
    found = [
        each
        for name in demand.gpu_types or pools
        if name in pools
        if (each := _in_pools([pools[name]], demand, job, state, sizing, behind)) is not None
    ]
    return max(found, key=lambda each: sum(has.gpus for _, has in each.servers), default=None)


def _in_pools(
    pools: Sequence[Pool],
    demand: Demand,
    job: Job,
    state: State,
    sizing: Sizing | None,
    behind: Mapping[JobId, None],
) -> Beside | None:
    needed = demand.resources
    if sizing is not None and demand.gpus:
        each = sizing.guaranteed(job.spec, whole_of(*pools))
        needed = Resources(demand.gpus) + each.times(demand.gpus)
    if not needed.cpus_milli and not needed.memory_mb:
        return None
    wholes: dict[NodeName, Whole] = {}
    for pool in pools:
        wholes.update(dict.fromkeys([server.name for server in pool.servers], whole_of(pool)))
    has = {
        server.name: Resources(pool.free[server.position].bit_count())
        + pool.beside(server.position)
        for pool in pools
        for server in pool.servers
        if server.is_up
    }
    counts_behind = counts_above = False
    for other in state.jobs.values():
        for share in other.allocation.shares:
            if share.node not in has:
                continue
            if other.job_id in behind:
                mask = share.gpu_mask & ~state.cluster.servers[share.node].unavailable
                has[share.node] += Resources(mask.bit_count()) + share.beside
                counts_behind = True
            elif sizing is not None and share.gpus and not counts_as_it_is(sizing, other):
                fair = sizing.guaranteed(other.spec, wholes[share.node])
                above = share.beside - fair.times(share.gpus)
                has[share.node] += above
                counts_above = counts_above or above != Resources()
    return Beside(needed, tuple(_roomiest(has, demand)), counts_behind, counts_above)


def _roomiest(
    has: Mapping[NodeName, Resources], demand: Demand
) -> Iterator[tuple[NodeName, Resources]]:
    """Yield servers with GPUs for a job (all for one without), the roomiest first."""
    order = sorted(
        has.items(),
        key=lambda pair: (
            -min(pair[1].gpus, demand.gpus),
            -pair[1].cpus_milli,
            -pair[1].memory_mb,
            pair[0],
        ),
    )
    yield from (pair for pair in order if pair[1].gpus or not demand.gpus)


def _amounts(has: Resources) -> dict[str, object]:
    return {"gpus": has.gpus, "cpus": has.cpus_milli / 1000, "memory_mb": has.memory_mb}
