"""What whoever runs the daemon is told of a policy that fails: in the journal, all of it.

The log has where it failed and what was raised; the lines that lead there are for whoever mends it.
"""

from collections.abc import Callable
from traceback import format_exception

from shunter.app.live.feed import Feed
from shunter.core.scheduler import Scheduler
from shunter.events.facts.decisions import RoundPlanned

__all__ = ["Tell", "tell_faults"]

Tell = Callable[[str], None]
"""Told what has happened, in one or more lines."""


async def tell_faults(feed: Feed, core: Scheduler, tell: Tell) -> None:
    """Tell of each fault once, and when the policy works again, until the log closes."""
    last = core.state.policy_fault
    if last:
        tell(_in_words(core, last))
    async for _, event in feed.follow(feed.committed):
        if isinstance(event, RoundPlanned) and event.fault != last:
            last = event.fault
            tell(_in_words(core, last) if last else f"policy {core.policy.name} works again")


def _in_words(core: Scheduler, fault: str) -> str:
    error = core.careful.error if core.careful is not None else None
    lines = "" if error is None else "\n" + "".join(format_exception(error)).rstrip()
    return f"policy {core.policy.name} failed, jobs run on and none starts: {fault}{lines}"
