"""The first decision that came out otherwise: what was recorded, what was replayed, where.

Where the versions are the same, what the policy saw at that point and how it ranked the jobs in
question are the first hints, and whether the code is what it was.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass

from shunter import __version__
from shunter.app.code_digests import sources_of
from shunter.app.counting import counted, jobs_waiting
from shunter.app.replaying.formatting import fact_in_words
from shunter.app.replaying.instants import clock
from shunter.app.replaying.recorded_terms import Term
from shunter.app.replaying.scores import measures_of, score_in_words
from shunter.core.interfaces import AnyPolicy
from shunter.core.ranking import RankedPolicy, Ranking
from shunter.core.ranking.keys import drift, rank_of
from shunter.core.ranking.ranking import NO_POOL, Entry
from shunter.core.state import State
from shunter.errors import ReplayDivergenceError
from shunter.events.facts.run import SchedulerStarted
from shunter.events.kinds import Event
from shunter.events.values.ids import JobId

QUEUE_NAMED = 5


@dataclass(frozen=True)
class Rank:
    """How the policy ranks a job: its score, in words too, and its place.

    `position` is None for a job that has GPUs.
    """

    job_id: JobId
    score: tuple[int, ...]
    words: str
    position: int | None


@dataclass(frozen=True)
class Seen:
    """What the policy saw at a point: GPUs free by type, who waits, and how it ranks.

    `queue` are the first that wait, in order; `ranks` those of the jobs that the decisions name.
    It is empty where the policy keeps no ranking.
    """

    free: Mapping[str, int]
    waiting: int
    placed: int
    queue: tuple[JobId, ...] = ()
    ranks: tuple[Rank, ...] = ()

    def lines(self) -> list[str]:
        """Return it in words, line by line."""
        free = ", ".join(counted(count, f"{name} GPU") for name, count in self.free.items())
        queue = f", first {', '.join(self.queue)}" if self.queue else ""
        jobs = f"{jobs_waiting(self.waiting)}{queue}; {self.placed} have GPUs"
        lines = [f"  view      {free or 'no GPUs'} free; {jobs}"]
        for rank in self.ranks:
            place = "has GPUs" if rank.position is None else f"{rank.position} of {self.waiting}"
            score = ", ".join(map(str, rank.score))
            words = f": {rank.words}" if rank.words else ""
            lines.append(f"  rank      {rank.job_id} {place}, score {score}{words}")
        return lines

    def document(self) -> dict[str, object]:
        """Return it as JSON-able data."""
        return {
            "free": dict(self.free),
            "waiting": self.waiting,
            "placed": self.placed,
            "queue": list(self.queue),
            "ranks": [
                {
                    "id": rank.job_id,
                    "score": list(rank.score),
                    "words": rank.words,
                    "position": rank.position,
                }
                for rank in self.ranks
            ],
        }


def seen_at(term: Term, state: State, at_us: int, *events: Event | None) -> Seen:
    """Return what a policy sees in a state, and its ranks of some jobs."""
    free = {name: pool.gpus_free for name, pool in state.cluster.pools.items() if pool.gpus_up}
    ranking = term.memory
    placed = sum(1 for job in state.jobs.values() if job.allocation.shares)
    if not isinstance(ranking, Ranking) or not isinstance(term.policy, RankedPolicy):
        waiting = sum(1 for job in state.jobs.values() if job.is_eligible)
        return Seen(free, waiting, placed)
    keys = sorted(key for each in ranking.classes for key in each.in_order)
    places = {ranking.entry_at(key).job_id: place for place, key in enumerate(keys, 1)}
    named = dict.fromkeys(
        job_id for event in events if (job_id := getattr(event, "job_id", None)) is not None
    )
    ranks = tuple(
        _rank_of(ranking.entries[job_id], term.policy, state, at_us, places.get(job_id))
        for job_id in named
        if job_id in ranking.entries
    )
    return Seen(free, len(keys), placed, tuple(places)[:QUEUE_NAMED], ranks)


def _rank_of(
    entry: Entry, policy: RankedPolicy, state: State, at_us: int, position: int | None
) -> Rank:
    drifted = drift(at_us) if policy.index.drifts and entry.pool != NO_POOL else 0
    score = policy.numbers(rank_of(entry.key - drifted))
    used_gpu_us = state.jobs[entry.job_id].service_us(at_us)
    words = score_in_words(measures_of(policy), score, used_gpu_us)
    return Rank(entry.job_id, score, words, position)


@dataclass(frozen=True)
class Difference:
    """A field of a fact and its two values; no field where a fact stands alone."""

    field: str
    recorded: str
    replayed: str


@dataclass(frozen=True)
class Divergence:
    """Where recorded and replayed decisions part.

    `decision` counts the rounds of the log from 1, `seq` is the event that differs (or the one
    that stands where another was expected). `chain` is the hash over all frames up to its own.
    `seen` is what the policy saw there, `sources` the digests of the code that decided, where the
    log has them.
    """

    decision: int
    round_number: int
    seq: int
    at_us: int
    recorded: Event | None
    replayed: Event | None
    why: str
    started: SchedulerStarted
    policy: AnyPolicy
    chain: str = ""
    state_digest: str = ""
    seen: Seen | None = None
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def difference(self) -> Difference:
        """The first field that differs."""
        if self.recorded is None or self.replayed is None:
            return Difference("", shown(self.recorded), shown(self.replayed))
        return first_difference(self.recorded, self.replayed)

    def lines(self) -> list[str]:
        """Return the explanation, line by line."""
        started, policy, found = self.started, self.policy, self.difference
        where = f"e{self.seq}, {clock(self.at_us)}, round {self.round_number}"
        lines = [
            f"diverged at decision {self.decision} ({where}): {self.why}",
            f"  recorded  {fact_in_words(self.recorded)}",
            f"  replayed  {fact_in_words(self.replayed)}",
        ]
        if found.field:
            lines.append(
                f"  first differing field  {found.field}: {found.recorded} recorded, "
                f"{found.replayed} replayed"
            )
        rules = f"{started.policy} {started.policy_version} -> {policy.name} {policy.version}"
        lines.append(
            f"  inputs identical  yes: chain {self.chain[:16]}, state {self.state_digest[:16]}"
        )
        lines.append(f"  code  {started.version} -> {__version__}   policy  {rules}")
        lines += self._sources_in_words()
        return lines if self.seen is None else lines + self.seen.lines()

    def _sources_in_words(self) -> list[str]:
        """Return whether the code that decided is the code that is installed."""
        if not self.sources:
            return ["  source    not recorded with this term"]
        installed = sources_of(self.started.policy)
        lines = []
        for name, recorded in sorted(self.sources.items()):
            now = installed.get(name, "")
            same = "the same code" if now == recorded else "the code was changed"
            lines.append(f"  source    {name}: {same}, {recorded[:12]} -> {now[:12] or 'none'}")
        return lines

    def document(self) -> dict[str, object]:
        """Return the explanation as JSON-able data."""
        from shunter.events.schema import to_object

        found = self.difference
        return {
            "decision": self.decision,
            "round": self.round_number,
            "seq": self.seq,
            "at_us": self.at_us,
            "time": clock(self.at_us),
            "why": self.why,
            "recorded": None if self.recorded is None else to_object(self.recorded),
            "replayed": None if self.replayed is None else to_object(self.replayed),
            "field": found.field,
            "values": {"recorded": found.recorded, "replayed": found.replayed},
            "inputs_identical": True,
            "chain": self.chain,
            "state_digest": self.state_digest,
            "code": {"recorded": self.started.version, "replayed": __version__},
            "policy": {
                "name": self.started.policy,
                "recorded": self.started.policy_version,
                "replayed": self.policy.version,
            },
            "sources": {
                "recorded": dict(self.sources),
                "replayed": sources_of(self.started.policy),
            },
            "seen": None if self.seen is None else self.seen.document(),
        }

    def error(self) -> ReplayDivergenceError:
        """Return the error that says all this."""
        return ReplayDivergenceError("\n".join(self.lines()), self.seq)


def first_difference(recorded: Event, replayed: Event) -> Difference:
    """Return the first field in which two facts differ."""
    if type(recorded) is not type(replayed):
        return Difference("kind", type(recorded).__name__, type(replayed).__name__)
    for path, one, other in _differences("", recorded, replayed):
        return Difference(path, shown(one), shown(other))
    return Difference("", shown(recorded), shown(replayed))


def shown(value: object) -> str:
    """Return a value as it is written in an explanation."""
    return "nothing" if value is None else str(value)


def _differences(path: str, one: object, other: object) -> Iterator[tuple[str, object, object]]:
    """Yield the paths of the leaves that differ, with both values."""
    if one == other:
        return
    if is_dataclass(one) and type(one) is type(other):
        for each in fields(one):
            name = f"{path}.{each.name}" if path else each.name
            yield from _differences(name, getattr(one, each.name), getattr(other, each.name))
    elif isinstance(one, tuple) and isinstance(other, tuple):
        if len(one) != len(other):
            yield f"{path} (how many)", len(one), len(other)
        for i, (mine, theirs) in enumerate(zip(one, other, strict=False)):
            yield from _differences(f"{path}[{i}]", mine, theirs)
    else:
        yield path, one, other
