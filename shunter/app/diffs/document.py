"""The comparison of two logs, and as one JSON-able document."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from shunter.app.diffs.evidence import Evidence, Side, evidence_of, scores_in_log
from shunter.app.diffs.outcomes import Outcomes, outcomes_of
from shunter.app.diffs.parting import Parting, first_parting
from shunter.app.diffs.steps import Fact
from shunter.app.replaying.divergence import Difference, first_difference
from shunter.app.replaying.folding import Advance
from shunter.app.replaying.formatting import fact_in_words, resources_in_words
from shunter.app.replaying.instants import clock
from shunter.app.replaying.recorded_terms import Rebuild
from shunter.app.run_history.history import RunHistory, run_history
from shunter.events.kinds import Event
from shunter.events.log import LogReader
from shunter.events.schema import to_object
from shunter.events.values.allocation import Allocation, Sharing
from shunter.events.values.resources import Resources

SCHEMA = 1
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

    `reasons` are what the scores of both decisions with other reasons say.
    """

    parting: Parting
    evidence: Evidence | None
    outcomes: Outcomes
    reasons: tuple[str, str] = ("", "")

    @property
    def differs(self) -> bool:
        """Whether an input, a decision or its reasons differ."""
        found = self.parting
        return any((found.parted, found.other_input, found.other_reason))

    def document(self, most: int) -> dict[str, Any]:
        """Return all of it; of jobs only the so many that gained and lost most."""
        a, b = self.outcomes.a, self.outcomes.b
        return {
            "schema": SCHEMA,
            "logs": {"a": _log(a), "b": _log(b)},
            "identical": a.digest == b.digest,
            "differs": self.differs,
            "alike": {
                "decisions": self.parting.decisions_alike,
                "inputs": self.parting.inputs_alike,
            },
            "first_decision": self._first_decision(),
            "first_input": self._first_input(),
            "first_reason": self._first_reason(),
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
            difference = _difference(first_difference(parted.a.event, parted.b.event))
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
            "seen": {"a": _side(evidence.a), "b": _side(evidence.b)},
        }

    def _first_input(self) -> dict[str, object] | None:
        other = self.parting.other_input
        if other is None:
            return None
        return {"at_us": other.at_us, "time": clock(other.at_us), **_pair(other.a, other.b)}

    def _first_reason(self) -> dict[str, object] | None:
        other = self.parting.other_reason
        if other is None:
            return None
        one, two = self.reasons
        return {
            "at_us": other.at_us,
            "time": clock(other.at_us),
            "a": _fact(other.a, {other.a.seq: one}),
            "b": _fact(other.b, {other.b.seq: two}),
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
    reasons = ("", "")
    if parting.other_reason is not None:
        mine, theirs = parting.other_reason.a, parting.other_reason.b
        reasons = (
            (await scores_in_log(a, [mine], rebuild)).get(mine.seq, ""),
            (await scores_in_log(b, [theirs], rebuild)).get(theirs.seq, ""),
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


def _pair(a: Fact | None, b: Fact | None) -> dict[str, object]:
    return {"a": _fact(a), "b": _fact(b)}


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


def _difference(found: Difference) -> dict[str, str]:
    return {"name": found.field, "a": found.recorded, "b": found.replayed}


def _side(side: Side) -> dict[str, object]:
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
