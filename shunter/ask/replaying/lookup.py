"""Finding the place in a log that a person means: an event number, an instant, a whole decision.

A decision's facts follow each other in the log and have one instant: what was solved for, the
round, and what came of it. Between two of them nothing is true that anybody could act on.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from difflib import get_close_matches

from shunter.ask.replaying.instants import clock, instant_us
from shunter.errors import NotFoundError, UsageError
from shunter.events.fact_classes import FactClass, class_of
from shunter.events.facts.decisions import (
    SOLVED,
    TRIALS,
    AllocationChanged,
    JobReshaped,
    PlanRejected,
    ReservationSet,
    RoundPlanned,
    WaitReasonChanged,
)
from shunter.events.facts.gangs import GANGS
from shunter.events.facts.run import SchedulerStarted
from shunter.events.kinds import Event
from shunter.events.log import LogReader

_PARTS = (
    *(AllocationChanged, JobReshaped, PlanRejected, ReservationSet, WaitReasonChanged),
    *TRIALS,
)
_SEQ = re.compile(r"e?([0-9][0-9,_]{0,25})")
NEAREST = 3
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
    if isinstance(event, (AllocationChanged, *GANGS)):
        return class_of(event) is FactClass.decided
    return isinstance(event, _PARTS)


def _begins(event: Event) -> bool:
    """Say whether an event is a round, or what was solved for before it."""
    return isinstance(event, (*SOLVED, RoundPlanned))


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


async def first_start(reader: LogReader) -> SchedulerStarted | None:
    """Return the event that opens the log, if it is a start."""
    async for event in reader.events(0, 1):
        return event if isinstance(event, SchedulerStarted) else None
    return None


def unknown_job(job_id: str, known: Sequence[str], url: str) -> NotFoundError:
    """Return the error for a job a log does not have, with the nearest it has."""
    near = get_close_matches(job_id, known, n=NEAREST, cutoff=0.5)
    hint = f"; the nearest are {', '.join(near)}" if near else ""
    return NotFoundError(f"there is no job {job_id!r} in {url}{hint}")
