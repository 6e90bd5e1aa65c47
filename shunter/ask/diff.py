"""Where two runs part and why, and what came of it.

    two logs ─▶ their steps ─▶ the first decision that differs ─▶ what each policy saw there
            └─▶ what became of each job ─▶ how much later or earlier it ended

`diff_logs` compares two logs, and a `LogDiff` says all of it as one document.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any, Final

from shunter.ask.divergence import Seen, first_difference, seen_at
from shunter.ask.log_reading import Advance, last_up_to, state_at
from shunter.ask.recorded_terms import Began, Rebuild, config_of, last_start, terms_up_to
from shunter.ask.run_history import RunHistory, run_history
from shunter.ask.scores import measures_at, measures_in, measures_of_terms, score_of, used_by_jobs
from shunter.ask.staged_terms import REMEMBERS, Term, takes_notes, term_on
from shunter.ask.told_terms import told_term
from shunter.ask.words import clock, fact_in_words, resources_in_words
from shunter.core import JobResult, State, distribution, percentile
from shunter.core.fold import SET_ASIDE
from shunter.core.ranking import Measure
from shunter.errors import ConfigError, NotFoundError, UsageError
from shunter.events import (
    CLASSES,
    SOLVED,
    Allocation,
    Event,
    FactClass,
    JobId,
    Resources,
    Sharing,
    class_of,
    facts,
    to_object,
)
from shunter.events.log import LogReader
from shunter.run import MEASURES, value_of

# A log as the instants at which something was decided, or came from outside. Only effects of
# decisions are compared, not their reasons, and not what follows from facts by itself.

_EFFECTS: Final[Mapping[type[Event], Callable[[Any], Hashable]]] = {
    facts.AllocationChanged: lambda event: (event.job_id, event.allocation),
    facts.JobReshaped: lambda event: (event.job_id, event.allocation),
    facts.JobResized: lambda event: (event.job_id, event.gpus),
    facts.ReservationSet: lambda event: (event.job_id, event.start_us, event.gpus),
    facts.TrialStarted: lambda event: (event.job_id, event.trial, event.partners),
    facts.TrialKept: lambda event: (event.job_id, event.trial),
    facts.TrialReverted: lambda event: (event.job_id, event.trial),
}
"""What each kind of decision does, apart from why."""

_ROUNDS = frozenset((facts.RoundPlanned, *SOLVED))
_OF_RUNS = frozenset(
    (
        facts.SchedulerStarted,
        facts.ConfigChanged,
        facts.ClockStepped,
        facts.EventsLost,
        facts.SegmentSealed,
    )
)
_OUTSIDE = (FactClass.observed, FactClass.commanded)
_INPUTS = frozenset(
    kind
    for kind, known in CLASSES.items()
    if kind not in (*_OF_RUNS, facts.SchedulerStopped)
    if any(each in _OUTSIDE for each in (known.usual, *known.others.values()))
)


@dataclass(frozen=True, slots=True)
class Fact:
    """An event with its number, and that of the round it came of, or its own."""

    seq: int
    event: Event
    round_seq: int

    @property
    def effect(self) -> Hashable:
        """What it does, apart from why."""
        return effect_of(self.event)


@dataclass(slots=True)
class Step:
    """An instant: inputs before its first round, decisions, inputs after that."""

    at_us: int
    before: list[Fact] = field(default_factory=list)
    decided: list[Fact] = field(default_factory=list)
    after: list[Fact] = field(default_factory=list)

    @property
    def inputs(self) -> list[Fact]:
        """All that came from outside."""
        return [*self.before, *self.after]


def effect_of(event: Event) -> Hashable:
    """Return what a decision does: a key that is equal for equal effects."""
    kind = type(event)
    return kind.__name__, _EFFECTS[kind](event)


def is_input(event: Event) -> bool:
    """Say whether something came from outside."""
    return type(event) in _INPUTS and class_of(event) in _OUTSIDE


async def steps(reader: LogReader, advance: Advance | None = None) -> AsyncIterator[Step]:
    """Yield the instants at which something was decided or came from outside.

    Raises:
        LogDamagedError: the bytes are not what was written.
    """
    head = await reader.head()
    step, seq, round_seq = Step(-1), 0, 0
    async for frame in reader.frames(0, head.seq):
        seq = frame.first_seq
        for event in frame.events():
            kind = type(event)
            if event.at_us != step.at_us:
                if step.decided or step.before or step.after:
                    yield step
                step, round_seq = Step(event.at_us), 0
            if kind in _ROUNDS:
                round_seq = seq
            elif kind in _EFFECTS and class_of(event) is FactClass.decided:
                step.decided.append(Fact(seq, event, round_seq or seq))
            elif is_input(event):
                (step.after if round_seq else step.before).append(Fact(seq, event, seq))
            seq += 1
        if advance is not None:
            advance(seq - 1, head.seq)
    if step.decided or step.before or step.after:
        yield step


#     A  instant ──▶ instant ──▶ instant ──▶ …      the same inputs? the same effects?
#     B  instant ──▶ instant ──▶ instant ──▶ …      the first that are not: there they part
#
# An instant's decisions are compared as a whole: the order within a round makes no difference.


@dataclass(frozen=True)
class FactPair:
    """Facts of one instant that differ; None: that log has no such fact there.

    They are inputs, or one decision with two reasons.
    """

    at_us: int
    a: Fact | None
    b: Fact | None


@dataclass(frozen=True)
class Parted:
    """The first instant at which the logs decide otherwise.

    `only_a` are the decisions there that B has not, `only_b` those that A has not. `ended` is the
    log that has ended before: "a", "b", or neither.
    """

    at_us: int
    only_a: Sequence[Fact]
    only_b: Sequence[Fact]
    ended: str

    @property
    def a(self) -> Fact | None:
        """The first of A; None: it decides nothing of the kind there."""
        return self.only_a[0] if self.only_a else None

    @property
    def b(self) -> Fact | None:
        """The first of B, if it can be of the job of A's first."""
        first = self.a
        if first is not None:
            job_id = getattr(first.event, "job_id", None)
            for fact in self.only_b:
                if getattr(fact.event, "job_id", None) == job_id:
                    return fact
        return self.only_b[0] if self.only_b else None


@dataclass(frozen=True)
class Parting:
    """How far two logs are alike, and what differs first.

    `other_input` came from outside in one of them only; `other_reason` is a decision with the same
    effect for another reason.
    """

    decisions_alike: int
    inputs_alike: int
    parted: Parted | None
    other_input: FactPair | None
    other_reason: FactPair | None


async def first_parting(a: LogReader, b: LogReader, advance: Advance | None = None) -> Parting:
    """Find the first decision in which two logs differ.

    Raises:
        LogDamagedError: the bytes of one are not what was written.
    """
    decisions = inputs = 0
    other_input: FactPair | None = None
    other_reason: FactPair | None = None
    async for mine, theirs, ended in _aligned(steps(a, advance), steps(b)):
        at_us = mine.at_us
        other_input = other_input or _other_input(at_us, mine.before, theirs.before)
        only_a = _without(mine.decided, theirs.decided)
        only_b = _without(theirs.decided, mine.decided)
        if only_a or only_b:
            parted = Parted(at_us, only_a, only_b, ended)
            return Parting(decisions, inputs, parted, other_input, other_reason)
        other_input = other_input or _other_input(at_us, mine.after, theirs.after)
        other_reason = other_reason or _other_reason(at_us, mine.decided, theirs.decided)
        decisions += len(mine.decided)
        inputs += 0 if other_input is not None else len(mine.before) + len(mine.after)
    return Parting(decisions, inputs, None, other_input, other_reason)


async def _aligned(
    a: AsyncIterator[Step], b: AsyncIterator[Step]
) -> AsyncIterator[tuple[Step, Step, str]]:
    """Yield what both logs have at each instant, and which has ended by then."""
    mine, theirs = await anext(a, None), await anext(b, None)
    while mine is not None or theirs is not None:
        at_us = min(each.at_us for each in (mine, theirs) if each is not None)
        one = mine if mine is not None and mine.at_us == at_us else Step(at_us)
        two = theirs if theirs is not None and theirs.at_us == at_us else Step(at_us)
        yield one, two, "a" if mine is None else "b" if theirs is None else ""
        mine = await anext(a, None) if one is mine else mine
        theirs = await anext(b, None) if two is theirs else theirs


def _without(mine: Sequence[Fact], theirs: Sequence[Fact]) -> list[Fact]:
    """Return the decisions of one log that the other has not, in their order."""
    there: Counter[Hashable] = Counter(fact.effect for fact in theirs)
    left = []
    for fact in mine:
        effect = fact.effect
        if there[effect]:
            there[effect] -= 1
        else:
            left.append(fact)
    return left


def _other_input(at_us: int, a: Sequence[Fact], b: Sequence[Fact]) -> FactPair | None:
    if [fact.event for fact in a] == [fact.event for fact in b]:
        return None
    mine, theirs = (frozenset(fact.event for fact in side) for side in (a, b))
    only_a = [fact for fact in a if fact.event not in theirs]
    only_b = [fact for fact in b if fact.event not in mine]
    if not only_a and not only_b:
        return None  # the same ones in another order, or so many of them
    return FactPair(at_us, next(iter(only_a), None), next(iter(only_b), None))


def _other_reason(at_us: int, a: Sequence[Fact], b: Sequence[Fact]) -> FactPair | None:
    """Return the first decision of A that B made for other reasons."""
    if [fact.event for fact in a] == [fact.event for fact in b]:
        return None
    by_effect = {fact.effect: fact for fact in b}
    for fact in a:
        other = by_effect[fact.effect]
        if other.event != fact.event:
            return FactPair(at_us, fact, other)
    return None


# Jobs are paired by their ids; one with another owner, name or number of GPUs there is left out.

_MEASURES_COMPARED = (*MEASURES, "finish_time_fairness.mean")


@dataclass(frozen=True)
class JobDelta:
    """One job in both runs.

    `delta_us` is how much longer it took in B than in A; None where it did not finish in both.
    """

    a: JobResult
    b: JobResult
    name: str
    delta_us: int | None

    def document(self) -> dict[str, object]:
        """Return it as JSON-able data."""
        delta_us = self.delta_us
        return {
            "id": self.a.job_id,
            "name": self.name,
            "user": self.a.user,
            "gpus": self.a.gpus,
            "delta_s": None if delta_us is None else delta_us / 1e6,
            **{side: _outcome(result) for side, result in (("a", self.a), ("b", self.b))},
        }


@dataclass(frozen=True)
class Outcomes:
    """Both runs, job by job.

    `deltas` are the jobs that finished in both, the one that B served worst first. `others` counts
    ids that are of one log alone or of different jobs.
    """

    a: RunHistory
    b: RunHistory
    deltas: Sequence[JobDelta]
    ended_otherwise: Sequence[JobDelta]
    others: Mapping[str, int]
    places: Mapping[str, int]

    def measures(self) -> list[dict[str, object]]:
        """Return each measure of both runs and the difference of B to A."""
        documents = self.a.document(), self.b.document()
        rows: list[dict[str, object]] = []
        for name in _MEASURES_COMPARED:
            one, two = (value_of(document, name) for document in documents)
            known = one is not None and two is not None
            difference = two - one if known else None  # type: ignore[operator]  # both are known
            rows.append({"name": name, "a": one, "b": two, "difference": difference})
        return rows

    def jobs(self, most: int) -> dict[str, Any]:
        """Return how jobs fared in B beside A, and so many that lost or gained most."""
        deltas_us = [delta.delta_us or 0 for delta in self.deltas]
        worse = sum(delta > 0 for delta in deltas_us)
        better = sum(delta < 0 for delta in deltas_us)
        gained = [delta for delta in reversed(self.deltas) if (delta.delta_us or 0) < 0]
        lost = [delta for delta in self.deltas if (delta.delta_us or 0) > 0]
        spread = asdict(distribution(deltas_us))
        ordered = sorted(deltas_us)
        low = {f"p{q:02}": percentile(ordered, q) / 1e6 if ordered else None for q in (1, 5, 10)}
        return {
            "compared": len(deltas_us),
            "better": better,
            "worse": worse,
            "same": len(deltas_us) - better - worse,
            "delta_s": {**spread, **low, "min": ordered[0] / 1e6 if ordered else None},
            **self.others,
            "ended_otherwise": len(self.ended_otherwise),
            "lost_most": [delta.document() for delta in lost[:most]],
            "gained_most": [delta.document() for delta in gained[:most]],
            "ended_otherwise_first": [delta.document() for delta in self.ended_otherwise[:most]],
        }


def outcomes_of(a: RunHistory, b: RunHistory) -> Outcomes:
    """Pair the jobs of two runs."""
    theirs = {result.job_id: result for result in b.results}
    deltas: list[JobDelta] = []
    ended_otherwise: list[JobDelta] = []
    others: Counter[str] = Counter(only_a=0, only_b=0, other_jobs=0)
    places: Counter[str] = Counter(same=0, other_gpus=0, other_instant=0, one_only=0, never=0)
    for mine in a.results:
        other = theirs.pop(mine.job_id, None)
        if other is None:
            others["only_a"] += 1
            continue
        names = a.names[mine.ordinal], b.names[other.ordinal]
        if (mine.user, mine.gpus) != (other.user, other.gpus) or names[0] != names[1]:
            others["other_jobs"] += 1
            continue
        places[_began(a, b, mine, other)] += 1
        pair = JobDelta(mine, other, names[0], _delta_us(mine, other))
        if pair.delta_us is not None:
            deltas.append(pair)
        elif mine.status != other.status:
            ended_otherwise.append(pair)
    others["only_b"] = len(theirs)
    deltas.sort(key=lambda pair: (-(pair.delta_us or 0), pair.a.ordinal))
    return Outcomes(a, b, deltas, ended_otherwise, dict(others), dict(places))


def _delta_us(mine: JobResult, other: JobResult) -> int | None:
    finished = facts.Outcome.finished.value
    if mine.status != finished or other.status != finished:
        return None
    one_us, two_us = mine.jct_us, other.jct_us
    return None if one_us is None or two_us is None else two_us - one_us


def _began(a: RunHistory, b: RunHistory, mine: JobResult, other: JobResult) -> str:
    """Return how alike the first starts of a job are in both runs."""
    one, two = a.first_places.get(mine.job_id), b.first_places.get(mine.job_id)
    if one is None or two is None:
        return "never" if one is two else "one_only"
    if mine.first_start_us != other.first_start_us:
        return "other_instant"
    return "same" if one.is_on_gpus_of(two) else "other_gpus"


def _outcome(result: JobResult) -> dict[str, object]:
    jct_us, wait_us = result.jct_us, result.wait_us
    first_us = result.first_start_us
    return {
        "status": result.status,
        "first_start_s": None if first_us is None else first_us / 1e6,
        "jct_s": None if jct_us is None else jct_us / 1e6,
        "wait_s": None if wait_us is None else wait_us / 1e6,
        "preemptions": result.preemptions,
    }


# A side without a decision is looked at before its first round that knew all that the other's did,
# or, if it planned none after that, where it knows as much.


async def moments_of(
    a: LogReader, b: LogReader, only_a: Sequence[Fact], only_b: Sequence[Fact], at_us: int
) -> tuple[int, int]:
    """Return the number of the last event before the decision of each log.

    Args:
        a: one log.
        b: the other.
        only_a: what A alone decides then.
        only_b: what B alone decides then; one of them decides something.
        at_us: the instant.
    """
    if only_a and only_b:
        return _before(only_a), _before(only_b)
    if only_a:
        seq = _before(only_a)
        return seq, await _as_much(b, at_us, await _inputs(a, at_us, seq))
    seq = _before(only_b)
    return await _as_much(a, at_us, await _inputs(b, at_us, seq)), seq


def _before(own: Sequence[Fact]) -> int:
    return min(fact.round_seq for fact in own) - 1


async def _inputs(reader: LogReader, at_us: int, to: int) -> Counter[Event]:
    """Return what came from outside at an instant, up to an event."""
    start = await last_up_to(reader, at_us - 1)
    return Counter([event async for event in reader.events(start, to) if is_input(event)])


async def _as_much(reader: LogReader, at_us: int, known: Counter[Event]) -> int:
    """Return the last event before the first round that knew some inputs.

    If there is no such round, it is the last event before an input that was not known.
    """
    start = await last_up_to(reader, at_us - 1)
    there = Counter[Event]()
    compared: list[Event] = []
    async for event in reader.events(start):
        if event.at_us > at_us:
            break
        compared.append(event)
        if is_input(event):
            there[event] += 1
    missing = known & there
    found: int | None = None
    for seq, event in enumerate(compared, start + 1):
        knows_all = not missing
        if knows_all and isinstance(event, facts.RoundPlanned):
            return seq - 1
        if is_input(event):
            if knows_all and found is None:
                found = seq - 1
            missing -= Counter([event])
    return start + len(compared) if found is None else found


# Differences are looked for in inputs, policy, configuration, then code.

RANKED = 2
"""Of how many decisions of each side the jobs are looked for in the ranking of both."""

_MISSING = object()


@dataclass(frozen=True)
class Side:
    """One log where it parts from the other: who decides there, and what is seen.

    `seq` is the last event before the round; `problem` says why the policy cannot be asked.
    `scores` are what the scores of its decisions say, by their numbers.
    """

    seq: int
    started: facts.SchedulerStarted | None
    sources: Mapping[str, str]
    seen: Seen | None
    problem: str
    scores: Mapping[int, str] = field(default_factory=dict)

    @property
    def policy(self) -> str:
        """The policy that decides there."""
        return "nobody knows which policy" if self.started is None else self.started.policy


@dataclass(frozen=True)
class Evidence:
    """Both sides of a parting, and the keys of their configurations that differ.

    `keys` holds the values of each key in A and in B, as JSON; empty: it has none.
    """

    a: Side
    b: Side
    keys: Mapping[str, tuple[str, str]]

    def why(self, parting: Parting) -> str:
        """Return in one sentence why the logs part where they do."""
        other = parting.other_input
        if other is not None:
            return f"their inputs differ from {clock(other.at_us)} on: {_told(other.a, other.b)}"
        a, b = self.a.started, self.b.started
        if parting.parted is not None and parting.parted.ended:
            return f"log {parting.parted.ended.upper()} ends before, and the other goes on"
        if a is None or b is None:
            return "one of the logs does not say who decided"
        if (a.policy, a.policy_version) != (b.policy, b.policy_version):
            one, two = (f"{each.policy} {each.policy_version}" for each in (a, b))
            return f"the same inputs, and another policy: {one} in A, {two} in B"
        if self.keys:
            return f"the same inputs and policy, configured otherwise: {', '.join(self.keys)}"
        if a.seed != b.seed:
            return f"the same inputs and policy, with seed {a.seed} in A and {b.seed} in B"
        if (a.version, self.a.sources) != (b.version, self.b.sources):
            return f"the same inputs and configuration, and other code: {a.version}, {b.version}"
        return (
            "the same inputs, configuration and code: `shunter replay LOG --verify` says which of "
            "them was not decided by it"
        )


async def evidence_of(a: LogReader, b: LogReader, parted: Parted, rebuild: Rebuild) -> Evidence:
    """Look at both logs right before they part.

    Args:
        a: one log.
        b: the other.
        parted: where they part.
        rebuild: makes the policy of a term.
    Raises:
        LogDamagedError: the bytes of one are not what was written.
    """
    compared = [*parted.only_a[:RANKED], *parted.only_b[:RANKED]]
    before = await moments_of(a, b, parted.only_a, parted.only_b, parted.at_us)
    one = await _side(a, before[0], compared, parted, parted.only_a, rebuild)
    two = await _side(b, before[1], compared, parted, parted.only_b, rebuild)
    return Evidence(one, two, changed_keys(config_of(one.started), config_of(two.started)))


def changed_keys(a: Mapping[str, object], b: Mapping[str, object]) -> Mapping[str, tuple[str, str]]:
    """Return the keys in which two configurations differ, with their values as JSON."""
    return dict(_changes("", a, b))


async def _side(
    reader: LogReader,
    seq: int,
    compared: Sequence[Fact],
    parted: Parted,
    own: Sequence[Fact],
    rebuild: Rebuild,
) -> Side:
    """Look at a log right after the last event before a decision."""
    at_us = parted.at_us
    terms = await terms_up_to(reader, seq)
    started = last_start(event for _, event in terms)
    term, state, problem = await _staged(reader, terms, seq, rebuild)
    sources = (await reader.sources()).get(state.term, {})
    seen = None
    if term is not None:
        term.stand_before(at_us)
        seen = seen_at(term, state, at_us, *(fact.event for fact in compared))
    measures = measures_at(measures_of_terms(terms, rebuild), seq)
    scores = scores_told(own, measures, state)
    return Side(seq, started, sources, seen, problem, scores)


async def scores_in_log(
    reader: LogReader, compared: Sequence[Fact], rebuild: Rebuild
) -> Mapping[int, str]:
    """Return what the scores of decisions of one instant say, by their numbers."""
    seq = min(fact.round_seq for fact in compared) - 1
    measures = measures_at(await measures_in(reader, seq, rebuild), seq)
    return scores_told(compared, measures, await state_at(reader, seq)) if measures else {}


def scores_told(
    compared: Sequence[Fact], measures: Sequence[Measure], state: State
) -> Mapping[int, str]:
    """Return what scores of decisions say, by number; `state` is that before."""
    return {
        fact.seq: score_of(
            fact.event,
            measures,
            used_by_jobs(state, fact.event.at_us, [getattr(fact.event, "job_id", JobId(""))]),
        )
        for fact in compared
    }


async def _staged(
    reader: LogReader,
    terms: Sequence[tuple[int, Began]],
    seq: int,
    rebuild: Rebuild,
) -> tuple[Term | None, State, str]:
    """Return the policy at work after an event; or None, and why there is none."""
    started = last_start(event for _, event in terms)
    try:
        is_told = started is not None and takes_notes(rebuild(started)[0])
    except (ConfigError, NotFoundError, UsageError) as error:
        return None, await state_at(reader, seq), str(error)
    if started is None or not is_told:
        state = await state_at(reader, seq)
        term, problem = term_on(started, state, rebuild)
        return term, state, f"its policy {problem}" if problem == REMEMBERS else problem
    term = await told_term(reader, terms[-1][0], started, seq, rebuild)
    state = term.planner.state
    if state.policy_fault.startswith(SET_ASIDE):
        return None, state, f"the policy is {state.policy_fault}"
    return term, state, ""


def _changes(
    path: str, a: Mapping[str, object], b: Mapping[str, object]
) -> Iterator[tuple[str, tuple[str, str]]]:
    for name in dict.fromkeys((*a, *b)):
        one, two = a.get(name, _MISSING), b.get(name, _MISSING)
        key = f"{path}.{name}" if path else name
        if one == two:
            continue
        if isinstance(one, dict) and isinstance(two, dict):
            yield from _changes(key, one, two)
        else:
            yield key, (_shown(one), _shown(two))


def _shown(value: object) -> str:
    return "" if value is _MISSING else json.dumps(value, ensure_ascii=False)


def _told(a: Fact | None, b: Fact | None) -> str:
    parts = [
        f"{name} has {fact_in_words(fact.event)} (e{fact.seq})"
        for name, fact in (("A", a), ("B", b))
        if fact is not None
    ]
    return ", ".join(parts)


_SCHEMA = 1
NO_SCORES: Mapping[int, str] = MappingProxyType({})
Progress = Callable[[str], AbstractContextManager[Advance | None]]
"""Shows how far a part of the work is, by its name."""
_SHARING = {
    Sharing.exclusive: "alone",
    Sharing.packed: "together with others",
    Sharing.sliced: "in turns",
}
"""How a job has GPUs, where that may be all that differs."""


@dataclass(frozen=True)
class LogDiff:
    """Two logs compared; no `evidence`: no decision differs.

    `reasons` are what the scores of both decisions with other reasons say, by their numbers.
    """

    parting: Parting
    evidence: Evidence | None
    outcomes: Outcomes
    reasons: tuple[Mapping[int, str], Mapping[int, str]] = (NO_SCORES, NO_SCORES)

    @property
    def differs(self) -> bool:
        """Whether an input, a decision or its reasons differ."""
        found = self.parting
        return any((found.parted, found.other_input, found.other_reason))

    def document(self, most: int) -> dict[str, Any]:
        """Return all of it; of jobs only the so many that gained and lost most."""
        a, b = self.outcomes.a, self.outcomes.b
        return {
            "schema": _SCHEMA,
            "logs": {"a": _log(a), "b": _log(b)},
            "identical": a.digest == b.digest,
            "differs": self.differs,
            "alike": {
                "decisions": self.parting.decisions_alike,
                "inputs": self.parting.inputs_alike,
            },
            "first_decision": self._first_decision(),
            "first_input": _pair(self.parting.other_input),
            "first_reason": _pair(self.parting.other_reason, self.reasons),
            "first_starts": dict(self.outcomes.places),
            "jobs": self.outcomes.jobs(most),
            "measures": self.outcomes.measures(),
        }

    def _first_decision(self) -> dict[str, object] | None:
        parted, evidence = self.parting.parted, self.evidence
        if parted is None or evidence is None:
            return None
        difference = None
        if parted.a is not None and parted.b is not None:
            found = first_difference(parted.a.event, parted.b.event)
            difference = {"name": found.field, "a": found.recorded, "b": found.replayed}
        return {
            "at_us": parted.at_us,
            "time": clock(parted.at_us),
            "why": evidence.why(self.parting),
            "a": _fact(parted.a, evidence.a.scores, parted.b),
            "b": _fact(parted.b, evidence.b.scores, parted.a),
            "field": difference,
            "only_a": [_fact(fact, evidence.a.scores) for fact in parted.only_a],
            "only_b": [_fact(fact, evidence.b.scores) for fact in parted.only_b],
            "config": {key: {"a": one, "b": two} for key, (one, two) in evidence.keys.items()},
            "seen": {"a": _side_document(evidence.a), "b": _side_document(evidence.b)},
        }


async def diff_logs(a: LogReader, b: LogReader, rebuild: Rebuild, progress: Progress) -> LogDiff:
    """Compare two logs.

    Args:
        a: one log.
        b: the other, which is told of as what changed.
        rebuild: makes the policy of a term.
        progress: shows how far each part is.
    Raises:
        LogDamagedError: the bytes of one are not what was written.
        IllegalEventError: an event does not fit those before it.
    """
    with progress("looking for the first difference") as advance:
        parting = await first_parting(a, b, advance)
    evidence = None
    if parting.parted is not None:
        evidence = await evidence_of(a, b, parting.parted, rebuild)
    reasons: tuple[Mapping[int, str], Mapping[int, str]] = (NO_SCORES, NO_SCORES)
    other = parting.other_reason
    if other is not None and other.a is not None and other.b is not None:
        reasons = (
            await scores_in_log(a, [other.a], rebuild),
            await scores_in_log(b, [other.b], rebuild),
        )
    with progress("summing up A") as advance:
        one = await run_history(a, advance=advance)
    with progress("summing up B") as advance:
        two = await run_history(b, advance=advance)
    return LogDiff(parting, evidence, outcomes_of(one, two), reasons)


def _log(run: RunHistory) -> dict[str, object]:
    document = run.document()
    return {
        **document.pop("log"),  # type: ignore[dict-item]  # it is a table
        **{name: document[name] for name in ("evidence", "policy", "seed", "jobs")},
    }


def _pair(
    found: FactPair | None,
    scores: tuple[Mapping[int, str], Mapping[int, str]] = (NO_SCORES, NO_SCORES),
) -> dict[str, object] | None:
    """Return the facts of both logs that differ as a document."""
    if found is None:
        return None
    return {
        "at_us": found.at_us,
        "time": clock(found.at_us),
        "a": _fact(found.a, scores[0]),
        "b": _fact(found.b, scores[1]),
    }


def _fact(
    fact: Fact | None, scores: Mapping[int, str] = NO_SCORES, other: Fact | None = None
) -> dict[str, object] | None:
    """Return a fact as a document, in words that tell it from another one."""
    if fact is None:
        return None
    words = fact_in_words(fact.event, scores.get(fact.seq, ""))
    words += _sharing(fact, other) + _with_shares(fact.event)
    return {
        "seq": fact.seq,
        "round_seq": fact.round_seq,
        "event": to_object(fact.event),
        "words": words,
    }


def _sharing(fact: Fact, other: Fact | None) -> str:
    """Return how GPUs are shared, where another decision shares its own otherwise."""
    mine, its = (getattr(each and each.event, "allocation", None) for each in (fact, other))
    if not isinstance(mine, Allocation) or not isinstance(its, Allocation):
        return ""
    is_told = mine.shares and its.shares and mine.sharing is not its.sharing
    return f", {_SHARING[mine.sharing]}" if is_told else ""


def _with_shares(event: Event) -> str:
    """Return what goes with the GPUs that a fact names: it may be all that differs."""
    allocation = getattr(event, "allocation", None)
    if not isinstance(allocation, Allocation):
        return ""
    beside = sum([share.beside for share in allocation.shares], Resources())
    if not beside.cpus_milli and not beside.memory_mb:
        return ""
    return f", with {resources_in_words(0, beside.cpus_milli / 1000, beside.memory_mb)}"


def _side_document(side: Side) -> dict[str, object]:
    started = side.started
    return {
        "seq": side.seq,
        "policy": None if started is None else started.policy,
        "policy_version": None if started is None else started.policy_version,
        "code": None if started is None else started.version,
        "sources": dict(side.sources),
        "problem": side.problem,
        **({} if side.seen is None else side.seen.document()),
    }
