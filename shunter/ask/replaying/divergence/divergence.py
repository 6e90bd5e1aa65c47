"""The first decision that came out otherwise: what was recorded, what was replayed, where.

Where the versions are the same, what the policy saw at that point and how it ranked the jobs in
question are the first hints, and whether the code is what it was.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass

from shunter import __version__
from shunter.ask.replaying.divergence.answers import (
    NO_ANSWERS,
    Answers,
    differing_term,
    term_in_words,
)
from shunter.ask.replaying.divergence.seen import Seen
from shunter.ask.replaying.formatting import fact_in_words
from shunter.ask.replaying.instants import clock
from shunter.ask.replaying.scores.measures import score_of
from shunter.ask.replaying.scores.words import measures_of
from shunter.core.interfaces import AnyPolicy
from shunter.errors import ReplayDivergenceError
from shunter.events.facts.run import SchedulerStarted
from shunter.events.kinds import Event
from shunter.events.values.ids import JobId
from shunter.run.code_digests import sources_of

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
    started: SchedulerStarted
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
