"""Facts of gangs that job schedulers propose, and what the approver said of them.

A job's own scheduler proposes in a round, and all of it is decided. Where somebody else's scheduler
proposes, that is commanded, and what the approver says follows from it and from the state.
"""

from collections.abc import Mapping
from typing import TypeAlias

from shunter.events.values.allocation import Allocation
from shunter.events.values.causes import CALLER, REPEATED
from shunter.events.values.fact import event
from shunter.events.values.fact_class import COMMANDED, DECIDED, DERIVED, OBSERVED, KindClass
from shunter.events.values.ids import JobId, NodeName
from shunter.events.values.reasons import Reason


@event
class GangProposed:
    """A job scheduler proposed candidate placements, made from the view of `version`.

    `version` is the sequence number of the last event in that view. `cause` is empty where the
    job's own scheduler did so, and `caller` where somebody else's did, whose user is `by`.
    """

    at_us: int
    job_id: JobId
    version: int
    candidates: tuple[Allocation, ...]
    cause: str = ""
    by: str = ""


@event
class GangApproved:
    """The approver granted a proposal whole: the candidate with the number `choice`.

    `version` is the sequence number of the last event it looked at.
    """

    at_us: int
    job_id: JobId
    version: int
    choice: int
    cause: str = ""


@event
class GangRejected:
    """The approver refused a proposal: what was taken, and the version that shows it.

    `conflicts` are the GPUs of its first candidate that are not free for it, by server. From
    `retry_us` on its scheduler proposes again; None: that is not ours to say. With the cause
    `repeated`, `count` further proposals of the job were refused in a round, and nothing else is
    recorded of them.
    """

    at_us: int
    job_id: JobId
    version: int
    reason: Reason
    conflicts: tuple[tuple[NodeName, int], ...] = ()
    cause: str = ""
    detail: str = ""
    retry_us: int | None = None
    count: int = 1


GangFact: TypeAlias = GangProposed | GangApproved | GangRejected
GANGS = (GangProposed, GangApproved, GangRejected)
"""What job schedulers proposed, and what became of it."""

CLASSES: Mapping[type, KindClass] = {
    GangProposed: KindClass(DECIDED, "cause", {CALLER: COMMANDED}),
    GangApproved: KindClass(DECIDED, "cause", {CALLER: DERIVED}),
    GangRejected: KindClass(DECIDED, "cause", {CALLER: DERIVED, REPEATED: OBSERVED}),
}
"""Where facts of proposals come from."""
