"""`why --inevitable`, answered: a document, and the same in lines that a person reads.

The answer says what it is: the last decision *found*. It names the decisions that were tried, the
neighbours of the one found, and the later ones that were looked at once more.
"""

from collections.abc import Callable, Sequence
from typing import Any

from shunter.app.counting import counted
from shunter.app.forking.inevitable.forks import Forks, Tried, forks_of, step_us
from shunter.app.forking.inevitable.outcomes import Happened, Kind, Normal, happened_to, normal_wait
from shunter.app.forking.inevitable.search import TRIED_MOST, Search, find_last
from shunter.app.replaying.instants import clock, span
from shunter.app.replaying.recorded_terms import Rebuild
from shunter.app.replaying.why.explanation import Explanation
from shunter.app.replaying.why.scan_start import Round
from shunter.errors import ConfigError, UsageError
from shunter.events.facts.decisions import AllocationChanged
from shunter.events.facts.jobs import JobSubmitted
from shunter.events.log import LogReader

SCHEMA = 1
FORKS_MOST = TRIED_MOST + 1
"""The forks with the job first, and one with nothing otherwise."""

_KINDS = frozenset((JobSubmitted.__name__, AllocationChanged.__name__))

Report = Callable[[int, int], None]


async def inevitable(
    reader: LogReader,
    found: Explanation,
    rebuild: Rebuild,
    kind: Kind | None = None,
    within_us: int | None = None,
    report: Report | None = None,
) -> dict[str, Any]:
    """Return the last decision found at which a job, placed first, is spared.

    Args:
        reader: the log.
        found: the job at a moment; nothing later counts as what happened to it.
        rebuild: makes the policy of a term.
        kind: what it is to be spared; None: a missed deadline, a long wait, or a preemption.
        within_us: up to how long a wait is normal; None: as others waited.
        report: told how many forks are done, of how many at most.
    Raises:
        UsageError: there is nothing to be spared, or nothing that could be tried.
        ConfigError: the policy of the log is not installed, or the log cannot be simulated.
    """
    if found.rules is None:
        raise ConfigError(found.problem)
    story, rules = found.story, found.rules
    spec = story.spec
    if within_us is None:
        events = [event for _, event in await reader.events_of(_KINDS, story.seq)]
        normal = normal_wait(events, story.job_id, spec.gpus, rules.round_us, story.at_us)
    else:
        normal = Normal(within_us, is_said=True)
    own = [each.event for each in story.own]
    happened = happened_to(own, story.at_us, normal, spec.deadline_us, kind)
    decisions = await _decisions(reader, story.rounds, happened, step_us(rules))
    forks = await forks_of(reader, rebuild, happened, decisions, rules)
    as_it_was = await forks.as_it_was()
    tried: dict[int, Tried] = {}

    async def is_spared(place: int) -> bool:
        if report is not None:
            report(len(tried) + 1, FORKS_MOST)
        tried[place] = await forks.at(place)
        return tried[place].is_spared

    search = await find_last(len(decisions), is_spared)
    return _document(forks, search, tried, as_it_was)


async def _decisions(
    reader: LogReader, rounds: Sequence[Round], happened: Happened, step: int
) -> Sequence[Round]:
    """Return the decisions at which placing a job first may spare it something.

    Those of the first step of a log are left out: there is no moment before.
    """
    first_us = 0
    async for event in reader.events(0, 1):
        first_us = event.at_us
    # The job is first in all decisions of an instant: they are one, and have the first one's name.
    at: dict[int, Round] = {}
    for each in rounds:
        if happened.since_us <= each.at_us <= happened.last_us and each.at_us - step >= first_us:
            at.setdefault(each.at_us, each)
    found = list(at.values())
    if not found:
        raise UsageError(
            f"no decision that could be tried lies between {clock(happened.since_us)} and "
            f"{clock(happened.last_us)}: nobody was placed then, or the log had just begun"
        )
    return found


def _document(
    forks: Forks, search: Search, tried: dict[int, Tried], as_it_was: Tried
) -> dict[str, Any]:
    happened = forks.happened
    spots = [tried[place] for place in search.spots]
    disagreeing = [tried[place] for place in search.disagreeing]
    return {
        "schema": SCHEMA,
        "evidence": "simulated",
        "outcome": {
            "kind": str(happened.kind),
            "words": happened.words,
            "since_us": happened.since_us,
            "since": clock(happened.since_us),
            "until_us": happened.until_us,
            "until": clock(happened.until_us),
            "at_us": happened.at_us,
            "normal_us": happened.bound_us,
        },
        "decisions": len(forks.decisions),
        "forks": len(tried) + 1,
        "found": _tried(tried, search.found),
        "before": _tried(tried, None if search.found is None else search.found - 1),
        "next": _tried(tried, None if search.found is None else search.found + 1),
        "is_bracketed": search.is_next,
        "spot_checks": [_one(each) for each in spots],
        "disagreeing": [_one(each) for each in disagreeing],
        "tried": [_one(tried[place]) for place in sorted(tried)],
        "as_it_was": {"agrees": not as_it_was.is_spared, "words": as_it_was.words},
        "words": _lines(forks, search, tried, as_it_was),
        "assumptions": list(forks.assumptions()),
    }


def _tried(tried: dict[int, Tried], place: int | None) -> dict[str, Any] | None:
    return _one(tried[place]) if place is not None and place in tried else None


def _one(each: Tried) -> dict[str, Any]:
    decision = each.decision
    assert decision is not None, "a decision was tried"
    return {
        "seq": decision.seq,
        "round": decision.number,
        "us": decision.at_us,
        "time": clock(decision.at_us),
        "avoids": each.is_spared,
        "placed": each.is_placed,
        "words": each.words,
    }


def _lines(
    forks: Forks, search: Search, tried: dict[int, Tried], as_it_was: Tried
) -> list[list[str]]:
    """Return the answer as names and lines."""
    lines = [["to avoid", forks.happened.words]]
    found = search.found
    if found is None:
        lines += _none_found(forks, tried)
    else:
        lines.append(["last found", _in_words(forks, tried[found])])
        if found - 1 in tried:
            lines.append(["one before", _in_words(forks, tried[found - 1])])
        if found + 1 in tried:
            lines.append(["one after", _in_words(forks, tried[found + 1])])
        elif found == len(forks.decisions) - 1:
            lines.append(["one after", "there is none: it was the last decision before that"])
        lines += _spots(forks, search, tried)
    lines.append(["searched", _searched(forks, search, len(tried))])
    same = as_it_was.words
    if as_it_was.is_spared:
        lines.append(["as it was", f"simulated without a change {same}: not what was recorded!"])
    else:
        lines.append(["as it was", f"simulated without a change {same}, as recorded"])
    return lines


def _none_found(forks: Forks, tried: dict[int, Tried]) -> list[list[str]]:
    none = f"none of the {len(tried)} decisions that were tried avoids it"
    lines = [["none found", "the one decision does not avoid it" if len(tried) == 1 else none]]
    return lines + [["tried", _in_words(forks, tried[place])] for place in sorted(tried)]


def _spots(forks: Forks, search: Search, tried: dict[int, Tried]) -> list[list[str]]:
    """Return what was found of later decisions."""
    lines: list[list[str]] = []
    agreeing = [tried[place] for place in search.spots if not search[place]]
    if agreeing:
        names = ", ".join(_name(each) for each in agreeing)
        avoid = "does not avoid it either" if len(agreeing) == 1 else "do not avoid it either"
        lines.append(["spot checks", f"placed first at {names}: {avoid}"])
    lines += [
        ["disagrees", f"{_in_words(forks, tried[place])}, so the one found is not the last"]
        for place in search.disagreeing
    ]
    if not search.spots and not lines:
        lines.append(["spot checks", "every later decision was tried, or there is none"])
    return lines


def _searched(forks: Forks, search: Search, count: int) -> str:
    total = counted(len(forks.decisions), "decision")
    how = "was tried" if count == 1 else "were tried"
    policy = forks.first.policy.name
    text = (
        f"{count} of {total} {how}, each in a simulation of {policy} from the moment before; at "
        "that one decision the job is first in order, and never after"
    )
    last = len(forks.decisions) - 1
    if count > last or search.found == last:
        return text
    if search.found is None:
        return f"{text}; others may avoid it"
    return (
        f"{text}; between them it is taken that what avoids it comes before what does not, so "
        "a later one that was not tried may avoid it too"
    )


def _in_words(forks: Forks, each: Tried) -> str:
    """Return a decision, and what came of placing the job first there."""
    decision, happened = each.decision, forks.happened
    assert decision is not None, "a decision was tried"
    at = f"round {decision.number} at {clock(decision.at_us)} (e{decision.seq})"
    if each.is_spared:
        return f"{at} avoids it: {each.words}"
    waited_us = decision.at_us - happened.since_us
    if happened.kind is Kind.wait and each.is_placed and waited_us > happened.bound_us:
        return f"{at} is too late: by then it has waited {span(waited_us)}"
    there = "it has GPUs there, and yet" if each.is_placed else "even first it finds none, and"
    return f"{at} does not: {there} {each.words}"


def _name(each: Tried) -> str:
    assert each.decision is not None, "a decision was tried"
    return f"e{each.decision.seq}"
