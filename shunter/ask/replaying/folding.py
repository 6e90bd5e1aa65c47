"""From a log to a state: decode, fold, and hold every snapshot on the way to what was folded.

This is the fast way through a log, with no policy in it. The frames come checked from the reader,
so what can go wrong here is a snapshot that tells another story than the events do.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, Protocol

from shunter.core.fold import RULES
from shunter.core.state import NO_RESULT, FoldResult, Rule, State
from shunter.errors import IllegalEventError
from shunter.events.facts.jobs import JOB_ENDS, JobSubmitted
from shunter.events.kinds import Event
from shunter.events.log import Frame, LogReader, Snapshot
from shunter.events.past_jobs import MemoryPastJobs
from shunter.gc_control import collector_off
from shunter.run.snapshots import check_outcomes, check_state, past_of, state_of

Advance = Callable[[int, int], None]
"""Told how many events are done, and of how many."""

Rules = Mapping[type[Event], Rule]
"""What folds the events of each kind."""


class Listener(Protocol):
    """Who is told of a log as it is folded."""

    def passes(self, state: State, until_us: int) -> None:
        """Note that all stays as it is from the state's instant to a later one."""
        ...

    def tell(self, event: Event, state: State, result: FoldResult) -> None:
        """Take an event that has just been folded, and what became of jobs with it."""
        ...


@dataclass(slots=True)
class Folded:
    """What a log says up to its last folded event, and how many snapshots agreed."""

    state: State = field(default_factory=State)
    past: MemoryPastJobs = field(default_factory=MemoryPastJobs)
    snapshots: int = 0


def rules_of_log(past: MemoryPastJobs) -> Rules:
    """Return the rules for the events of a log, which old versions may have written.

    Their submissions do not say how dependencies had ended: that is completed before the fold, from
    what came before.

    Args:
        past: what the log says of past jobs before the first event that is folded; kept up to date.
    """
    rules = dict(RULES)

    def submitted(state: State, event: JobSubmitted) -> None:
        RULES[JobSubmitted](state, past.completed(event))
        past.take(state.seq + 1, event)

    def ending(kind: type[Event]) -> Rule:
        fold = RULES[kind]

        def ended(state: State, event: Event) -> FoldResult | None:
            result = fold(state, event)
            past.take(state.seq + 1, event)
            return result

        return ended

    rules.update({kind: ending(kind) for kind in JOB_ENDS})
    rules[JobSubmitted] = submitted
    return rules


async def restored(reader: LogReader, snapshot: Snapshot | None) -> tuple[State, Rules]:
    """Return the state in a snapshot, or an empty one; and the rules from there on.

    Raises:
        LogDamagedError: it holds none, or what it rests on is not what was written.
    """
    if snapshot is None:
        return State(), rules_of_log(MemoryPastJobs())
    past = await past_of(reader, snapshot)
    return await state_of(reader, snapshot), RULES if past is None else rules_of_log(past)


def fold_events(state: State, events: Sequence[Event], rules: Rules = RULES) -> FoldResult:
    """Fold events in order, as fast as it goes.

    Args:
        state: what is true before them.
        events: as they were made, or those of a log with its own `rules`.
        rules: what folds each kind.
    Returns:
        what became of jobs with the last of them.
    Raises:
        IllegalEventError: one contradicts the state or is older than it; names its number.
    """
    now_us, result = state.now_us, None
    try:
        for event in events:
            at_us = event.at_us
            if at_us < now_us:
                refuse_older(at_us, now_us)
            result = rules[type(event)](state, event)
            state.now_us = now_us = at_us
            state.seq += 1
    except IllegalEventError as error:
        raise IllegalEventError(f"the event {state.seq + 1} does not fit: {error}") from error
    return result or NO_RESULT


async def fold_log(
    reader: LogReader, to: int | None = None, advance: Advance | None = None
) -> Folded:
    """Fold a log up to `to`, and compare with each snapshot on the way.

    Raises:
        LogDamagedError: the bytes are not what was written, or a snapshot differs.
        IllegalEventError: an event does not fit those before it.
    """
    folded = Folded()
    state, rules = folded.state, rules_of_log(folded.past)
    snapshots = [
        snapshot for snapshot in await reader.snapshots() if to is None or snapshot.seq <= to
    ]
    pending = snapshots[::-1]
    last = (await reader.head()).seq if to is None else to
    with collector_off():
        async for frame in reader.frames(0, to):
            for events in cut(frame, pending, to):
                fold_events(state, events, rules)
                while pending and pending[-1].seq == state.seq:
                    check_state(state, pending.pop(), folded.past)
                    folded.snapshots += 1
            if advance is not None:
                advance(state.seq, last)
    await check_outcomes(reader, folded.past, snapshots)
    return folded


async def fold_telling(
    reader: LogReader,
    listeners: Sequence[Listener],
    to: int | None = None,
    advance: Advance | None = None,
) -> State:
    """Fold a log up to `to`, telling of each event; snapshots are left alone.

    Raises:
        LogDamagedError: the bytes are not what was written.
        IllegalEventError: an event does not fit those before it.
    """
    state, rules = State(), rules_of_log(MemoryPastJobs())
    last = (await reader.head()).seq if to is None else to
    with collector_off():
        async for frame in reader.frames(0, to):
            _fold_telling(state, frame.events(0, to), rules, listeners)
            if advance is not None:
                advance(state.seq, last)
    return state


def _fold_telling(
    state: State, events: Sequence[Event], rules: Rules, listeners: Sequence[Listener]
) -> None:
    now_us, tells = state.now_us, [listener.tell for listener in listeners]
    try:
        for event in events:
            at_us = event.at_us
            if at_us != now_us:
                if at_us < now_us:
                    refuse_older(at_us, now_us)
                for listener in listeners:
                    listener.passes(state, at_us)
            result = rules[type(event)](state, event) or NO_RESULT
            state.now_us = now_us = at_us
            state.seq += 1
            for tell in tells:
                tell(event, state, result)
    except IllegalEventError as error:
        raise IllegalEventError(f"the event {state.seq + 1} does not fit: {error}") from error


async def state_at(reader: LogReader, seq: int) -> State:
    """Return the state right after an event, from the newest snapshot before it."""
    state, rules = await restored(reader, await reader.snapshot_at(seq))
    with collector_off():
        async for frame in reader.frames(state.seq, seq):
            fold_events(state, frame.events(state.seq, seq), rules)
    return state


def refuse_older(at_us: int, now_us: int) -> NoReturn:
    """Raise IllegalEventError: time never goes back."""
    raise IllegalEventError(f"it happened at {at_us} us, after one at {now_us} us")


def cut(frame: Frame, pending: Sequence[Snapshot], to: int | None) -> Iterator[Sequence[Event]]:
    """Yield a frame's events up to `to`, in runs that end at snapshots.

    `pending` are the snapshots to come, the next one last.
    """
    events = frame.events(0, to)
    first, last = frame.first_seq, frame.first_seq + len(events) - 1
    ends = [snapshot.seq for snapshot in reversed(pending) if first <= snapshot.seq < last]
    start = 0
    for end in ends:
        yield events[start : end + 1 - first]
        start = end + 1 - first
    yield events[start:] if start else events
