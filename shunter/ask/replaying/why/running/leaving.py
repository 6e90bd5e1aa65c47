"""Why a job that still has its GPUs is about to leave them: who or what ordered it."""

from shunter.ask.replaying.formatting import allocation_in_words, names_partners
from shunter.ask.replaying.instants import clock
from shunter.ask.replaying.why.explanation import Explanation
from shunter.ask.replaying.why.job_events import Own
from shunter.ask.replaying.why.ranking import decision_in_words
from shunter.ask.replaying.why.running.phases import order_to_leave
from shunter.core.state import JobPhase
from shunter.events.facts.decisions import AllocationChanged
from shunter.events.facts.execution import JobSuspended

SERVERS_NAMED = 4


def leaves_by(found: Explanation) -> Own | None:
    """Return what makes a job leave its GPUs that is about to; None: nothing does."""
    job = found.job
    if job is None or job.phase is not JobPhase.suspending:
        return None
    order = order_to_leave(job, [(own.seq, own.event) for own in found.story.own])
    if order is None:
        return None
    return next(own for own in found.story.own if own.seq == order[0])


def leaving_in_words(found: Explanation) -> list[str]:
    """Return when it was told to leave, by which decision, why, and for whom."""
    own = leaves_by(found)
    if own is None:
        return []
    event, at = own.event, clock(own.event.at_us)
    if isinstance(event, JobSuspended):
        cause = f": {event.cause}" if event.cause else ""
        return [f"it stopped by itself at {at} (e{own.seq}){cause}; it has yet to leave its GPUs"]
    assert isinstance(event, AllocationChanged), "nothing else makes it leave"
    goes = f"move to {allocation_in_words(event.allocation, SERVERS_NAMED)}"
    what = goes if event.allocation.shares else "leave"
    number = "" if own.round is None else f" of round {own.round.number}"
    why, because = decision_in_words(found, own), event.because
    gain = f" for {', '.join(because.beneficiaries)}"
    if because.beneficiaries and gain not in why and not names_partners(because):
        why += f",{gain}"
    return [f"it was told to {what} at {at} by e{own.seq}{number}: {why}"]
