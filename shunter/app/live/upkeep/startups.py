"""A word to whoever runs the daemon where jobs take longer to start than a turn lasts.

A job that must leave after its turn has then spent more of its time preparing than training.
"""

from typing import Any

from shunter.app.live.feed import Feed
from shunter.app.live.upkeep.faults import Tell
from shunter.core.planning.planner import RoundRules
from shunter.core.ports import Policy
from shunter.core.ranking import RankedPolicy
from shunter.core.scheduler import Scheduler
from shunter.events.facts.execution import TrainingStarted

__all__ = ["tell_slow_starts", "turn_of"]


async def tell_slow_starts(feed: Feed, core: Scheduler, tell: Tell) -> None:
    """Tell of a start that takes longer than a turn, then of each twice as long."""
    turn_us, key = turn_of(core.policy, core.rules)
    most_us = turn_us
    async for _, event in feed.follow(feed.committed):
        if not turn_us or not isinstance(event, TrainingStarted):
            continue
        job = core.state.jobs.get(event.job_id)
        if job is None or job.attempt != event.attempt or job.since_us is None:
            continue
        took_us = event.at_us - job.since_us
        if took_us > most_us:
            most_us = 2 * took_us
            tell(
                f"job {job.job_id} took {took_us / 1e6:.1f} s from its launch to its first "
                f"mini-batch, and a turn is {turn_us / 1e6:g} s: jobs that take turns spend more "
                f"time starting than training; make {key} longer"
            )


def turn_of(policy: Policy[Any], rules: RoundRules) -> tuple[int, str]:
    """Return how long a job has its turn, and the key that says so.

    0 where nobody takes turns: the policy preempts nobody, or decides at events and guards nobody.
    """
    timing = getattr(policy, "timing", None)
    turn_us = getattr(timing, "turn_us", 0)
    if turn_us:
        return int(turn_us), f"policy.params.{policy.name}.turn"
    if isinstance(policy, RankedPolicy) and not policy.index.preemptive:
        return 0, ""
    if rules.round_us >= rules.guards.min_runtime_us:
        return rules.round_us, "policy.round"
    return rules.guards.min_runtime_us, "policy.guards.min_runtime"
