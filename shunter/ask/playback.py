"""A log played back: each event at its instant, so many times faster than it happened."""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from operator import eq, ge, gt, le, lt, ne
from types import MappingProxyType
from typing import Any, Final

import anyio

from shunter.ask.log_reading import Advance, LogFold
from shunter.ask.run_history import JobCounts, jobs_of
from shunter.ask.scores import Measures, measures_at, score_of, used_by_jobs
from shunter.ask.words import allocation_in_words, fact_in_words, gpus_in_words
from shunter.clock import monotonic_s
from shunter.core import FoldResult, Job, State
from shunter.errors import UsageError
from shunter.events import (
    KINDS,
    AllocationChanged,
    AttemptLost,
    DecisionEvent,
    Event,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobId,
    JobRejected,
    JobSubmitted,
    JobSuspended,
    NodeLost,
    PlanRejected,
    RoundPlanned,
    is_preemption,
)
from shunter.events.log import LogReader

#     expression = [what] condition …      all of them must hold
#     what       = submit | start | preempt | finish | … | a kind of event, such as NodeLost
#     condition  = name operator value     operators: = != and, of numbers, < <= > >=
#
# For example `preempt job=j42`, `start gpus>=8 user=ann`, `waiting>100`. Names are those of an
# event (`job`, `user`, `queue`, `name`, `gpus`, `node`, `rule`, `reason`), or of what is true after
# it (`waiting`, `running`, `free`).

_TERM = re.compile(r"([a-z]+)(!=|>=|<=|=|>|<)(.+)", re.DOTALL)
_WORD = re.compile(r"[A-Za-z]+")
_QUOTED_MOST = 60


@dataclass(frozen=True, slots=True)
class FoldedEvent:
    """An event, the state after it, what became of jobs, and how many wait and run."""

    event: Event
    state: State
    result: FoldResult
    counts: JobCounts


Test = Callable[[FoldedEvent, Sequence[Job]], bool]
"""Says whether a condition holds of an event and the jobs that it is about."""


@dataclass(frozen=True)
class Expression:
    """What somebody looks for, in his words."""

    text: str
    _jobs: Callable[[FoldedEvent], Sequence[Job] | None]
    _tests: Sequence[Test]

    def holds(self, happened: FoldedEvent) -> bool:
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
        raise UsageError(
            f"--break-on {text[:_QUOTED_MOST]!r}: {error}: close the quotes"
        ) from error
    if not words:
        raise UsageError("--break-on is empty: write such as 'preempt job=j42' or 'waiting>100'")
    what: Callable[[FoldedEvent], Sequence[Job] | None] = _about
    if _WORD.fullmatch(words[0]):
        what = _what(words.pop(0))
    return Expression(text, what, [_condition(word) for word in words])


def _what(word: str) -> Callable[[FoldedEvent], Sequence[Job] | None]:
    found = _WHATS.get(word)
    if found is not None:
        return found
    kind = KINDS.get(word)
    if kind is not None:
        return _of_kinds(kind)
    near = _near(word, [*_WHATS, *KINDS])
    raise UsageError(
        f"--break-on: {word[:_QUOTED_MOST]!r} is nothing that happens{near}; "
        f"write one of {', '.join(_WHATS)}, or a kind of event, such as NodeLost"
    )


def _condition(word: str) -> Test:
    found = _TERM.fullmatch(word)
    if found is None:
        raise UsageError(
            f"--break-on: {word[:_QUOTED_MOST]!r} is no condition: "
            "write such as user=ann or gpus>=8"
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
        f"--break-on: nothing is known of {name[:_QUOTED_MOST]!r}{near}; "
        f"write one of {', '.join((*_TEXTS, *_NUMBERS))}"
    )


def _near(word: str, known: Iterable[str]) -> str:
    near = get_close_matches(word, list(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def _text_test(
    values: Callable[[FoldedEvent, Sequence[Job]], Iterable[str]], wanted: str, *, is_equal: bool
) -> Test:
    return lambda happened, jobs: (wanted in values(happened, jobs)) is is_equal


def _number_test(
    values: Callable[[FoldedEvent, Sequence[Job]], Iterable[float]],
    compare: Callable[[Any, Any], bool],
    wanted: float,
) -> Test:
    return lambda happened, jobs: any(compare(value, wanted) for value in values(happened, jobs))


def _about(happened: FoldedEvent) -> list[Job]:
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


def _of_kinds(*kinds: type[Event]) -> Callable[[FoldedEvent], Sequence[Job] | None]:
    return lambda happened: _about(happened) if type(happened.event) in kinds else None


def _started(happened: FoldedEvent) -> Sequence[Job] | None:
    return happened.result.launched or None


def _preempted(happened: FoldedEvent) -> Sequence[Job] | None:
    """Return the job that an event preempts, as the fold counts it."""
    event = happened.event
    if not isinstance(event, AllocationChanged) or not is_preemption(event):
        return None
    job = happened.state.jobs.get(event.job_id)
    is_counted = job is not None and job.preempted_at_us[-1:] == (event.at_us,)
    return [job] if is_counted and job is not None else None


def _nodes(happened: FoldedEvent, jobs: Sequence[Job]) -> set[str]:
    event = happened.event
    own = getattr(event, "node", None)
    allocation = getattr(event, "allocation", None)
    nodes = {share.node for job in jobs for share in job.held.shares}
    nodes |= {share.node for share in allocation.shares} if allocation is not None else set()
    return nodes | ({own} if own is not None else set())


def _rules(happened: FoldedEvent, jobs: Sequence[Job]) -> list[str]:
    because = getattr(happened.event, "because", None)
    return [getattr(happened.event, "rule", "") if because is None else because.rule]


def _reasons(happened: FoldedEvent, jobs: Sequence[Job]) -> list[str]:
    event = happened.event
    if isinstance(event, RoundPlanned):
        return [entry.wait.reason.value for entry in event.waits if entry.wait is not None]
    wait = getattr(event, "wait", None)
    reason = getattr(event, "reason", "") if wait is None else wait.reason
    return [str(reason)]


_WHATS: Final[Mapping[str, Callable[[FoldedEvent], Sequence[Job] | None]]] = {
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

_TEXTS: Final[Mapping[str, Callable[[FoldedEvent, Sequence[Job]], Iterable[str]]]] = {
    "job": lambda happened, jobs: [job.job_id for job in jobs],
    "user": lambda happened, jobs: [job.spec.user for job in jobs],
    "queue": lambda happened, jobs: [job.spec.queue for job in jobs],
    "name": lambda happened, jobs: [job.spec.name for job in jobs],
    "node": _nodes,
    "rule": _rules,
    "reason": _reasons,
}

_NUMBERS: Final[Mapping[str, Callable[[FoldedEvent, Sequence[Job]], Iterable[float]]]] = {
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


SPEED_MOST = 1e9
_SPEED = re.compile(r"([0-9]{1,10}(?:\.[0-9]{1,6})?)x?")
_FIELDS = ("node", "attempt", "cause", "exit_code", "step", "by", "gpus", "priority")

NO_MEASURES: Measures = MappingProxyType({})

Show = Callable[[int, Event, State], None]
"""Told of each event with its number, once its time has come; and of the state after it."""


@dataclass(frozen=True)
class Played:
    """The state after the last event, and the event that was looked for, if it came."""

    state: State
    found: Event | None


def speed_of(text: str) -> float:
    """Return how many times faster than it happened: `100x`, `0.5x`, `100`.

    Raises:
        UsageError: it is none, or 0.
    """
    found = _SPEED.fullmatch(text.strip())
    speed = float(found.group(1)) if found else 0.0
    if not 0 < speed <= SPEED_MOST:
        raise UsageError(f"--speed {text[:40]}: write how many times faster, such as 100x or 0.5x")
    return speed


async def play(
    reader: LogReader,
    after: int,
    to: int,
    *,
    expression: Expression | None = None,
    speed: float | None = None,
    show: Show | None = None,
    advance: Advance | None = None,
) -> Played:
    """Fold a log event by event, up to what is looked for.

    Args:
        reader: the log.
        after: up to this event nothing is looked for, shown or waited for.
        to: the last event.
        expression: what to stop at; None: at the last event.
        speed: how many times faster than it happened; None: as fast as it goes.
        show: told of each event.
        advance: told how many events are done, and of how many.
    Raises:
        LogDamagedError: the bytes are not what was written.
        IllegalEventError: an event does not fit those before it.
    """
    fold, counts, pace = LogFold(reader), JobCounts(), _Pace(speed)
    state = fold.state
    async for events in fold.read(to, advance):
        for event in events:
            result = fold.step(event)
            for job_id in jobs_of(event, result):
                counts.note(job_id, state)
            if state.seq <= after:
                continue
            await pace.keep(event.at_us)
            if show is not None:
                show(state.seq, event, state)
            happened = FoldedEvent(event, state, result, counts)
            if expression is not None and expression.holds(happened):
                return Played(state, event)
    return Played(state, None)


def event_in_words(event: Event, state: State, measures: Measures = NO_MEASURES) -> str:
    """Return any event in a line.

    Args:
        event: what happened.
        state: that after it.
        measures: what scores count.
    """
    if isinstance(event, DecisionEvent | JobCancelled | JobRejected):
        used = used_by_jobs(state, event.at_us, [JobId(getattr(event, "job_id", "") or "")])
        return fact_in_words(event, score_of(event, measures_at(measures, state.seq), used))
    job_id = JobId(getattr(event, "job_id", ""))
    words = [type(event).__name__, *([job_id] if job_id else [])]
    if isinstance(event, JobSubmitted):
        words += [f"by {event.spec.user}"] if event.spec.user else []
        words.append(f"for {gpus_in_words(event.spec.gpus)}")
    for name in _FIELDS:
        value = getattr(event, name, None)
        if value not in (None, "", ()):
            words.append(f"{name}={value}")
    job = state.jobs.get(job_id)
    if job is not None and job.held.shares:
        words.append(f"on {allocation_in_words(job.held, 4)}")
    return " ".join(words)


class _Pace:
    """Waits until the time of an event has come; what is late is made up for."""

    def __init__(self, speed: float | None) -> None:
        self._speed = speed
        self._first: tuple[int, float] | None = None

    async def keep(self, at_us: int) -> None:
        """Wait for an instant of the log."""
        if self._speed is None:
            return
        now_s = monotonic_s()
        if self._first is None:
            self._first = at_us, now_s
        began_us, began_s = self._first
        due_s = began_s + (at_us - began_us) / 1e6 / self._speed
        if due_s > now_s:
            await anyio.sleep(due_s - now_s)
