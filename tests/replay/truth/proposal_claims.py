"""What `why` claims of a job whose scheduler proposes, as questions to the brute force."""

from shunter.ask import clock
from shunter.events import (
    Allocation,
    AllocationChanged,
    Event,
    GangApproved,
    GangProposed,
    GangRejected,
    JobId,
    NodeName,
    ReservationSet,
    RoundPlanned,
)
from tests.replay.truth.brute_force import Truth, gpus_of
from tests.replay.truth.claim import Claim

__all__ = ["admitted", "awaits_proposal", "proposal_rejected"]

RETRY_US, RETRY_MOST_US = 1_000_000, 60_000_000
"""Within what a rejected job proposes again: doubled with each rejection, up to the second."""


def admitted(truth: Truth) -> set[JobId]:
    """Return whom the order lets start, where job schedulers propose."""
    found: set[JobId] = set()
    for event in truth.events:
        if isinstance(event, RoundPlanned):
            found = found - set(event.dismissed) | set(event.admitted)
        elif isinstance(event, AllocationChanged) and event.allocation.shares:
            found.discard(event.job_id)
    return found


def awaits_proposal(claim: Claim) -> None:
    """The order lets it start, and none of its proposals was rejected since."""
    assert not _since_admitted(claim)


def proposal_rejected(claim: Claim) -> None:
    """The order lets it start, and all that it proposed since was rejected, last as is told."""
    found = _since_admitted(claim)
    assert found, "it was never proposed"
    assert not [event for _, event in found if not isinstance(event, GangRejected)]
    place, last = found[-1]
    assert isinstance(last, GangRejected)
    proposal = claim.now.events[place - 1]
    assert isinstance(proposal, GangProposed)
    assert (proposal.job_id, proposal.at_us) == (last.job_id, last.at_us)
    before = Truth(claim.now.events[: place - 1], claim.now.run, last.at_us)
    taken = _not_free(before, claim.job.job_id, gpus_of(proposal.candidates[0]))
    said = claim.said["reason"]
    masks = [part.split(":") for part in said["detail"].split()]
    told = {
        (NodeName(node), gpu)
        for node, mask in masks
        for gpu in range(int(mask, 16).bit_length())
        if int(mask, 16) >> gpu & 1
    }
    assert told == taken
    assert not claim.said["evidence"]["blockers"], "the masks say what it lacked"
    assert said["since_us"] == found[0][1].at_us, "rejections in a row are one wait"
    _again(claim, last, len(found))


def _since_admitted(claim: Claim) -> list[tuple[int, Event]]:
    """Return what became of its proposals since the order lets it start, with the places."""
    job_id, events = claim.job.job_id, claim.now.events
    assert job_id in admitted(claim.now)
    begin = max(
        place
        for place, event in enumerate(events)
        if isinstance(event, RoundPlanned) and job_id in event.admitted
    )
    return [
        (place, event)
        for place, event in enumerate(events)
        if place > begin
        and isinstance(event, GangRejected | GangApproved | AllocationChanged)
        and event.job_id == job_id
    ]


def _not_free(truth: Truth, job_id: JobId, wanted: set[tuple[NodeName, int]]) -> set[object]:
    """Return which GPUs another job has, is promised, or nobody can have."""
    kept: dict[JobId, set[tuple[NodeName, int]]] = {}
    for event in truth.events:
        if isinstance(event, ReservationSet):
            shares = event.shares if event.start_us is not None else ()
            kept[event.job_id] = gpus_of(Allocation(shares))
        elif isinstance(event, GangApproved):
            kept.pop(event.job_id, None)
    free = set().union(*truth.free().values())
    return set(wanted - free).union(*(wanted & of for who, of in kept.items() if who != job_id))


def _again(claim: Claim, last: GangRejected, times: int) -> None:
    """Check when and how often it was rejected, and from when on it proposes again."""
    (words,) = (each for each in claim.said["details"] if "its proposal was rejected" in each)
    assert f" at {clock(last.at_us)}" in words
    assert ("in a row" in words) == (times > 1)
    assert times == 1 or f", {times} times in a row" in words
    assert f"({last.reason}" in words
    assert last.retry_us is not None
    assert words.endswith(f"proposed again from {clock(last.retry_us)}")
    longest_us = min(RETRY_US << (times - 1), RETRY_MOST_US)
    assert 0 < last.retry_us - last.at_us <= longest_us
    later = claim.events[len(claim.now.events) :]
    again = [e for e in later if isinstance(e, GangProposed) and e.job_id == last.job_id]
    assert not again or again[0].at_us >= last.retry_us
