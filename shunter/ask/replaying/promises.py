"""What a promise of GPUs counts on, under EASY backfilling: the time limits that jobs declare.

A job that declares none counts as running for as long as the policy says, a year by default. So a
promise may be far later than anybody expects, and a short job that declares no limit is not started
before the promised one. Both are told where they matter.
"""

from shunter.ask.replaying.instants import SECOND_US, clock, span
from shunter.core.ranking import RankedPolicy
from shunter.core.ranking.ranking import Misfit
from shunter.core.state import Job, State
from shunter.events.values.ids import JobId

_DAY_US = 86_400 * SECOND_US


def default_limit_of(policy: object) -> int | None:
    """Return as how long a job without a time limit counts.

    None: the policy makes no promises by limits.
    """
    if not isinstance(policy, RankedPolicy) or policy.index.misfit is not Misfit.reserved:
        return None
    return policy.default_limit_us


def promise_basis(policy: object, state: State) -> str:
    """Return what promises count on, as a clause; empty: not on limits."""
    default_us = default_limit_of(policy)
    if default_us is None:
        return ""
    there = [job.spec.time_limit_us for job in state.jobs.values() if job.allocation.shares]
    without = there.count(None)
    if not without:
        return "the promise counts on the time limits of the jobs that have GPUs"
    if without == len(there) == 1:
        which = "the job that has GPUs declares none, and counts"
    elif without == len(there):
        which = f"none of the {len(there)} jobs that have GPUs declares one; each counts"
    else:
        said = "declares none, and counts" if without == 1 else "declare none, and count"
        which = f"{without} of the {len(there)} jobs that have GPUs {said}"
    counts = f"{which} as running for {_assumed(policy, default_us)}"
    return f"the promise counts on time limits, and {counts}"


def outlasts(policy: object, job: Job, state: State, at_us: int) -> str:
    """Return that a promise keeps a job that would fit waiting; empty: none does.

    Args:
        policy: the one at work.
        job: one that waits, and for which enough GPUs are free.
        state: that of the instant, in which it does.
        at_us: the instant.
    """
    default_us, head = default_limit_of(policy), _promised(job, state)
    if default_us is None or head is None:
        return ""
    promised_us, limit_us = state.reservations[head], job.spec.time_limit_us
    left_us = (default_us if limit_us is None else limit_us) - job.occupied_us(at_us)
    if at_us + max(0, left_us) <= promised_us:
        return ""
    own = (
        f"it declares no time limit, and counts as running for {_assumed(policy, default_us)}"
        if limit_us is None
        else f"by its time limit it may run for {_days(max(0, left_us))}"
    )
    return (
        f"it is not started before {head}, to which GPUs are promised from {clock(promised_us)} "
        f"on: {own}, so it would outlast that"
    )


def _promised(job: Job, state: State) -> JobId | None:
    """Return another job to which GPUs are promised."""
    others = [job_id for job_id in state.reservations if job_id != job.job_id]
    return others[0] if others and job.job_id not in state.reservations else None


def _assumed(policy: object, default_us: int) -> str:
    assert isinstance(policy, RankedPolicy), "only those promise by limits"
    return f"{_days(default_us)} (policy.params.{policy.name}.default_limit)"


def _days(duration_us: int) -> str:
    """Return a duration in words; whole days as they are configured."""
    is_whole = duration_us >= _DAY_US and not duration_us % _DAY_US
    return f"{duration_us // _DAY_US}d" if is_whole else span(duration_us)
