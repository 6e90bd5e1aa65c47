"""How a job ranks at the instant asked for: its rank, who holds what it needs, what is free.

Everything comes from the state at that very point, with the policy's own ranking of it, so it is
not what the last plan saw. Nothing is emitted, so nothing changes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from shunter.ask.recorded_terms import Rebuild
from shunter.ask.staged_terms import REMEMBERS, Term, term_on
from shunter.ask.waits import most_free, outlasts, promise_basis, told_apart
from shunter.ask.why.job_events import JobEvents
from shunter.ask.why.present import (
    NAMED,
    Beside,
    Group,
    Place,
    Planned,
    Present,
    Room,
    next_plan_of,
)
from shunter.core import (
    NO_GUARDS,
    WAITING,
    AnyPolicy,
    Job,
    JobPhase,
    Pool,
    State,
    View,
    is_by_limit,
)
from shunter.core.planning import RoundRules
from shunter.core.ranking import NO_POOL, Entry, RankedPolicy, Ranking, drift, rank_of
from shunter.core.sizing import Sizing, Whole, counts_as_it_is, whole_of
from shunter.events import Demand, JobId, NodeName, Reason, Resources, facts


def term_now(story: JobEvents, state: State, rebuild: Rebuild) -> tuple[Term | None, str]:
    """Return the policy begun anew on a state; or None, and why it cannot be asked."""
    term, problem = term_on(story.started, state, _with_all_reasons(rebuild))
    return term, f"its policy {problem}" if problem == REMEMBERS else problem


def _with_all_reasons(rebuild: Rebuild) -> Rebuild:
    def rebuilt(started: facts.SchedulerStarted) -> tuple[AnyPolicy, RoundRules]:
        policy, rules = rebuild(started)
        return policy, replace(rules, all_reasons=True)

    return rebuilt


def plan_again(story: JobEvents, state: State, term: Term | None, problem: str) -> Planned:
    """Ask a policy that stands on a state, at the round that follows or at once."""
    planned = Planned(state.seq, state.now_us, problem=problem)
    job = state.jobs.get(story.job_id)
    if job is None or term is None:
        planned.problem = problem or "the log does not say which policy decided"
        return planned
    last = story.last_round
    if last is not None and last.seq > state.seq:
        planned.at_us = last.at_us
    term.stand_before(planned.at_us)
    for fact in term.planner.decisions(planned.at_us, facts.Trigger.round):
        if isinstance(fact, facts.RoundPlanned):
            planned.problem = f"the policy fails: {fact.fault}" if fact.fault else ""
            told = {entry.demand: entry.wait for entry in fact.waits}
            planned.wait = told.get(demand_of(job, term))
        elif isinstance(fact, facts.WaitReasonChanged) and fact.job_id == job.job_id:
            planned.wait = fact.wait
        elif isinstance(fact, facts.AllocationChanged) and fact.job_id == job.job_id:
            planned.starts = bool(fact.allocation.shares)
            planned.leaves = not planned.starts
    planned.waits = job.phase is JobPhase.waiting
    return planned


def present_of(story: JobEvents, state: State, term: Term | None, problem: str) -> Present:
    """Return how a job stands in a state.

    Args:
        story: the job's, which says at which instant it is asked.
        state: what is true at the point asked for.
        term: the policy at work, on that state; None if it cannot be asked.
        problem: why it cannot be asked.
    """
    job = state.jobs[story.job_id]
    present = Present(state.seq, story.at_us, _needed(job), problem=problem)
    if term is None:
        present.gpus = Room(free=most_free(job, state))
        present.quota = _quota_left(job, state)
        present.beside = beside_of(job.demand, job, state, None, {})
        return present
    view = term.view
    view.now_us = story.at_us
    term.asked.advance(term.memory, view)
    ranking = term.memory if isinstance(term.memory, Ranking) else None
    if ranking is None:
        present.gpus = Room(free=most_free(job, state))
        present.quota = _quota_left(job, state)
    else:
        present.place = _place_of(job, ranking, term, state)
        _find_room(present, job, ranking, term, state)
    present.beside = _beside(job, ranking, term, state)
    present.pinned = _pinned(term, story.at_us)
    if job.phase is WAITING:
        present.starves_us = term.rules.guards.changes_at(job, story.at_us)
    present.promise_basis = promise_basis(term.policy, state)
    if present.gpus.free >= present.needed:
        present.outlasts = outlasts(term.policy, job, state, story.at_us)
    key = None if ranking is None else _key_of(job, ranking)
    _ask(present, job, term)
    if ranking is not None and key is not None:
        _name_first(present, key, ranking)
    return present


def demand_of(job: Job, term: Term) -> Demand:
    """Return the demand of the class in which a job waits."""
    ranking = term.memory
    entry = ranking.entries.get(job.job_id) if isinstance(ranking, Ranking) else None
    return job.waits_as if entry is None else ranking.classes[entry.number].demand


def _needed(job: Job) -> int:
    """Return how many GPUs a job needs at least, as its policy told."""
    wait, gpus = job.wait, job.demand.gpus
    is_told = wait is not None and wait.reason is Reason.no_capacity and wait.needed > 0
    return min(gpus, wait.needed) if wait is not None and is_told else gpus


def _ask(present: Present, job: Job, term: Term) -> None:
    """Plan at the next instant for a plan, and note what becomes of the job.

    If nobody starts or leaves then, ask for one plan more where a rank changes by itself: that is
    the next that there will be if nothing happens.
    """
    rules, at_us = term.rules, present.at_us
    if rules.round_us and not rules.backend_rounds:
        last_us = term.planner.state.round_number * rules.round_us
        at_us = max(rules.grid_at(at_us), last_us + rules.round_us)
    due_us = None
    if not rules.round_us and term.planner.state.now_us < at_us:  # nothing makes a plan due now
        due_us = term.asked.wake_at(term.memory)
    term.stand_before(at_us)
    wake_us = None if rules.backend_rounds else term.asked.wake_at(term.memory)
    decided, cluster = (
        term.planner.decisions(at_us, facts.Trigger.round),
        term.planner.state.cluster,
    )
    planned = next((fact for fact in decided if isinstance(fact, facts.RoundPlanned)), None)
    if planned is not None:
        present.problem = f"the policy fails: {planned.fault}" if planned.fault else ""
        demand = demand_of(job, term)
        wait = next((each.wait for each in planned.waits if each.demand == demand), None)
        own = (fact for fact in decided if isinstance(fact, facts.WaitReasonChanged))
        wait = next((fact.wait for fact in own if fact.job_id == job.job_id), wait)
        if wait is not None:
            wait = replace(wait, reason=told_apart(wait, job.spec.gpu_types, cluster))
        present.wait = wait
    present.next_plan = next_plan_of(at_us, decided, cluster)
    if rules.decentralised is not None:
        return  # what it proposes next depends on the view that it gets, and may be rejected
    is_idle = not any(isinstance(fact, facts.AllocationChanged) for fact in decided)
    if is_idle and wake_us is not None and wake_us > at_us:  # what was due by then has been planned
        at_us = rules.grid_at(wake_us)
        term.stand_before(at_us)
        decided = term.planner.decisions(at_us, facts.Trigger.round)
        present.next_plan = next_plan_of(at_us, decided, cluster)
    for fact in decided:
        if isinstance(fact, facts.AllocationChanged) and fact.job_id == job.job_id:
            starts_us = at_us if due_us is None else max(at_us, due_us)
            present.starts_us = starts_us if fact.allocation.shares else None


def _place_of(job: Job, ranking: Ranking, term: Term, state: State) -> Place | None:
    """Return where a job stands among those that wait, if it is one of them."""
    mine = ranking.entries.get(job.job_id)
    if mine is None or mine.pool != NO_POOL:
        return None
    keys = sorted(key for waiting in ranking.classes for key in waiting.in_order)
    ahead = [ranking.entry_at(key) for key in keys if key < mine.key]
    rank = rank_of(mine.key)
    policy = term.policy
    score = policy.numbers(rank) if isinstance(policy, RankedPolicy) else (rank,)
    staying = [each for each in _running(ranking) if each.gpus and _stays(each, mine, term)]
    return Place(
        len(ahead) + 1,
        len(keys),
        score,
        tuple(entry.job_id for entry in ahead[:NAMED]),
        _group(ahead, state, term.view.now_us),
        _group(staying, state, term.view.now_us),
    )


def _find_room(present: Present, job: Job, ranking: Ranking, term: Term, state: State) -> None:
    """Note what a job finds free, what it may take, and who keeps the rest."""
    mine = ranking.entries.get(job.job_id)
    if mine is None:
        present.gpus = Room(free=most_free(job, state))
        return
    pools = term.view.pools
    rooms = [
        _room(pools[name].gpus_free, mine, _running(ranking, name), term)
        for name in job.demand.gpu_types or pools
        if name in pools
    ]
    present.gpus = max(rooms, key=lambda room: room.free + room.behind, default=Room())
    names = _last_of([key for room in rooms for key in room.staying], ranking)
    admitted = _admitted_before(mine, ranking, state)
    near = [entry for entry in admitted if _share_types(state.jobs[entry.job_id], job)]
    present.gpus = replace(
        present.gpus,
        holders=names,
        kept=sum(entry.gpus for entry in near),
        kept_for=tuple(entry.job_id for entry in near),
    )
    if job.spec.queue in ranking.quotas:
        free = max(0, term.view.quota_free(job.spec.queue))
        own = [
            entry
            for entry in _running(ranking)
            if state.jobs[entry.job_id].spec.queue == job.spec.queue
        ]
        behind = sum(entry.gpus for entry in own if not _stays(entry, mine, term))
        staying = tuple(entry.key for entry in own if _stays(entry, mine, term))
        queue = job.spec.queue
        admitted = [each for each in admitted if state.jobs[each.job_id].spec.queue == queue]
        kept = min(free, sum(entry.gpus for entry in admitted))
        names = tuple(entry.job_id for entry in admitted) if kept else ()
        holders = (*names, *_last_of(staying, ranking))
        present.quota = Room(free - kept, behind, staying, holders, kept, names)


def _admitted_before(mine: Entry, ranking: Ranking, state: State) -> list[Entry]:
    """Return the jobs before this one that may start and wait still."""
    found = [ranking.entries.get(job_id) for job_id in state.proposals.admitted]
    return [
        entry
        for entry in found
        if entry is not None and entry.pool == NO_POOL and entry.key < mine.key
    ]


def _share_types(one: Job, other: Job) -> bool:
    """Say whether two jobs accept some GPU type both."""
    types = one.demand.gpu_types, other.demand.gpu_types
    return not all(types) or bool(set(types[0]) & set(types[1]))


def _quota_left(job: Job, state: State) -> Room | None:
    """Return what its queue has left of its quota, if it has one."""
    queue = state.queues.get(job.spec.queue)
    if queue is None or queue.quota_gpus is None:
        return None
    return Room(free=max(0, queue.quota_gpus - queue.gpus))


def _beside(job: Job, ranking: Ranking | None, term: Term, state: State) -> Beside | None:
    """Return what a job needs beside its GPUs, and what servers have for it."""
    sizing = term.policy.sizing if isinstance(term.policy, RankedPolicy) else None
    mine = None if ranking is None else ranking.entries.get(job.job_id)
    there = [] if ranking is None or mine is None else _running(ranking)
    behind = {
        entry.job_id: None for entry in there if mine is not None and not _stays(entry, mine, term)
    }
    sizing = None if sizing is None else sizing.corrected(state.corrections)
    return beside_of(demand_of(job, term), job, state, sizing, behind)


def _room(free: int, mine: Entry, there: Sequence[Entry], term: Term) -> Room:
    """Return what is free in a place, what may be taken there, and who stays."""
    state = term.planner.state
    behind = sum(_given_back(entry, state) for entry in there if not _stays(entry, mine, term))
    staying = tuple(entry.key for entry in there if _stays(entry, mine, term))
    return Room(free, behind, staying)


def _name_first(present: Present, key: int, ranking: Ranking) -> None:
    """Name the waiting job that others must not overtake, if it is before."""
    wait = present.wait
    head = None if wait is None or not wait.blockers else ranking.entries.get(wait.blockers[0])
    if head is None or head.pool != NO_POOL or head.key >= key:
        return
    present.gpus = _with_first(present.gpus, head.job_id)
    if present.quota is not None:
        present.quota = _with_first(present.quota, head.job_id)


def _with_first(room: Room, job_id: JobId) -> Room:
    return replace(room, holders=(job_id, *room.holders))


def _last_of(keys: Iterable[int], ranking: Ranking) -> tuple[JobId, ...]:
    """Return the jobs that rank last, the last one first."""
    return tuple(ranking.entry_at(key).job_id for key in sorted(keys, reverse=True))


def _key_of(job: Job, ranking: Ranking) -> int | None:
    mine = ranking.entries.get(job.job_id)
    return None if mine is None else mine.key


def _running(ranking: Ranking, pool: str | None = None) -> list[Entry]:
    """Return the jobs with GPUs, of one type if it is named."""
    return [
        entry
        for entry in ranking.entries.values()
        if entry.pool != NO_POOL and pool in (None, entry.pool)
    ]


def _given_back(entry: Entry, state: State) -> int:
    """Return how many GPUs others may have once a job has left."""
    servers = state.cluster.servers
    return sum(
        (share.gpu_mask & ~servers[share.node].unavailable).bit_count()
        for share in state.jobs[entry.job_id].allocation.shares
        if servers[share.node].is_up
    )


def _stays(entry: Entry, mine: Entry, term: Term) -> bool:
    """Say whether a waiting job cannot make one with GPUs leave."""
    index = term.policy.index if isinstance(term.policy, RankedPolicy) else None
    if index is None or not index.preemptive:
        return True
    key = mine.key + (drift(term.view.now_us) if index.drifts else 0)
    return entry.key < key


def _group(entries: Iterable[Entry], state: State, now_us: int) -> Group:
    view = View(state, NO_GUARDS, oracle=True, all_reasons=False)
    view.open()
    view.now_us = now_us
    jobs = gpus = left_gpu_us = unknown = limited = 0
    for entry in entries:
        job = state.jobs[entry.job_id]
        left_us = view.remaining_us(job)
        limited += left_us is not None and is_by_limit(job, state)
        jobs, gpus = jobs + 1, gpus + entry.gpus
        unknown += left_us is None
        left_gpu_us += (left_us or 0) * entry.gpus
    return Group(jobs, gpus, left_gpu_us, unknown, limited)


def _pinned(term: Term, at_us: int) -> tuple[tuple[JobId, int], ...]:
    """Return the jobs a guard keeps in place and until when, soonest first."""
    guards = term.rules.guards
    found: list[tuple[int, int, JobId]] = []
    for job in term.view.jobs.values():
        if guards.pinned_by(job, at_us) is not None:
            until_us = guards.changes_at(job, at_us)
            if until_us is not None:
                found.append((until_us, job.ordinal, job.job_id))
    return tuple((job_id, until_us) for until_us, _, job_id in sorted(found)[:NAMED])


# What a waiting job needs besides GPUs, by the rules of planning: with `policy.sizing` it needs its
# guaranteed share, and others give up what they have above theirs, unless their servers refused.


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
