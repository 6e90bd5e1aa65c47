"""What whoever runs the daemon is told of a policy that fails: in the journal, all of it.

The log has where it failed and what was raised; the lines that lead there are for whoever mends it.
"""

from collections.abc import Callable

import anyio

from shunter.app.live.feed import Feed
from shunter.app.live.policy import AskedPolicy
from shunter.core.scheduler import Scheduler
from shunter.events.facts.decisions import NO_SUCH_JOB, PlanRejected, PolicySetAside, RoundPlanned

__all__ = ["Tell", "tell_delays", "tell_faults"]

Tell = Callable[[str], None]
"""Told what has happened, in one or more lines."""

DELAY_S = 5.0
LOOK_S = 1.0


async def tell_faults(feed: Feed, core: Scheduler, asked: AskedPolicy, tell: Tell) -> None:
    """Tell of each fault once, and when the policy works again, until the log closes."""
    name, last, names_nobody = core.policy.name, core.state.policy_fault, False
    if last:
        tell(_in_words(asked, last))
    async for _, event in feed.follow(feed.committed):
        if isinstance(event, RoundPlanned) and event.fault != last:
            last = event.fault
            tell(_in_words(asked, last) if last else f"policy {name} works again")
        elif isinstance(event, PolicySetAside):
            tell(
                f"policy {name} is set aside, jobs run on and none starts until this daemon is "
                f"started anew: {event.cause}"
            )
        elif isinstance(event, PlanRejected) and event.detail == NO_SUCH_JOB and not names_nobody:
            names_nobody = True
            tell(
                f"policy {name} plans for jobs that do not exist, the first of them "
                f"{event.job_id!r}: refused, each time as a PlanRejected in the log"
            )


async def tell_delays(asked: AskedPolicy, tell: Tell) -> None:
    """Tell once of each planning that takes long, for ever."""
    told = False
    while True:
        await anyio.sleep(LOOK_S)
        hook, since_s = asked.busy
        if since_s < DELAY_S:
            told = False
        elif not told:
            told = True
            tell(
                f"policy {asked.name} has been at work for {since_s:.0f} s ({hook}): commands "
                f"wait for it; it is set aside after policy.time_limit, {asked.limit_s:g} s"
            )


def _in_words(asked: AskedPolicy, fault: str) -> str:
    lines = f"\n{asked.trace}" if asked.trace else ""
    return f"policy {asked.name} failed, jobs run on and none starts: {fault}{lines}"
