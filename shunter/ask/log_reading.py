"""A log read: the place in it that a person means, and the state that it says there."""

import re
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from heapq import nlargest
from operator import itemgetter
from typing import NoReturn, Self

from shunter.ask.words import clock, instant_us
from shunter.core import NO_RESULT, FoldResult, Rule, State
from shunter.core.fold import RULES
from shunter.errors import IllegalEventError, NotFoundError, UsageError
from shunter.events import (
    GANGS,
    JOB_ENDS,
    SOLVED,
    TRIALS,
    Event,
    FactClass,
    MemoryPastJobs,
    class_of,
    facts,
)
from shunter.events.log import Frame, LogReader, Snapshot
from shunter.gc_control import collector_off
from shunter.run import check_outcomes, check_state, past_of, state_of

# The reader checks the frames, so what can go wrong is a snapshot that differs from the fold.

Advance = Callable[[int, int], None]
"""Told how many events are done, and of how many."""

Rules = Mapping[type[Event], Rule]
"""What folds the events of each kind."""


class Follower:
    """Gets each event of a log that is folded, with the state before and after."""

    def before(self, event: Event, state: State) -> None:
        """Look at the state that an event, the next one, is about to change."""

    def take(self, event: Event, state: State, result: FoldResult) -> None:
        """Take an event that has just been folded, and what became of jobs with it."""


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

    def submitted(state: State, event: facts.JobSubmitted) -> None:
        RULES[facts.JobSubmitted](state, past.completed(event))
        past.take(state.seq + 1, event)

    def ending(kind: type[Event]) -> Rule:
        fold = RULES[kind]

        def ended(state: State, event: Event) -> FoldResult | None:
            result = fold(state, event)
            past.take(state.seq + 1, event)
            return result

        return ended

    rules.update({kind: ending(kind) for kind in JOB_ENDS})
    rules[facts.JobSubmitted] = submitted
    return rules


async def restored(
    reader: LogReader, snapshot: Snapshot | None, *, with_jobs: bool = True
) -> tuple[State, Rules]:
    """Return the state in a snapshot, or an empty one; and the rules from there on.

    Without its jobs (`with_jobs`) it is as if they had ended.

    Raises:
        LogDamagedError: it holds none, or what it rests on is not what was written.
    """
    if snapshot is None:
        return State(), rules_of_log(MemoryPastJobs())
    past = await past_of(reader, snapshot)
    state = await state_of(reader, snapshot, with_jobs=with_jobs)
    return state, RULES if past is None else rules_of_log(past)


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


class LogFold:
    """Folds a log as it is read: `state` is that after the last event."""

    def __init__(self, reader: LogReader) -> None:
        self.state = State()
        self._reader = reader
        self._rules = rules_of_log(MemoryPastJobs())

    async def restore(self, snapshot: Snapshot | None) -> Self:
        """Go on from a snapshot; None: from where it is.

        Raises:
            LogDamagedError: it holds no state, or what it rests on is not what was written.
        """
        if snapshot is not None:
            self.state, self._rules = await restored(self._reader, snapshot)
        return self

    async def forward(
        self,
        to: int | None = None,
        followers: Sequence[Follower] = (),
        advance: Advance | None = None,
    ) -> State:
        """Fold the events up to `to`, or to the end; return the state after them.

        Snapshots are left alone.

        Raises:
            LogDamagedError: the bytes are not what was written.
            IllegalEventError: an event does not fit those before it.
        """
        with collector_off():
            async for events in self.read(to, advance):
                if followers:
                    self._fold(events, followers)
                else:
                    fold_events(self.state, events, self._rules)
        return self.state

    async def reach(self, seq: int) -> State:
        """Fold up to an event, from the newest snapshot on; return the state then.

        Raises:
            LogDamagedError: the bytes are not what was written.
            IllegalEventError: an event does not fit those before it.
        """
        snapshot = await self._reader.snapshot_at(seq)
        if snapshot is not None and snapshot.seq > self.state.seq:
            await self.restore(snapshot)
        return await self.forward(seq)

    async def read(
        self, to: int | None = None, advance: Advance | None = None
    ) -> AsyncIterator[Sequence[Event]]:
        """Read the next events, some at a time: whoever reads them folds them.

        Raises:
            LogDamagedError: the bytes are not what was written.
        """
        last = (await self._reader.head()).seq if to is None else to
        async for frame in self._reader.frames(self.state.seq, last):
            yield frame.events(self.state.seq, last)
            if advance is not None:
                advance(self.state.seq, last)

    def step(self, event: Event) -> FoldResult:
        """Fold one event; return what became of jobs with it.

        Raises:
            IllegalEventError: it does not fit those before it.
        """
        return fold_events(self.state, (event,), self._rules)

    def _fold(self, events: Sequence[Event], followers: Sequence[Follower]) -> None:
        state, rules, now_us = self.state, self._rules, self.state.now_us
        befores = [each.before for each in followers if type(each).before is not Follower.before]
        takes = [each.take for each in followers]
        try:
            for event in events:
                at_us = event.at_us
                if at_us < now_us:
                    refuse_older(at_us, now_us)
                for before in befores:
                    before(event, state)
                result = rules[type(event)](state, event) or NO_RESULT
                state.now_us = now_us = at_us
                state.seq += 1
                for take in takes:
                    take(event, state, result)
        except IllegalEventError as error:
            raise IllegalEventError(f"the event {state.seq + 1} does not fit: {error}") from error


async def state_at(reader: LogReader, seq: int) -> State:
    """Return the state right after an event, from the newest snapshot before it."""
    return await LogFold(reader).reach(seq)


def noted_us_of(event: Event) -> int | None:
    """Return when a turn changed or processes went, as its server noted.

    A scheduler that was away sees it later. None: no server noted it.
    """
    if isinstance(event, facts.TurnStarted):
        return event.began_us
    return event.ended_us if isinstance(event, facts.TurnEnded | facts.AttemptEnded) else None


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


# The place in a log that a person means. A decision's facts follow each other and have one instant;
# between two of them nothing is true that anybody could act on.

_PARTS = (
    *(
        facts.AllocationChanged,
        facts.JobReshaped,
        facts.PlanRejected,
        facts.ReservationSet,
        facts.WaitReasonChanged,
    ),
    *TRIALS,
)
_SEQ = re.compile(r"e?([0-9][0-9,_]{0,25})")
NEAREST, LIKE_LEAST = 3, 0.5
_TOLD_MOST = 60


def seq_of(text: str, last_seq: int) -> int:
    """Return an event number as a person writes it: `20871` or `e20871`.

    Raises:
        UsageError: it is none, or lies beyond the last event.
    """
    found = _SEQ.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text[:_TOLD_MOST]!r} is no event number: write 20871 or e20871")
    seq = int(found.group(1).replace(",", "").replace("_", ""))
    if seq > last_seq:
        raise UsageError(f"there is no event {seq}: the last one is {last_seq}")
    return seq


async def seq_at(reader: LogReader, at_us: int) -> int:
    """Return the number of the last event up to an instant.

    Raises:
        UsageError: the log begins later.
    """
    upto = await last_up_to(reader, at_us)
    if not upto:
        raise UsageError(f"nothing has happened yet at {clock(at_us)}")
    return upto


async def last_up_to(reader: LogReader, at_us: int) -> int:
    """Return the number of the last event up to an instant, by halving the log.

    0: the log begins later.
    """
    upto, later = 0, (await reader.head()).seq + 1
    while upto + 1 < later:
        frame = await reader.frame_with((upto + later) // 2)
        found = bisect_right(frame.events(), at_us, key=lambda event: event.at_us)
        if not found:
            later = frame.first_seq
        elif found < frame.count:
            return frame.first_seq - 1 + found
        else:
            upto = frame.last_seq
    return upto


async def place_of(
    reader: LogReader, text: str | None, origin: str | None, now_us: int | None = None
) -> tuple[int, int]:
    """Return the event and instant that a person means: (number, microseconds).

    A bare number is an event; an instant is `T+03:12:40`, `11560s`, or a date.

    Args:
        reader: the log.
        text: what the person wrote; None: the latest.
        origin: the date at which the log's time begins, if it has one.
        now_us: the time of a log that is being written; None: nobody knows beyond its last event.
    Raises:
        UsageError: there is no such event or instant, or not yet.
    """
    head = await reader.head()
    if text is not None and _SEQ.fullmatch(text.strip()):
        seq = seq_of(text, head.seq)
        return seq, await _instant_of(reader, seq)
    latest_us = await _instant_of(reader, head.seq)
    if now_us is not None:
        latest_us = max(latest_us, now_us)
    if text is None:
        return head.seq, latest_us
    at_us = instant_us(text.strip(), origin)
    if at_us > latest_us:
        what = "the log ends at" if now_us is None else "it is"
        raise UsageError(f"nothing is known of {text[:_TOLD_MOST]!r}: {what} {clock(latest_us)}")
    return await seq_at(reader, at_us), at_us


async def _instant_of(reader: LogReader, seq: int) -> int:
    async for event in reader.events(max(0, seq - 1), seq):
        return event.at_us
    return 0


def is_part(event: Event) -> bool:
    """Say whether an event tells what came of a round."""
    if isinstance(event, (facts.AllocationChanged, *GANGS)):
        return class_of(event) is FactClass.decided
    return isinstance(event, _PARTS)


def _begins(event: Event) -> bool:
    """Say whether an event is a round, or what was solved for before it."""
    return isinstance(event, (*SOLVED, facts.RoundPlanned))


async def end_of_decision(reader: LogReader, seq: int) -> int:
    """Return the last fact of the decision of an event, or the event itself."""
    previous: Event | None = None
    number = seq - 1
    async for event in reader.events(max(0, seq - 1)):
        if previous is not None:
            goes_on = is_part(event) or (isinstance(previous, SOLVED) and _begins(event))
            if not goes_on or event.at_us != previous.at_us:
                break
        elif not is_part(event) and not _begins(event):
            return seq
        previous, number = event, number + 1
    return max(seq, number)


async def first_start(reader: LogReader) -> facts.SchedulerStarted | None:
    """Return the event that opens the log, if it is a start."""
    async for event in reader.events(0, 1):
        return event if isinstance(event, facts.SchedulerStarted) else None
    return None


def unknown_job(job_id: str, known: Sequence[str], url: str) -> NotFoundError:
    """Return the error for a job a log does not have, with the nearest it has."""
    near = _nearest(job_id, known)
    hint = f"; the nearest are {', '.join(near)}" if near else ""
    return NotFoundError(f"there is no job {job_id!r} in {url}{hint}")


def _nearest(name: str, known: Iterable[str]) -> list[str]:
    """Return the names most like one, the nearest first.

    They are those of `difflib.get_close_matches`, which compares all of them, and a log has many
    thousand: here only those are compared whose letters, in whatever order, leave them a chance.
    """
    by_letters: dict[str, list[str]] = {}
    for each in known:
        by_letters.setdefault("".join(sorted(each)), []).append(each)
    matcher = SequenceMatcher(b=name)
    bounds: list[tuple[float, list[str]]] = []
    for letters, names in by_letters.items():
        matcher.set_seq1(letters)
        bounds.append((matcher.quick_ratio(), names))  # of any order of these letters
    found: list[tuple[float, str]] = []
    for bound, names in sorted(bounds, key=itemgetter(0), reverse=True):
        if bound < (found[-1][0] if len(found) == NEAREST else LIKE_LEAST):
            break
        for each in names:
            matcher.set_seq1(each)
            found.append((matcher.ratio(), each))
        found = nlargest(NEAREST, (pair for pair in found if pair[0] >= LIKE_LEAST))
    return [each for _, each in found]
