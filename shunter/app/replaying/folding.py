"""From a log to a state: decode, fold, and hold every snapshot on the way to what was folded.

This is the fast way through a log, with no policy in it. The frames come checked from the reader,
so what can go wrong here is a snapshot that tells another story than the events do.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from shunter.app.gc_control import collector_off
from shunter.app.snapshots import check_outcomes, check_state, state_of
from shunter.core.fold import RULES
from shunter.core.state import State
from shunter.errors import IllegalEventError
from shunter.events.kinds import Event
from shunter.events.log import Frame, LogReader, Snapshot

Advance = Callable[[int, int], None]
"""Told how many events are done, and of how many."""


@dataclass(slots=True)
class Folded:
    """What a log says up to its last folded event, and how many snapshots agreed."""

    state: State = field(default_factory=State)
    snapshots: int = 0


def fold_events(state: State, events: Sequence[Event]) -> None:
    """Fold events in order, as fast as it goes.

    Raises:
        IllegalEventError: one contradicts the state or is older than it; names its number.
    """
    rules, now_us = RULES, state.now_us
    try:
        for event in events:
            at_us = event.at_us
            if at_us < now_us:
                refuse_older(at_us, now_us)
            rules[type(event)](state, event)
            state.now_us = now_us = at_us
            state.seq += 1
    except IllegalEventError as error:
        raise IllegalEventError(f"the event {state.seq + 1} does not fit: {error}") from error
    state.launched.clear()


async def fold_log(
    reader: LogReader, to: int | None = None, advance: Advance | None = None
) -> Folded:
    """Fold a log up to `to`, and compare with each snapshot on the way.

    Raises:
        LogDamagedError: the bytes are not what was written, or a snapshot differs.
        IllegalEventError: an event does not fit those before it.
    """
    folded = Folded()
    state = folded.state
    snapshots = [
        snapshot for snapshot in await reader.snapshots() if to is None or snapshot.seq <= to
    ]
    pending = snapshots[::-1]
    last = (await reader.head()).seq if to is None else to
    with collector_off():
        async for frame in reader.frames(0, to):
            for events in cut(frame, pending, to):
                fold_events(state, events)
                while pending and pending[-1].seq == state.seq:
                    check_state(state, pending.pop())
                    folded.snapshots += 1
            if advance is not None:
                advance(state.seq, last)
    await check_outcomes(reader, state, snapshots)
    return folded


async def state_at(reader: LogReader, seq: int) -> State:
    """Return the state right after an event, from the newest snapshot before it."""
    snapshot = await reader.snapshot_at(seq)
    state = State() if snapshot is None else await state_of(reader, snapshot)
    with collector_off():
        async for frame in reader.frames(state.seq, seq):
            fold_events(state, frame.events(state.seq, seq))
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
