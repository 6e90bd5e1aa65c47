"""What a policy saw where decisions part: what is free, who waits, and how it ranks jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shunter.ask.replaying.instants import clock
from shunter.ask.replaying.promises import promise_basis
from shunter.ask.replaying.recorded_terms import Term
from shunter.ask.replaying.scores.words import measures_of, score_in_words
from shunter.core.ranking import RankedPolicy, Ranking
from shunter.core.ranking.ranking import NO_POOL, Entry, drift, rank_of
from shunter.core.state import Job, State
from shunter.core.view import Guards
from shunter.counting import counted, jobs_waiting
from shunter.events.facts.decisions import AllocationChanged, ReservationSet
from shunter.events.kinds import Event
from shunter.events.values.ids import JobId

QUEUE_NAMED = 5
RANKS_MOST = 12
SERVERS_MOST = 8


@dataclass(frozen=True)
class Rank:
    """How the policy ranks a job: its score, in words too, and its place.

    `position` is None for a job that has GPUs. `standing` says since when it has them or waits, and
    what keeps it there.
    """

    job_id: JobId
    score: tuple[int, ...]
    words: str
    position: int | None
    standing: str = ""


@dataclass(frozen=True)
class Seen:
    """What the policy saw at a point: GPUs free by type, who waits, and how it ranks.

    `queue` are the first that wait, in order; `ranks` those of the jobs that the decisions name.
    Both are empty where the policy keeps no ranking. `servers` says what is free on those that the
    decisions name, `promise` what a promise among them counts on.
    """

    free: Mapping[str, int]
    waiting: int
    placed: int
    queue: tuple[JobId, ...] = ()
    ranks: tuple[Rank, ...] = ()
    servers: tuple[str, ...] = ()
    promise: str = ""

    def lines(self) -> list[str]:
        """Return it in words, line by line."""
        free = ", ".join(counted(count, f"{name} GPU") for name, count in self.free.items())
        queue = f", first {', '.join(self.queue)}" if self.queue else ""
        jobs = f"{jobs_waiting(self.waiting)}{queue}; {self.placed} have GPUs"
        lines = [f"  view      {free or 'no GPUs'} free; {jobs}"]
        if self.servers:
            lines.append(f"  servers   {'; '.join(self.servers)}")
        for rank in self.ranks:
            place = "has GPUs" if rank.position is None else f"{rank.position} of {self.waiting}"
            words = f": {rank.words}" if rank.words else f", score {_numbers(rank.score)}"
            standing = f"; {rank.standing}" if rank.standing else ""
            lines.append(f"  rank      {rank.job_id} {place}{words}{standing}")
        if self.promise:
            lines.append(f"  promise   {self.promise}")
        return lines

    def document(self) -> dict[str, object]:
        """Return it as JSON-able data."""
        return {
            "free": dict(self.free),
            "waiting": self.waiting,
            "placed": self.placed,
            "queue": list(self.queue),
            "servers": list(self.servers),
            "promise": self.promise,
            "ranks": [
                {
                    "id": rank.job_id,
                    "score": list(rank.score),
                    "words": rank.words,
                    "position": rank.position,
                    "standing": rank.standing,
                }
                for rank in self.ranks
            ],
        }


def seen_at(term: Term, state: State, at_us: int, *events: Event | None) -> Seen:
    """Return what a policy sees in a state, and its ranks of some jobs."""
    free = {name: pool.gpus_free for name, pool in state.cluster.pools.items() if pool.gpus_up}
    ranking = term.memory
    placed = sum(1 for job in state.jobs.values() if job.allocation.shares)
    servers = _servers_of(state, events)
    if not isinstance(ranking, Ranking) or not isinstance(term.policy, RankedPolicy):
        waiting = sum(1 for job in state.jobs.values() if job.is_eligible)
        return Seen(free, waiting, placed, servers=servers)
    keys = sorted(key for each in ranking.classes for key in each.in_order)
    places = {ranking.entry_at(key).job_id: place for place, key in enumerate(keys, 1)}
    named = dict.fromkeys(
        job_id for event in events if (job_id := getattr(event, "job_id", None)) is not None
    )
    ranks = tuple(
        _rank_of(ranking.entries[job_id], term, state, at_us, places.get(job_id))
        for job_id in list(named)[:RANKS_MOST]
        if job_id in ranking.entries
    )
    is_promised = any(isinstance(each, ReservationSet) and each.start_us for each in events)
    promise = promise_basis(term.policy, state) if is_promised else ""
    return Seen(free, len(keys), placed, tuple(places)[:QUEUE_NAMED], ranks, servers, promise)


def _rank_of(entry: Entry, term: Term, state: State, at_us: int, position: int | None) -> Rank:
    policy = term.policy
    assert isinstance(policy, RankedPolicy), "only those have ranks"
    drifted = drift(at_us) if policy.index.drifts and entry.pool != NO_POOL else 0
    score = policy.numbers(rank_of(entry.key - drifted))
    used_gpu_us = state.jobs[entry.job_id].service_us(at_us)
    words = score_in_words(measures_of(policy), score, used_gpu_us)
    job = state.jobs[entry.job_id]
    standing = _standing_of(job, term.rules.guards, at_us)
    standing += _ranked_anew(entry, job, policy, term)
    return Rank(entry.job_id, score, words, position, standing)


def _ranked_anew(entry: Entry, job: Job, policy: RankedPolicy, term: Term) -> str:
    """Return that the memory of a policy has another rank than the policy gives now.

    Nothing is said where ranks change with time alone.
    """
    ranks = term.memory.ranks
    if ranks is None or policy.index.drifts or policy.index.wanders:
        return ""
    rank, _ = ranks.standing(job, term.view)
    if rank == rank_of(entry.key):
        return ""
    score = policy.numbers(rank)
    words = score_in_words(measures_of(policy), score, job.service_us(term.view.now_us))
    anew = f"it {words}" if words else f"its score is {_numbers(score)}"
    return f"; its memory is out of date: ranked anew {anew}"


def _numbers(score: Sequence[int]) -> str:
    return ", ".join(map(str, score))


def _servers_of(state: State, events: Sequence[Event | None]) -> tuple[str, ...]:
    """Return what is free on the servers that some facts give GPUs of, in words."""
    names = dict.fromkeys(
        share.node
        for event in events
        if isinstance(event, AllocationChanged)
        for share in event.allocation.shares
    )
    found = []
    for name in list(names)[:SERVERS_MOST]:
        server = state.cluster.servers.get(name)
        if server is not None:
            where = server.configuration
            free = state.cluster.pools[where.gpu_type].free[server.position].bit_count()
            found.append(f"{name} has {free} of {counted(where.gpus, 'GPU')} free")
    return tuple(found)


def _standing_of(job: Job, guards: Guards, at_us: int) -> str:
    """Return since when a job is there and has GPUs, priority and guard, in words."""
    told = f"submitted at {clock(job.submitted_us)}"
    if job.attempt_began_us is not None and job.allocation.shares:
        told += f", on its GPUs since {clock(job.attempt_began_us)}"
    if job.priority:
        told += f", priority {job.priority}"
    guard = guards.pinned_by(job, at_us)
    return told if guard is None else f"{told}, kept by {guard}"
