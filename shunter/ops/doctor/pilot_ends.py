"""Pilots of Slurm that ended with jobs in them, and who was preempted for these, by a log."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from shunter.events.values import DISPLACED, HELD, NODE_LOST, RESIZED

if TYPE_CHECKING:
    from shunter.client.requests import Answer

__all__ = ["KINDS", "moved_by_pilots"]

KINDS = "JobSuspended,AttemptLost,AllocationChanged"
PILOT = "the pilot on node "
_NO_PREEMPTION = [each.rule for each in (HELD, NODE_LOST, DISPLACED, RESIZED)]


def moved_by_pilots(events: "Iterable[Answer]") -> dict[str, tuple[list[str], list[str]]]:
    """Return who left with each pilot that ended, and who was preempted for these.

    Args:
        events: those of the kinds `KINDS`, in order.
    """
    found: dict[str, tuple[list[str], list[str]]] = {}
    ends: dict[str, str] = {}
    given: dict[str, str] = {}
    for event in events:
        job, kind, at = event["job_id"], event["kind"], event["at"]
        if kind != "AllocationChanged":
            ends.pop(job, None)
            given.pop(job, None)
            cause = event.get("cause", "")
            if cause.startswith(PILOT):
                ends[job] = cause
                found.setdefault(cause, ([], []))[0].append(job)
        elif event["allocation"].get("shares"):
            given[job] = at
        elif event["because"]["rule"] not in _NO_PREEMPTION:
            for gainer in event["because"].get("beneficiaries", ()):
                # In one plan those that leave and those that gain may come in either order.
                if gainer in ends and given.get(gainer, at) == at:
                    found[ends[gainer]][1].append(job)
    return found
