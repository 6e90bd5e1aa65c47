"""What to stop at: `preempt job=j42`, `start gpus>=8 user=ann`, `waiting>100`.

    expression = [what] condition …      all of them must hold
    what       = submit | start | preempt | finish | … | a kind of event, such as NodeLost
    condition  = name operator value     operators: = != and, of numbers, < <= > >=

Names of what an event is about (`job`, `user`, `queue`, `name`, `gpus`, `node`, `rule`, `reason`),
or of what is true after it (`waiting`, `running`, `free`).
"""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final

from shunter.ask.run_history.job_counts import JobCounts
from shunter.core.state import FoldResult, Job, State
from shunter.errors import UsageError
from shunter.events.facts.cluster import NodeLost
from shunter.events.facts.decisions import (
    AllocationChanged,
    PlanRejected,
    RoundPlanned,
    is_preemption,
)
from shunter.events.facts.execution import AttemptLost, JobSuspended
from shunter.events.facts.jobs import (
    JobCancelled,
    JobFailed,
    JobFinished,
    JobRejected,
    JobSubmitted,
)
from shunter.events.kinds import KINDS, Event

_TERM = re.compile(r"([a-z]+)(!=|>=|<=|=|>|<)(.+)", re.DOTALL)
_WORD = re.compile(r"[A-Za-z]+")
_TOLD_MOST = 60


@dataclass(frozen=True, slots=True)
class Happened:
    """An event, the state after it, what became of jobs, and how many wait and run."""

    event: Event
    state: State
    result: FoldResult
    counts: JobCounts


Test = Callable[[Happened, Sequence[Job]], bool]
"""Says whether a condition holds of an event and the jobs that it is about."""


@dataclass(frozen=True)
class Expression:
    """What somebody looks for, in his words."""

    text: str
    _jobs: Callable[[Happened], Sequence[Job] | None]
    _tests: Sequence[Test]

    def holds(self, happened: Happened) -> bool:
        """Say whether an event is what is looked for."""
        jobs = self._jobs(happened)
        return jobs is not None and all(test(happened, jobs) for test in self._tests)


def parse(text: str) -> Expression:
    """Return the expression in a text.

    Raises:
        UsageError: it is none; says which part, and what could stand there.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"--break-on {text[:_TOLD_MOST]!r}: {error}: close the quotes") from error
    if not words:
        raise UsageError("--break-on is empty: write such as 'preempt job=j42' or 'waiting>100'")
    what: Callable[[Happened], Sequence[Job] | None] = _about
    if _WORD.fullmatch(words[0]):
        what = _what(words.pop(0))
    return Expression(text, what, [_condition(word) for word in words])


def _what(word: str) -> Callable[[Happened], Sequence[Job] | None]:
    found = _WHATS.get(word)
    if found is not None:
        return found
    kind = KINDS.get(word)
    if kind is not None:
        return _of_kinds(kind)
    near = _near(word, [*_WHATS, *KINDS])
    raise UsageError(
        f"--break-on: {word[:_TOLD_MOST]!r} is nothing that happens{near}; "
        f"write one of {', '.join(_WHATS)}, or a kind of event, such as NodeLost"
    )


def _condition(word: str) -> Test:
    found = _TERM.fullmatch(word)
    if found is None:
        raise UsageError(
            f"--break-on: {word[:_TOLD_MOST]!r} is no condition: write such as user=ann or gpus>=8"
        )
    name, operator, value = found.groups()
    if name in _TEXTS:
        if operator not in ("=", "!="):
            raise UsageError(f"--break-on: {name} is no number: compare it with = or !=")
        return _text_test(_TEXTS[name], value, is_equal=operator == "=")
    if name in _NUMBERS:
        try:
            number = float(value)
        except ValueError as error:
            raise UsageError(f"--break-on: {name} is a number, not {value[:20]!r}") from error
        return _number_test(_NUMBERS[name], _OPERATORS[operator], number)
    near = _near(name, [*_TEXTS, *_NUMBERS])
    raise UsageError(
        f"--break-on: nothing is known of {name[:_TOLD_MOST]!r}{near}; "
        f"write one of {', '.join((*_TEXTS, *_NUMBERS))}"
    )


def _near(word: str, known: Iterable[str]) -> str:
    near = get_close_matches(word, list(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def _text_test(
    values: Callable[[Happened, Sequence[Job]], Iterable[str]], wanted: str, *, is_equal: bool
) -> Test:
    return lambda happened, jobs: (wanted in values(happened, jobs)) is is_equal


def _number_test(
    values: Callable[[Happened, Sequence[Job]], Iterable[float]],
    compare: Callable[[Any, Any], bool],
    wanted: float,
) -> Test:
    return lambda happened, jobs: any(compare(value, wanted) for value in values(happened, jobs))


def _about(happened: Happened) -> list[Job]:
    """Return the jobs that an event is about."""
    event, result = happened.event, happened.result
    jobs = list(result.launched)
    job_id = getattr(event, "job_id", None)
    if job_id is not None:
        job = happened.state.jobs.get(job_id)
        if job is None and result.departed is not None and result.departed.job_id == job_id:
            job = result.departed
        if job is not None and job not in jobs:
            jobs.append(job)
    return jobs


def _of_kinds(*kinds: type[Event]) -> Callable[[Happened], Sequence[Job] | None]:
    return lambda happened: _about(happened) if type(happened.event) in kinds else None


def _started(happened: Happened) -> Sequence[Job] | None:
    return happened.result.launched or None


def _preempted(happened: Happened) -> Sequence[Job] | None:
    """Return the job that an event preempts, as the fold counts it."""
    event = happened.event
    if not isinstance(event, AllocationChanged) or not is_preemption(event):
        return None
    job = happened.state.jobs.get(event.job_id)
    is_counted = job is not None and job.preempted_at_us[-1:] == (event.at_us,)
    return [job] if is_counted and job is not None else None


def _nodes(happened: Happened, jobs: Sequence[Job]) -> set[str]:
    event = happened.event
    own = getattr(event, "node", None)
    allocation = getattr(event, "allocation", None)
    nodes = {share.node for job in jobs for share in job.held.shares}
    nodes |= {share.node for share in allocation.shares} if allocation is not None else set()
    return nodes | ({own} if own is not None else set())


def _rules(happened: Happened, jobs: Sequence[Job]) -> list[str]:
    because = getattr(happened.event, "because", None)
    return [getattr(happened.event, "rule", "") if because is None else because.rule]


def _reasons(happened: Happened, jobs: Sequence[Job]) -> list[str]:
    event = happened.event
    if isinstance(event, RoundPlanned):
        return [entry.wait.reason.value for entry in event.waits if entry.wait is not None]
    wait = getattr(event, "wait", None)
    reason = getattr(event, "reason", "") if wait is None else wait.reason
    return [str(reason)]


_WHATS: Final[Mapping[str, Callable[[Happened], Sequence[Job] | None]]] = {
    "submit": _of_kinds(JobSubmitted),
    "start": _started,
    "preempt": _preempted,
    "suspend": _of_kinds(JobSuspended),
    "lose": _of_kinds(AttemptLost, NodeLost),
    "finish": _of_kinds(JobFinished),
    "fail": _of_kinds(JobFailed),
    "cancel": _of_kinds(JobCancelled),
    "reject": _of_kinds(JobRejected),
    "refuse": _of_kinds(PlanRejected),
    "round": _of_kinds(RoundPlanned),
}

_TEXTS: Final[Mapping[str, Callable[[Happened, Sequence[Job]], Iterable[str]]]] = {
    "job": lambda happened, jobs: [job.job_id for job in jobs],
    "user": lambda happened, jobs: [job.spec.user for job in jobs],
    "queue": lambda happened, jobs: [job.spec.queue for job in jobs],
    "name": lambda happened, jobs: [job.spec.name for job in jobs],
    "node": _nodes,
    "rule": _rules,
    "reason": _reasons,
}

_NUMBERS: Final[Mapping[str, Callable[[Happened, Sequence[Job]], Iterable[float]]]] = {
    "gpus": lambda happened, jobs: [job.spec.gpus for job in jobs],
    "waiting": lambda happened, jobs: [happened.counts.waiting],
    "running": lambda happened, jobs: [happened.counts.running],
    "free": lambda happened, jobs: [
        sum(pool.gpus_free for pool in happened.state.cluster.pools.values())
    ],
}

_OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": eq,
    "!=": ne,
    ">": gt,
    ">=": ge,
    "<": lt,
    "<=": le,
}
