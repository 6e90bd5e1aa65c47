"""Why two runs part: what each policy saw there, how it ranks the jobs, and what it was told.

The state right before the round is folded in each log, and the policy of the term is put on it, as
`why` does. What differs between the logs otherwise is looked for in this order: inputs, policy,
configuration, code.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from shunter.app.diffs.moments import moments_of
from shunter.app.diffs.parting import Parted, Parting
from shunter.app.diffs.steps import Fact
from shunter.app.forking.told_terms import told_term
from shunter.app.replaying.consolidated_gangs import TERMS, last_start
from shunter.app.replaying.divergence import Seen, seen_at
from shunter.app.replaying.folding import state_at
from shunter.app.replaying.formatting import fact_in_words
from shunter.app.replaying.instants import clock
from shunter.app.replaying.recorded_terms import Rebuild, Term, takes_notes
from shunter.app.replaying.scores.measures import (
    measures_at,
    measures_in,
    measures_of_terms,
    score_of,
    used_by_jobs,
)
from shunter.core.fold.decisions import SET_ASIDE
from shunter.core.ranking import Measure
from shunter.core.state import State
from shunter.errors import ConfigError, NotFoundError, UsageError
from shunter.events.facts.run import ConfigChanged, SchedulerStarted
from shunter.events.log import LogReader
from shunter.events.values.ids import JobId

RANKED = 2
"""Of how many decisions of each side the jobs are looked for in the ranking of both."""

_MISSING = object()
_REMEMBERS = "its policy decides by what it remembers of the rounds before"


@dataclass(frozen=True)
class Side:
    """One log where it parts from the other: who decides there, and what is seen.

    `seq` is the last event before the round; `problem` says why the policy cannot be asked.
    `scores` are what the scores of its decisions say, by their numbers.
    """

    seq: int
    started: SchedulerStarted | None
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
    facts = [*parted.only_a[:RANKED], *parted.only_b[:RANKED]]
    before = await moments_of(a, b, parted.only_a, parted.only_b, parted.at_us)
    one = await _side(a, before[0], facts, parted, parted.only_a, rebuild)
    two = await _side(b, before[1], facts, parted, parted.only_b, rebuild)
    return Evidence(one, two, changed_keys(_config(one.started), _config(two.started)))


def changed_keys(a: Mapping[str, object], b: Mapping[str, object]) -> Mapping[str, tuple[str, str]]:
    """Return the keys in which two configurations differ, with their values as JSON."""
    return dict(_changes("", a, b))


async def _side(
    reader: LogReader,
    seq: int,
    facts: Sequence[Fact],
    parted: Parted,
    own: Sequence[Fact],
    rebuild: Rebuild,
) -> Side:
    """Look at a log right after the last event before a decision."""
    at_us = parted.at_us
    found = await reader.events_of(TERMS, seq)
    terms = [
        (number, event)
        for number, event in found
        if isinstance(event, SchedulerStarted | ConfigChanged)
    ]
    started = last_start(event for _, event in terms)
    term, state, problem = await _staged(reader, terms, seq, rebuild)
    sources = (await reader.sources()).get(state.term, {})
    seen = None
    if term is not None:
        term.stand_before(at_us)
        seen = seen_at(term, state, at_us, *(fact.event for fact in facts))
    measures = measures_at(measures_of_terms(terms, rebuild), seq)
    scores = scores_told(own, measures, state)
    return Side(seq, started, sources, seen, problem, scores)


async def scores_in_log(
    reader: LogReader, facts: Sequence[Fact], rebuild: Rebuild
) -> Mapping[int, str]:
    """Return what the scores of decisions of one instant say, by their numbers."""
    seq = min(fact.round_seq for fact in facts) - 1
    measures = measures_at(await measures_in(reader, seq, rebuild), seq)
    return scores_told(facts, measures, await state_at(reader, seq)) if measures else {}


def scores_told(
    facts: Sequence[Fact], measures: Sequence[Measure], state: State
) -> Mapping[int, str]:
    """Return what scores of decisions say, by number; `state` is that before."""
    return {
        fact.seq: score_of(
            fact.event,
            measures,
            used_by_jobs(state, fact.event.at_us, [getattr(fact.event, "job_id", JobId(""))]),
        )
        for fact in facts
    }


async def _staged(
    reader: LogReader,
    terms: Sequence[tuple[int, SchedulerStarted | ConfigChanged]],
    seq: int,
    rebuild: Rebuild,
) -> tuple[Term | None, State, str]:
    """Return the policy at work after an event; or None, and why there is none."""
    started, term = last_start(event for _, event in terms), None
    if started is None:
        return None, await state_at(reader, seq), "the log does not say which policy decided"
    try:
        policy, _ = rebuild(started)
    except (ConfigError, NotFoundError, UsageError) as error:
        return None, await state_at(reader, seq), str(error)
    if takes_notes(policy):
        term = await told_term(reader, terms[-1][0], started, seq, rebuild)
        state = term.planner.state
    else:
        state = await state_at(reader, seq)
    if state.policy_fault.startswith(SET_ASIDE):
        return None, state, f"the policy is {state.policy_fault}"
    if term is None and getattr(policy, "remembers", False):
        return None, state, _REMEMBERS
    return term or Term(started, rebuild, state), state, ""


def _config(started: SchedulerStarted | None) -> Mapping[str, object]:
    try:
        config = {} if started is None else json.loads(started.config)
    except ValueError:
        return {}
    return config if isinstance(config, dict) else {}


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
