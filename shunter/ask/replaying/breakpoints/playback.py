"""A log played back: each event at its instant, so many times faster than it happened."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType

import anyio

from shunter.ask.replaying.breakpoints.expression import Expression, Happened
from shunter.ask.replaying.folding import Advance, fold_events, rules_of_log
from shunter.ask.replaying.formatting import allocation_in_words, fact_in_words, gpus_in_words
from shunter.ask.replaying.scores.measures import (
    Measures,
    measures_at,
    score_of,
    used_by_jobs,
)
from shunter.ask.run_history.job_counts import JobCounts
from shunter.clock import monotonic_s
from shunter.core.state import State
from shunter.errors import UsageError
from shunter.events.facts.decisions import DecisionEvent
from shunter.events.facts.jobs import JobCancelled, JobRejected, JobSubmitted
from shunter.events.kinds import KINDS, Event
from shunter.events.log import LogReader
from shunter.events.past_jobs import MemoryPastJobs
from shunter.events.values.ids import JobId

SPEED_MOST = 1e9
_SPEED = re.compile(r"([0-9]{1,10}(?:\.[0-9]{1,6})?)x?")
_ABOUT_JOBS = frozenset(kind for kind in KINDS.values() if "job_id" in kind.__annotations__)
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
    state, rules, counts = State(), rules_of_log(MemoryPastJobs()), JobCounts()
    pace = _Pace(speed)
    async for frame in reader.frames(0, to):
        for event in frame.events(0, to):
            result = fold_events(state, (event,), rules)
            if type(event) in _ABOUT_JOBS:
                counts.note(event.job_id, state)  # type: ignore[union-attr]  # all of these have
            for job in (*result.launched, *result.displaced):
                counts.note(job.job_id, state)
            if state.seq <= after:
                continue
            await pace.keep(event.at_us)
            if show is not None:
                show(state.seq, event, state)
            happened = Happened(event, state, result, counts)
            if expression is not None and expression.holds(happened):
                return Played(state, event)
        if advance is not None:
            advance(state.seq, to)
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
