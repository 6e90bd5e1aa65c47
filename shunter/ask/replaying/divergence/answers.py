"""Two answers to one question side by side: what a decision was, and what it is when made again.

What differs is named by what a policy decides in: which jobs start and leave (its order, and what
it holds to fit), where they are (its placement), for which scores, when it decides at all.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shunter.ask.replaying.formatting import fact_in_words
from shunter.core.ranking import Measure
from shunter.counting import counted
from shunter.events.facts.decisions import AllocationChanged, RoundPlanned
from shunter.events.facts.run import SchedulerStarted
from shunter.events.kinds import Event
from shunter.events.values.allocation import Allocation
from shunter.events.values.ids import JobId

ROWS_MOST = 8
"""So many jobs are shown with both answers."""

NOTHING = "nothing"

Given = Mapping[JobId, AllocationChanged]


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
        from shunter.events.schema import to_object

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
    if type(recorded) is not AllocationChanged or type(replayed) is not AllocationChanged:
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


def term_in_words(started: SchedulerStarted) -> str:
    """Return who decided in a term, with parameters, placement, rounds and guards."""
    name = f"{started.policy} {started.policy_version}"
    try:
        config = json.loads(started.config)
    except ValueError:
        return name
    section = config.get("policy") if isinstance(config, dict) else None
    if not isinstance(section, dict):
        return name
    params = section.get("params", {}).get(started.policy, {})
    parts = [name, *(f"{key} = {json.dumps(value)}" for key, value in sorted(params.items()))]
    parts.append(f"placement {section.get('placement')}")
    parts.append(f"plans by {section.get('trigger')}" + _every(section))
    guards = {key: value for key, value in section.get("guards", {}).items() if _is_on(value)}
    parts += [f"guards.{key} = {value}" for key, value in sorted(guards.items())]
    parts.append(f"seed {config.get('seed')}")
    return ", ".join(parts)


def _every(section: Mapping[str, Any]) -> str:
    return f" of {section.get('round')}" if section.get("trigger") == "round" else ""


def _is_on(value: object) -> bool:
    return value not in (None, "0s")


def _given(events: Sequence[Event]) -> Given:
    return {each.job_id: each for each in events if type(each) is AllocationChanged}


def _leaving(given: Given) -> Mapping[JobId, object]:
    return {job: None for job, each in given.items() if not each.allocation.shares}


def _starting(given: Given) -> Mapping[JobId, object]:
    return {job: None for job, each in given.items() if each.allocation.shares}


def _placed(given: Given) -> Mapping[JobId, Allocation]:
    return {job: each.allocation for job, each in given.items()}


def _because(given: Given) -> Mapping[JobId, object]:
    return {job: each.because for job, each in given.items()}


_PARTS: Sequence[tuple[str, Callable[[Given], Mapping[JobId, object]]]] = (
    ("which jobs get GPUs, by its order and by what it holds to fit", _starting),
    ("which jobs leave, by its order, its guards and whether it preempts", _leaving),
    ("where jobs are placed, which are the same jobs", _placed),
    ("why the same is done: rule or score", _because),
)


def _only(mine: Mapping[JobId, object], theirs: Mapping[JobId, object], who: str) -> list[str]:
    """Return the jobs of one answer alone, in words."""
    jobs = [job for job in mine if job not in theirs]
    if not jobs:
        return []
    hidden = len(jobs) - ROWS_MOST
    more = f" and {hidden} more" if hidden > 0 else ""
    return [f"only {who} {', '.join(jobs[:ROWS_MOST])}{more}"]


def _by_job(events: Sequence[Event], in_words: Callable[[Event], str]) -> dict[str, str]:
    """Return what is said of each job in words, and of the round itself."""
    found: dict[str, list[str]] = {}
    for each in events:
        key = "round" if type(each) is RoundPlanned else str(getattr(each, "job_id", "-"))
        found.setdefault(key, []).append(in_words(each))
    return {key: "; ".join(words) for key, words in found.items()}
