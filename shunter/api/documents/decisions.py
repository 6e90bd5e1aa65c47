"""One decision of the log: the round, what it changed and why, and what it left waiting.

A decision's facts follow each other in the log and have one instant: first what the policy was
asked (`RoundPlanned`, after `TargetsSet` or `SizesSet` where anything was solved for), then what
came of it.
"""

from collections.abc import Sequence
from hashlib import blake2b

from shunter.api.documents.dates import with_dates
from shunter.api.documents.queue import Dated
from shunter.ask.log_reading import is_part
from shunter.ask.words import fact_in_words
from shunter.errors import NotFoundError
from shunter.events.codec import encode_payload
from shunter.events.facts import (
    TRIALS,
    AllocationChanged,
    Event,
    GangApproved,
    GangProposed,
    GangRejected,
    JobReshaped,
    PlanRejected,
    ReservationSet,
    RoundPlanned,
    WaitReasonChanged,
)
from shunter.events.log import LogReader
from shunter.events.schema import to_object
from shunter.events.values import ClassWait

FACTS_MOST = 100_000
WINDOW = 512

Found = list[tuple[int, Event]]
"""The facts of one decision with their numbers, its round first."""


async def find_decision(reader: LogReader, seq: int) -> Found:
    """Return the decision that an event belongs to, or the last one before it.

    Raises:
        NotFoundError: nothing was decided up to there.
    """
    head = (await reader.head()).seq
    if not 0 < seq <= head:
        raise NotFoundError(f"there is no event {seq}: the log ends at {head}")
    upto, found = seq, None
    while found is None and upto > max(0, seq - FACTS_MOST):
        after = max(0, upto - WINDOW)
        number = after
        async for event in reader.events(after, upto):
            number += 1
            if isinstance(event, RoundPlanned):
                found = number
        upto = after
    if found is None:
        raise NotFoundError(f"nothing was decided among the last {FACTS_MOST:,} events up to {seq}")
    facts: Found = []
    number = found - 1
    async for event in reader.events(found - 1, min(head, found + FACTS_MOST)):
        number += 1
        if facts and not is_part(event):
            break
        facts.append((number, event))
    return facts


_CHANGES = (AllocationChanged, JobReshaped, ReservationSet, *TRIALS, GangProposed, GangApproved)


def decision_document(facts: Found, policy: str, dated: Dated) -> dict[str, object]:
    """Return a decision with everything it says."""
    seq, planned = facts[0]
    assert isinstance(planned, RoundPlanned), "a decision begins with its round"
    parts = facts[1:]
    waits = [to_object_of(entry) for entry in planned.waits]
    return {
        "schema_version": 1,
        "seq": seq,
        "at": dated(planned.at_us),
        "round": planned.number,
        "trigger": planned.trigger.value,
        "seen": planned.seen,
        "policy": policy,
        "last_seq": facts[-1][0],
        "changes": _named(parts, _CHANGES),
        "refused": _named(parts, (PlanRejected, GangRejected)),
        "waits": [*waits, *_named(parts, (WaitReasonChanged,))],
        "words": with_dates([fact_in_words(event) for _, event in facts], dated),
        "digest": blake2b(
            encode_payload([event for _, event in facts]), digest_size=16
        ).hexdigest(),
    }


def to_object_of(entry: ClassWait) -> dict[str, object]:
    """Return what a class of equal jobs waits for, with its fields by name."""
    wait = entry.wait
    return {
        "gpus": entry.demand.gpus,
        "queue": entry.demand.queue,
        "reason": None if wait is None else wait.reason.value,
        "needed": 0 if wait is None else wait.needed,
        "free": 0 if wait is None else wait.free,
        "blockers": [] if wait is None else list(wait.blockers),
    }


def _named(parts: Sequence[tuple[int, Event]], kinds: tuple[type[Event], ...]) -> list[object]:
    return [{"seq": seq, **to_object(event)} for seq, event in parts if isinstance(event, kinds)]
