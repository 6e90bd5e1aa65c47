"""What holds of a state after every step, whoever decided what; each check names what broke."""

from shunter.core import LEAVING, Health, Job, JobPhase, Pool, Server, State
from shunter.events import Allocation, JobId, NodeName, Sharing

Owner = tuple[int, JobId, Sharing]


def check_state(state: State, *, may_be_displaced: bool = False) -> None:
    """Check all of it.

    Where jobs may be displaced, one that leaves may hold less than its gang, and nothing at all.
    """
    check_bitmaps(state)
    check_shares_of_gpus(state)
    check_resources(state)
    check_indexes(state)
    check_queues(state)
    for job in state.jobs.values():
        is_less = job.gpus < job.spec.gpus or not job.held.shares
        was_displaced = may_be_displaced and job.phase in LEAVING and is_less
        check_gang(job, state, was_displaced=was_displaced)
        if not (was_displaced and not job.held.shares):
            check_phase(job, state)
        else:
            assert job.since_us is not None, f"{job.job_id} has no attempt and is {job.phase}"
    promised = [job_id for job_id, job in state.jobs.items() if job.phase is JobPhase.granted]
    assert sorted(state.granted) == sorted(promised), "promises and granted jobs differ"
    check_grants(state)
    assert not any(job.outcome for job in state.jobs.values()), "a job has ended and has not"
    ended = state.submitted - len(state.jobs)
    assert sum(state.outcomes.values()) == ended, "a job has neither ended nor is it there"


def check_bitmaps(state: State) -> None:
    """Every GPU has one owner at most, or packed ones only, and the servers' bitmaps say so."""
    decided = owners([(job, job.allocation) for job in state.jobs.values()])
    held = owners([(job, job.held) for job in state.jobs.values()])
    for name, server in state.cluster.servers.items():
        for owned, bitmap in ((decided, server.decided), (held, server.held)):
            bits = {bit for node, bit in owned if node == name}
            assert sum(1 << bit for bit in bits) == bitmap, f"{name}: bitmap"
    for owned, tenants in ((decided, state.cluster.deciding), (held, state.cluster.holding)):
        for gpu, there in owned.items():
            alone = [job_id for _, job_id, sharing in there if sharing is Sharing.exclusive]
            assert len(there) == 1 or not alone, f"{gpu}: {alone} share it by mistake"
        shared = {
            gpu: sorted((ordinal, job_id) for ordinal, job_id, _ in there)
            for gpu, there in owned.items()
            if there[0][2] is not Sharing.exclusive
        }
        assert tenants.by_gpu == shared, "tenants"
        packed = [there for there in owned.values() if there[0][2] is Sharing.packed]
        surplus = sum(len(there) - 1 for there in packed)
        surplus += _turns_together(state) if tenants is state.cluster.holding else 0
        assert tenants.overcommit == surplus, "surplus"


def _turns_together(state: State) -> int:
    """Return how many GPUs jobs hold in turns that others of their pack hold as well."""
    packs = {tuple(sorted((job.job_id, *job.packed_with))) for job in state.jobs.values()}
    return sum(state.surplus(state.jobs[name] for name in pack) for pack in packs)


def check_shares_of_gpus(state: State) -> None:
    """Every GPU that is up is free, a job's, taken or quarantined, and counted once."""
    theirs = owners(
        [(job, what) for job in state.jobs.values() for what in (job.allocation, job.held)]
    )
    for name, pool in state.cluster.pools.items():
        free = 0
        for server in pool.servers:
            if server.health is not Health.up or server.drained:
                continue
            unavailable = [
                bit
                for bit in range(server.configuration.gpus)
                if (server.taken | server.quarantined) >> bit & 1
            ]
            jobs = {bit for node, bit in theirs if node == server.name}
            free += server.configuration.gpus - len(jobs.union(unavailable))
        on_leaving = sum(
            (server.held & server.offered).bit_count()
            for server in pool.servers
            if server.health is Health.up
        )
        assert pool.gpus_free - on_leaving == free, f"{name}: free GPUs"


def owners(placed: list[tuple[Job, Allocation]]) -> dict[tuple[NodeName, int], list[Owner]]:
    """Return who is on each GPU."""
    found: dict[tuple[NodeName, int], list[Owner]] = {}
    for job, what in placed:
        for share in what.shares:
            for bit in range(64):
                if share.gpu_mask >> bit & 1:
                    owner = (job.ordinal, job.job_id, what.sharing)
                    found.setdefault((share.node, bit), []).append(owner)
    return found


def check_resources(state: State) -> None:
    """CPUs and memory of every server are those it has less those it gave away."""
    for name, server in state.cluster.servers.items():
        given = [
            share
            for job in state.jobs.values()
            for share in job.allocation.shares
            if share.node == name
        ]
        where = server.configuration
        cpus = where.cpus_milli - sum(share.cpus_milli for share in given)
        memory = where.memory_mb - sum(share.memory_mb for share in given)
        if server.is_partly_taken:
            check_taken_beside(state, server, cpus, memory)
            continue
        assert server.beside_free.cpus_milli == cpus, f"{name}: CPUs"
        assert server.beside_free.memory_mb == memory, f"{name}: memory"
        assert 0 <= cpus <= where.cpus_milli, f"{name}: {cpus} CPUs are free"
        assert 0 <= memory <= where.memory_mb, f"{name}: {memory} MB are free"


def check_taken_beside(state: State, server: Server, cpus: int, memory: int) -> None:
    """What others hold is not free; below 0 are only those who have started where they are."""
    left = server.beside_free
    assert left.cpus_milli == cpus - server.taken_cpus_milli, f"{server.name}: CPUs"
    assert left.memory_mb == memory - server.taken_memory_mb, f"{server.name}: memory"
    for short, name in ((left.cpus_milli < 0, "cpus_milli"), (left.memory_mb < 0, "memory_mb")):
        for job in state.jobs.values():
            has_begun = job.phase in (JobPhase.running, JobPhase.ending) or (
                job.phase is JobPhase.launching and job.learned == job.attempt
            )
            assert (
                not short
                or has_begun
                or not any(
                    share.node == server.name and getattr(share, name)
                    for share in job.allocation.shares
                )
            ), f"{job.job_id} is to start where too little is left of {server.name}"


def check_indexes(state: State) -> None:
    """What a pool remembers of its servers is what they say."""
    for name, pool in state.cluster.pools.items():
        assert pool.free == [free_of(server) for server in pool.servers], f"{name}: free"
        assert pool.gpus_free == sum(mask.bit_count() for mask in pool.free), f"{name}: GPUs"
        assert pool.gpus_up == sum(up_of(server) for server in pool.servers), f"{name}: up"
        assert pool.buckets == buckets_of(pool), f"{name}: buckets"
        cpus = [server.beside_free.cpus_milli for server in pool.servers]
        assert pool.cpus_free == cpus, f"{name}: CPUs"
        memory = [server.beside_free.memory_mb for server in pool.servers]
        assert pool.memory_free == memory, f"{name}: memory"


def check_grants(state: State) -> None:
    """Granted jobs are found by what is released, in the order of their grants."""
    grants, cluster = state.grants, state.cluster
    assert grants.on(cluster.servers) == list(state.granted), "grants by server"
    for job_id in state.granted:
        shares = state.jobs[job_id].allocation.shares
        is_looked_at = job_id in grants.shared or any(each.node in cluster.freed for each in shares)
        assert is_looked_at or not cluster.is_released(shares), f"{job_id} could be launched"


def check_queues(state: State) -> None:
    """Every queue counts its jobs' GPUs, and none has more than its quota."""
    for name, queue in state.queues.items():
        jobs = [job for job in state.jobs.values() if job.spec.queue == name]
        assert queue.gpus == sum(job.allocation.gpus for job in jobs), f"{name}: GPUs"
        assert queue.quota_gpus is None or queue.gpus <= queue.quota_gpus, f"{name}: quota"


def check_gang(job: Job, state: State, *, was_displaced: bool) -> None:
    """A gang is whole, on GPUs of one type that it accepts, and shares them all or none."""
    for what in (job.allocation, job.held):
        if what.shares:
            is_whole = what.gpus == job.spec.gpus or (was_displaced and what is job.held)
            assert is_whole, f"{job.job_id}: half a gang"
            assert what.sharing is Sharing.exclusive or job.spec.gpus, f"{job.job_id}: no GPUs"
            types = types_of(what, state)
            demands = job.spec.gpu_types if job.spec.gpus else ()
            assert len(types) == 1 or not job.spec.gpus, f"{job.job_id}: {types}"
            assert not demands or types <= set(demands), f"{job.job_id}: {types}"


def check_phase(job: Job, state: State) -> None:
    """Each phase has its fields set, and no others (see docs/explanation/job-life.md)."""
    decided, held = bool(job.allocation.shares), bool(job.held.shares)
    expected = {
        JobPhase.waiting: (not decided and not held),
        JobPhase.granted: (decided and not held),
        JobPhase.launching: (held and job.allocation == job.held),
        JobPhase.running: (held and job.allocation == job.held),
        JobPhase.suspending: held,
        JobPhase.ending: held,
    }
    assert expected[job.phase], f"{job.job_id} is {job.phase}: {decided=} {held=}"
    assert (job.since_us is not None) == held, f"{job.job_id}: since when it holds"
    assert (job.waiting_since_us is None) == held, f"{job.job_id}: since when it waits"
    assert job.working_since_us is None or held, f"{job.job_id} works on nothing"
    in_turns = job.held.sharing is Sharing.sliced and not job.gpus
    assert job.gpus == job.held.gpus or in_turns, f"{job.job_id}: GPUs held"
    if job.phase is JobPhase.running:
        assert job.working_since_us is not None, f"{job.job_id} runs and does not work"
    if job.end_cause or job.exit_code is not None:
        assert job.phase is JobPhase.ending, f"{job.job_id} is to end and is {job.phase}"


def types_of(what: Allocation, state: State) -> set[str]:
    servers = state.cluster.servers
    return {str(servers[share.node].configuration.gpu_type) for share in what.shares}


def free_of(server: Server) -> int:
    if server.health is not Health.up or server.drained:
        return 0
    every = (1 << server.configuration.gpus) - 1
    return every & ~server.decided & ~server.quarantined & ~server.taken


def up_of(server: Server) -> int:
    if server.health is not Health.up or server.drained:
        return 0
    return server.configuration.gpus - (server.quarantined | server.taken).bit_count()


def buckets_of(pool: Pool) -> list[int]:
    counts = [mask.bit_count() for mask in pool.free]
    return [
        sum(1 << at for at, count in enumerate(counts) if count == free)
        for free in range(len(pool.buckets))
    ]


def down_nodes(what: Allocation, state: State) -> list[NodeName]:
    """Return the dead servers of an allocation."""
    return [
        share.node
        for share in what.shares
        if state.cluster.servers[share.node].health is Health.lost
    ]
