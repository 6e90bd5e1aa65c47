"""What each reason of `why` claims, as a question to the brute force: one function a reason.

A reason that a round told is held against the state right after that round, its numbers and
blockers against the state of the instant that was asked for.
"""

from collections.abc import Callable

from shunter.core import Job, JobPhase
from shunter.events import (
    AllocationChanged,
    AttemptLost,
    JobId,
    JobSuspended,
    RoundPlanned,
    Sharing,
    SuspendMode,
)
from tests.replay.truth.brute_force import HOUR_US, RANKS, SERVED, Truth, gpus_of
from tests.replay.truth.claim import Claim
from tests.replay.truth.mixed_runs import MIN_RUNTIME_S, PREEMPTIONS_MOST, is_sized
from tests.replay.truth.proposal_claims import admitted, awaits_proposal, proposal_rejected

__all__ = ["CLAIMS", "check"]

GRACE_US = 480_000_000
"""The longest time after a start from which a minimum runtime may count: eight minutes."""


def check(claim: Claim) -> None:
    """Check all that was said of a waiting job: its reason, the numbers, who blocks."""
    reason = claim.said["reason"]["name"]
    assert reason in CLAIMS, f"nothing here says when {reason} is true"
    CLAIMS[reason](claim)
    _numbers(claim, reason)
    _blockers(claim, reason)
    if claim.now.name in RANKS and claim.said["rank"] is not None:
        _rank(claim)


def _no_capacity(claim: Claim) -> None:
    assert claim.then.most_free(claim.demand.gpu_types) < claim.demand.gpus


def _outranked(claim: Claim) -> None:
    """It had to leave for those named; or others hold or get what it needs, or go first."""
    then, decision = claim.then, claim.said["decision"]
    if decision is not None and decision["of"] == "job":
        assert claim.decision is not None
        begin, end = claim.decision
        got = {
            event.job_id
            for event in claim.events[begin - 1 : end]
            if isinstance(event, AllocationChanged) and event.allocation.shares
        }
        assert set(decision["beneficiaries"]) <= got | admitted(then)
        return
    holds = then.most_free(claim.demand.gpu_types) < claim.demand.gpus
    others = [each for each in then.waiting() if each.job_id != claim.job.job_id]
    assert holds or not then.fits(claim.job) or others


def _is_placed(claim: Claim) -> bool:
    """Say whether there is a place for it, and GPUs enough for those too that may start before."""
    then = claim.then
    kept = sum(each.demand.gpus for each in _admitted_before(claim, then))
    return (
        then.fits(claim.job)
        and then.most_free(claim.demand.gpu_types) - kept >= claim.job.demand.gpus
    )


def _has_no_place(claim: Claim) -> None:
    """There are enough GPUs, free or with others, and none of all ways to place it is free."""
    then = claim.then
    assert not _is_placed(claim)
    assert then.most_in_service(claim.demand.gpu_types) >= claim.demand.gpus


def _short_beside(claim: Claim) -> None:
    """No place has the CPUs; without them there would be one, at least where others left.

    Jobs before it that the order lets start take CPUs too, at places that are yet to be proposed.
    """
    then = claim.then
    assert claim.demand.cpus_milli or is_sized(then.run)
    before = _admitted_before(claim, then)
    assert not _is_placed(claim) or any(each.demand.cpus_milli for each in before)
    assert then.fits(claim.job, claim.leavers, with_beside=False)


def _quota(claim: Claim) -> None:
    queue = claim.job.spec.queue
    quota = claim.then.state.queues[queue].quota_gpus
    assert quota is not None
    used = claim.then.queue_gpus(queue) + _kept_of_quota(claim, claim.then)
    assert used + claim.demand.gpus > quota


def _kept_of_quota(claim: Claim, truth: Truth) -> int:
    """Return the GPUs of those of its queue that may start before it."""
    before, queue = _admitted_before(claim, truth), claim.job.spec.queue
    return sum(each.demand.gpus for each in before if each.spec.queue == queue)


def _admitted_before(claim: Claim, truth: Truth) -> list[Job]:
    """Return the jobs before it that the order lets start, where job schedulers propose."""
    found = [truth.jobs[job_id] for job_id in sorted(admitted(truth))]
    job = truth.jobs.get(claim.job.job_id)
    if job is None or truth.name not in RANKS:  # the reason of its class may be older than it
        return found
    return [each for each in found if truth.key(each) < truth.key(job)]


def _guarded(claim: Claim) -> None:
    then = claim.then
    assert not _is_placed(claim)
    assert any(
        _is_young(each, then.at_us) or _is_harassed(each, then.at_us) for each in claim.leavers
    )


def _is_young(job: Job, at_us: int) -> bool:
    began_us = job.attempt_began_us
    return began_us is None or at_us - began_us < MIN_RUNTIME_S * 1_000_000 + GRACE_US


def _is_harassed(job: Job, at_us: int) -> bool:
    recent = [each for each in job.preempted_at_us if each > at_us - HOUR_US]
    return len(recent) >= PREEMPTIONS_MOST or job.spec.suspend_mode is SuspendMode.never


def _not_looked_at(claim: Claim) -> None:
    """No round was planned since it began to wait for one."""
    since_us = claim.said["reason"]["since_us"]
    rounds = [
        event.at_us
        for event in claim.now.events
        if isinstance(event, RoundPlanned) and event.at_us > since_us
    ]
    assert not rounds


def _depends(claim: Claim) -> None:
    pending = [each.job_id for each in claim.job.spec.depends_on if each.job_id in claim.now.jobs]
    assert pending
    assert [each["id"] for each in claim.said["evidence"]["blockers"]] == pending


def _granted(claim: Claim) -> None:
    """It was given GPUs on which others still are: those are the blockers, and all of them.

    Who is to share a GPU with it stays there, and is none.
    """
    job, evidence = claim.job, claim.said["evidence"]
    assert job.phase is JobPhase.granted
    given = gpus_of(job.allocation)
    packed = job.allocation.sharing is Sharing.packed
    on_them = {
        each.job_id: leaves
        for each in claim.now.jobs.values()
        for stays in [gpus_of(each.allocation) if packed else set()]
        if each.job_id != job.job_id and (leaves := gpus_of(each.held) & given - stays)
    }
    assert {each["id"] for each in evidence["blockers"]} == set(on_them)
    assert evidence["needed"] == len(given)
    assert evidence["free"] == len(given) - len(set().union(*on_them.values()))


def _lost(claim: Claim) -> None:
    """Its last attempt was lost and nobody looked since; or too few GPUs are in service."""
    if claim.said["reason"]["detail"]:
        own = [
            event
            for event in claim.now.events
            if isinstance(event, AttemptLost | JobSuspended) and event.job_id == claim.job.job_id
        ]
        assert isinstance(own[-1], AttemptLost)
        assert own[-1].cause == claim.said["reason"]["detail"]
        return
    assert claim.then.most_in_service(claim.demand.gpu_types) < claim.demand.gpus


def _no_type(claim: Claim) -> None:
    assert not claim.then.most_in_service(claim.demand.gpu_types)


def _divided(claim: Claim) -> None:
    """Others have their turn: it got as much of the type as it should, or not yet."""
    decision, detail = claim.said["decision"], claim.said["reason"]["detail"]
    assert not claim.job.allocation.shares
    assert claim.leavers or decision is None or decision["of"] == "job"
    if detail:
        _, gpu_type, target, received = detail.split(":")
        assert gpu_type in {each.configuration.gpu_type for each in claim.now.servers()}
        is_met = float(received) >= float(target)
        assert is_met == (claim.said["reason"]["name"] == "share_met")


CLAIMS: dict[str, Callable[[Claim], None]] = {
    "awaiting_proposal": awaits_proposal,
    "cpu_or_memory_short": _short_beside,
    "dependency": _depends,
    "fragmented": _has_no_place,
    "gpu_type_unavailable": _no_type,
    "guard_min_runtime": _guarded,
    "guard_preemption_limit": _guarded,
    "locality_not_met": _has_no_place,
    "no_capacity": _no_capacity,
    "node_lost": _lost,
    "outranked": _outranked,
    "proposal_rejected": proposal_rejected,
    "quota": _quota,
    "share_met": _divided,
    "time_sliced": _divided,
    "waiting_for_release": _granted,
    "waiting_for_round": _not_looked_at,
}
"""What must be true for each reason that a simulation without people gives."""

NOT_OF_GPUS = ("dependency", "waiting_for_release")


def _numbers(claim: Claim, reason: str) -> None:
    """Check what it needs, finds free, may take from others, and misses."""
    evidence, now, demand = claim.said["evidence"], claim.now, claim.demand
    if reason in NOT_OF_GPUS:
        return
    assert evidence["needed"] == demand.gpus
    if reason == "quota":
        queue = now.state.queues[claim.job.spec.queue]
        assert queue.quota_gpus is not None
        left = max(0, queue.quota_gpus - now.queue_gpus(queue.name) - _kept_of_quota(claim, now))
        assert evidence["free"] == left
    else:
        found = {len(gpus) for gpus in now.free(demand.gpu_types).values()}
        assert evidence["free"] in found
        if not evidence["behind"]:
            assert evidence["free"] == max(found)
    assert evidence["missing"] == max(0, demand.gpus - evidence["free"] - evidence["behind"])


def _blockers(claim: Claim, reason: str) -> None:
    """Check that each is there, as it is told, and that the job cannot make it leave."""
    now, job = claim.now, claim.job
    for told in claim.said["evidence"]["blockers"]:
        other = now.jobs[JobId(told["id"])]
        has = other.allocation if other.allocation.shares else other.held
        assert (told["phase"], told["gpus"]) == (other.phase, has.gpus)
        assert told["user"] == other.spec.user
        assert told["since_us"] == now.came_us(other.job_id)
        assert told["attained_gpu_s"] == other.service_us(now.at_us) / 1e6
        if reason in NOT_OF_GPUS:
            continue
        assert other.allocation.shares or other in now.waiting()
        if reason == "quota":
            assert other.spec.queue == job.spec.queue or other in now.waiting()
        if now.name in RANKS:
            is_served = now.name in SERVED and other in now.holders()
            assert is_served or now.key(other) < now.key(job)


def _rank(claim: Claim) -> None:
    """Check the place in the queue, and who stands before it."""
    now, told = claim.now, claim.said["rank"]
    queue = sorted(now.waiting(), key=now.key)
    place = queue.index(claim.job)
    assert (told["position"], told["waiting"]) == (place + 1, len(queue))
    assert told["ahead"] == [each.job_id for each in queue[:place][:3]]
