"""The first decision that came out otherwise: what was recorded, what was replayed, where.

Where the versions are the same, the first hints are what the policy saw, how it ranked the jobs in
question, and whether the code is the same.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass

from shunter import __version__
from shunter.ask.recorded_terms import config_of
from shunter.ask.scores import measures_of, score_in_words, score_of
from shunter.ask.staged_terms import Term
from shunter.ask.waits import promise_basis
from shunter.ask.words import clock, fact_in_words, first_of, stamp
from shunter.core import AnyPolicy, Guards, Job, State
from shunter.core.ranking import NO_POOL, Entry, Measure, RankedPolicy, Ranking, drift, rank_of
from shunter.counting import counted, jobs_waiting
from shunter.errors import ReplayDivergenceError
from shunter.events import Event, JobId, facts
from shunter.run import sources_of

ROWS_MOST = 8
"""So many jobs are shown with both answers."""

NOTHING = "nothing"

Given = Mapping[JobId, facts.AllocationChanged]


@dataclass(frozen=True)
class Answers:
    """What was recorded of a decision and what is decided now, its round first."""

    recorded: tuple[Event, ...] = ()
    replayed: tuple[Event, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is a decision at all."""
        return bool(self.recorded or self.replayed)

    def nature(self) -> str:
        """Return what differs, by what a policy decides in."""
        if not self.replayed:
            return "when it decides: no round is due here, and one was recorded"
        if not self.recorded:
            return "when it decides: a round is due here, and none was recorded"
        before, after = _given(self.recorded), _given(self.replayed)
        for what, chosen in _PARTS:
            mine, theirs = chosen(before), chosen(after)
            if mine != theirs:
                only = [*_only(mine, theirs, "recorded"), *_only(theirs, mine, "replayed")]
                return f"{what}{': ' if only else ''}{'; '.join(only)}"
        if [each for each in before if each in after] != list(after):
            return "the order of its changes, which are the same"
        return "what it says of why jobs wait, or of the round; its changes are the same"

    def lines(self, in_words: Callable[[Event], str] = fact_in_words) -> list[str]:
        """Return both side by side, a job a line, those that differ.

        Where `in_words` says the same of both, the numbers of the scores are told.
        """
        before, after = (_by_job(each, fact_in_words) for each in (self.recorded, self.replayed))
        words, others = (_by_job(each, in_words) for each in (self.recorded, self.replayed))
        jobs = list(dict.fromkeys((*before, *after)))
        differing = [job for job in jobs if before.get(job) != after.get(job)]
        rows = [
            (job, one.get(job) or NOTHING, two.get(job) or NOTHING)
            for job in differing[:ROWS_MOST]
            for one, two in [
                (words, others) if words.get(job) != others.get(job) else (before, after)
            ]
        ]
        same = len(jobs) - len(differing)
        lines = [f"  differs   {self.nature()}"]
        if rows:
            rows.insert(0, ("job", "recorded", "replayed"))
            widths = [max(len(row[place]) for row in rows) for place in (0, 1)]
            lines += [
                f"  {name:<9} {job:<{widths[0]}}  {one:<{widths[1]}}  {two}"
                for name, (job, one, two) in zip(("answers", *[""] * len(rows)), rows, strict=False)
            ]
        hidden = len(differing) - ROWS_MOST
        if hidden > 0:
            lines.append(f"  {'':<9} and {hidden} more that differ")
        if same:
            lines.append(f"  {'':<9} the same for {counted(same, 'job')}")
        return lines

    def document(self) -> dict[str, object]:
        """Return both as JSON-able data."""
        from shunter.events import to_object

        return {
            "nature": self.nature(),
            "recorded": [to_object(each) for each in self.recorded],
            "replayed": [to_object(each) for each in self.replayed],
        }


NO_ANSWERS = Answers()


def differing_term(
    recorded: Event | None, replayed: Event | None, measures: Sequence[Measure]
) -> str:
    """Return which number of a score differs, in words; "" where none does.

    Args:
        recorded: a change with its score.
        replayed: the same change, as it is decided now.
        measures: what the numbers of a score count; may be empty.
    """
    if (
        type(recorded) is not facts.AllocationChanged
        or type(replayed) is not facts.AllocationChanged
    ):
        return ""
    mine, theirs = recorded.because, replayed.because
    if recorded.job_id != replayed.job_id or mine.rule != theirs.rule:
        return ""
    for place, (one, two) in enumerate(zip(mine.scores, theirs.scores, strict=False)):
        if one != two:
            name = (
                f"{measures[place].value} of" if place < len(measures) else f"number {place + 1} of"
            )
            return f"{name} {recorded.job_id}: {one} recorded, {two} replayed"
    if recorded.allocation != replayed.allocation and mine == theirs:
        return f"none: {recorded.job_id} has the same score, and other GPUs"
    return ""


def term_in_words(started: facts.SchedulerStarted) -> str:
    """Return who decided in a term, with parameters, placement, rounds and guards."""
    name = f"{started.policy} {started.policy_version}"
    config = config_of(started)
    section = config.get("policy")
    if not isinstance(section, dict):
        return name
    params = section.get("params", {}).get(started.policy, {})
    parts = [name, *(f"{key} = {json.dumps(value)}" for key, value in sorted(params.items()))]
    parts.append(f"placement {section.get('placement')}")
    trigger = section.get("trigger")
    every = f" of {section.get('round')}" if trigger == "round" else ""
    parts.append(f"plans by {trigger}{every}")
    guards = sorted(section.get("guards", {}).items())
    parts += [f"guards.{key} = {value}" for key, value in guards if value not in (None, "0s")]
    parts.append(f"seed {config.get('seed')}")
    return ", ".join(parts)


def _given(events: Sequence[Event]) -> Given:
    return {each.job_id: each for each in events if type(each) is facts.AllocationChanged}


_PARTS: Sequence[tuple[str, Callable[[Given], Mapping[JobId, object]]]] = (
    (
        "which jobs get GPUs, by its order and by what it holds to fit",
        lambda given: {job: None for job, each in given.items() if each.allocation.shares},
    ),
    (
        "which jobs leave, by its order, its guards and whether it preempts",
        lambda given: {job: None for job, each in given.items() if not each.allocation.shares},
    ),
    (
        "where jobs are placed, which are the same jobs",
        lambda given: {job: each.allocation for job, each in given.items()},
    ),
    (
        "why the same is done: rule or score",
        lambda given: {job: each.because for job, each in given.items()},
    ),
)


def _only(mine: Mapping[JobId, object], theirs: Mapping[JobId, object], who: str) -> list[str]:
    """Return the jobs of one answer alone, in words."""
    jobs = [job for job in mine if job not in theirs]
    return [f"only {who} {first_of(jobs, ROWS_MOST)}"] if jobs else []


def _by_job(events: Sequence[Event], in_words: Callable[[Event], str]) -> dict[str, str]:
    """Return what is said of each job in words, and of the round itself."""
    found: dict[str, list[str]] = {}
    for each in events:
        key = "round" if type(each) is facts.RoundPlanned else str(getattr(each, "job_id", "-"))
        found.setdefault(key, []).append(in_words(each))
    return {key: "; ".join(words) for key, words in found.items()}


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
    is_promised = any(isinstance(each, facts.ReservationSet) and each.start_us for each in events)
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
        if isinstance(event, facts.AllocationChanged)
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


SAME_AGAIN = "the log was gone through once more, with the same answer"
OTHER_AGAIN = (
    "the log was gone through once more, with another answer: the policy goes by something that is "
    "not in the log, such as a clock or chance of its own"
)


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
    log has them. `answers` are the whole decision, as far as there is one: it begins with the event
    `answer_seq`; None: none is recorded. `repeats` says whether a second way through the log came
    to the same; None: nobody went it. `used_gpu_us` is what jobs had used of GPUs by then.
    """

    decision: int
    round_number: int
    seq: int
    at_us: int
    recorded: Event | None
    replayed: Event | None
    why: str
    started: facts.SchedulerStarted
    policy: AnyPolicy
    chain: str = ""
    state_digest: str = ""
    seen: Seen | None = None
    term: int = 0
    answer_seq: int | None = None
    answers: Answers = NO_ANSWERS
    repeats: bool | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    used_gpu_us: Mapping[JobId, int] = field(default_factory=dict)

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
            f"  recorded  {self._in_words(self.recorded)}",
            f"  replayed  {self._in_words(self.replayed)}",
        ]
        if found.field:
            lines.append(
                f"  first differing field  {found.field}: {found.recorded} recorded, "
                f"{found.replayed} replayed"
            )
        counted_by = measures_of(policy)
        if term := differing_term(self.recorded, self.replayed, counted_by):
            lines.append(f"  first differing term   {term}")
        if self.answers:
            lines += self.answers.lines(self._in_words)
        lines.append(f"  term      {self.term}: {term_in_words(started)}")
        rules = f"{started.policy} {started.policy_version} -> {policy.name} {policy.version}"
        lines.append(
            f"  inputs identical  yes: chain {self.chain[:16]}, state {self.state_digest[:16]}"
        )
        lines.append(f"  code  {started.version} -> {__version__}   policy  {rules}")
        lines += self._sources_in_words()
        if self.repeats is not None:
            lines.append(f"  again     {SAME_AGAIN if self.repeats else OTHER_AGAIN}")
        return lines if self.seen is None else lines + self.seen.lines()

    def _in_words(self, event: Event | None) -> str:
        return fact_in_words(event, score_of(event, measures_of(self.policy), self.used_gpu_us))

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
        from shunter.events import to_object

        found = self.difference
        return {
            "decision": self.decision,
            "round": self.round_number,
            **stamp(self.seq, self.at_us),
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
            "term": {"number": self.term, "words": term_in_words(self.started)},
            "repeats": self.repeats,
            "answers": self.answers.document() if self.answers else None,
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
