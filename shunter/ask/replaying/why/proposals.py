"""What became of a job's proposals: whether it may be proposed, and why it was rejected last."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from shunter.ask.replaying.formatting import allocation_in_words
from shunter.ask.replaying.instants import clock
from shunter.core.state import Rejection, admitted_wait, rejected_wait
from shunter.counting import counted
from shunter.events.codec import row_fields
from shunter.events.facts.decisions import RoundPlanned
from shunter.events.facts.gangs import GangRejected
from shunter.events.kinds import Event
from shunter.events.values.allocation import Allocation, Share
from shunter.events.values.ids import JobId
from shunter.events.values.reasons import Wait

_ADMITTED = row_fields(RoundPlanned).index("admitted")
_DISMISSED = row_fields(RoundPlanned).index("dismissed")
GPUS_NAMED = 4


@dataclass(frozen=True)
class Admission:
    """From when on a job may be proposed, or no longer may."""

    seq: int
    at_us: int
    is_admitted: bool


def admission_of(seq: int, row: Sequence[Any], job_id: JobId) -> Iterable[Admission]:
    """Yield what the row of a round says of whether a job may be proposed."""
    if len(row) > _ADMITTED and job_id in row[_ADMITTED]:
        yield Admission(seq, row[1], is_admitted=True)
    if len(row) > _DISMISSED and job_id in row[_DISMISSED]:
        yield Admission(seq, row[1], is_admitted=False)


def proposal_wait(
    events: Iterable[tuple[int, Event]], admissions: Sequence[Admission], after: int, at_us: int
) -> Wait | None:
    """Return why a job waits that may be proposed at an instant; None: it may not.

    Args:
        events: those of the job, by number.
        admissions: when it might be proposed, in order.
        after: the event with which the wait began.
        at_us: the instant; all of it has happened.
    """
    known = [one for one in admissions if one.at_us <= at_us and one.seq > after]
    if not known or not known[-1].is_admitted:
        return None
    rejections = [
        event
        for seq, event in events
        if seq > known[-1].seq and isinstance(event, GangRejected) and event.at_us <= at_us
    ]
    return rejected_wait(rejections[-1].conflicts) if rejections else admitted_wait()


def rejection_in_words(last: Rejection) -> str:
    """Return when, how often, and by which GPUs the proposals of a job were rejected."""
    times = "" if last.count == 1 else f", {counted(last.count, 'time')} in a row by then"
    words = f"its proposal was rejected at {clock(last.at_us)}{times}"
    if last.conflicts:
        taken = Allocation(tuple(Share(node, mask) for node, mask in last.conflicts))
        words += f": GPUs {allocation_in_words(taken, GPUS_NAMED)} were not free for it"
    words += f" ({last.reason}: {last.detail})" if last.detail else f" ({last.reason})"
    return (
        words if last.retry_us is None else f"{words}; proposed again from {clock(last.retry_us)}"
    )
